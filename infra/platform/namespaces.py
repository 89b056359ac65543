"""The namespaces, each with the Pod Security level that its pods keep to."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import pulumi
import pulumi_kubernetes as kubernetes

from infra.component import Component
from infra.names import NAMESPACE_GPU, NAMESPACE_TRAINING, NAMESPACE_VOLCANO
from infra.versions import KUBERNETES_MINOR

POD_SECURITY: Final[Mapping[str, str]] = MappingProxyType(
    {
        NAMESPACE_TRAINING: "restricted",
        NAMESPACE_VOLCANO: "restricted",
        # Device plugins mount the kubelet's socket folder and the devices.
        NAMESPACE_GPU: "privileged",
    }
)


def pod_security_labels(level: str) -> dict[str, str]:
    """Labels that enforce, audit and warn at one level, as Kubernetes' pinned minor defines it."""
    labels: dict[str, str] = {}
    for mode in ("enforce", "audit", "warn"):
        labels[f"pod-security.kubernetes.io/{mode}"] = level
        labels[f"pod-security.kubernetes.io/{mode}-version"] = f"v{KUBERNETES_MINOR}"
    return labels


class Namespaces(Component):
    """Namespaces of the jobs, of Volcano and of the device plugins."""

    training: pulumi.Output[str]
    volcano: pulumi.Output[str]
    gpu: pulumi.Output[str]

    def __init__(self, name: str, *, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("platform:Namespaces", name, opts)
        made = {
            namespace: kubernetes.core.v1.Namespace(
                f"{name}-{namespace}",
                metadata=kubernetes.meta.v1.ObjectMetaArgs(
                    name=namespace, labels=pod_security_labels(level)
                ),
                opts=self._opts(),
            )
            for namespace, level in POD_SECURITY.items()
        }
        self.training = made[NAMESPACE_TRAINING].metadata.name
        self.volcano = made[NAMESPACE_VOLCANO].metadata.name
        self.gpu = made[NAMESPACE_GPU].metadata.name
        self.register_outputs({"training": self.training})
