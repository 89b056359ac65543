"""Who the training pods are to the API server: nobody, they carry no token."""

import pulumi
import pulumi_kubernetes as kubernetes

from infra.component import Component
from infra.names import SERVICE_ACCOUNT_TRAINING


class ServiceAccounts(Component):
    """The jobs' account, and the namespace's `default` one for pods that name none."""

    training: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        namespace: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("platform:ServiceAccounts", name, opts)
        account = kubernetes.core.v1.ServiceAccount(
            f"{name}-{SERVICE_ACCOUNT_TRAINING}",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(
                name=SERVICE_ACCOUNT_TRAINING, namespace=namespace
            ),
            automount_service_account_token=False,
            opts=self._opts(),
        )
        # Kubernetes makes this one with the namespace, so it is patched, not created.
        kubernetes.core.v1.ServiceAccountPatch(
            f"{name}-default",
            metadata=kubernetes.meta.v1.ObjectMetaPatchArgs(name="default", namespace=namespace),
            automount_service_account_token=False,
            opts=self._opts(),
        )
        self.training = account.metadata.name
        self.register_outputs({"training": self.training})
