"""What the training namespace may use in all, and what a container gets that does not say."""

import pulumi
import pulumi_kubernetes as kubernetes

from infra.accelerators import ACCELERATORS
from infra.component import Component
from infra.config import StackConfig


def hard_limits(config: StackConfig) -> dict[str, str]:
    """The quota: everything that the pools offer at their largest, and no door to the outside.

    Vendors without a pool have 0: their jobs are refused at once, not left pending.
    """
    return {
        "pods": str(config.max_pods),
        "requests.cpu": str(config.max_vcpus),
        "requests.memory": f"{config.max_memory_mib}Mi",
        "limits.memory": f"{config.max_memory_mib}Mi",
        "services.loadbalancers": "0",
        "services.nodeports": "0",
        **{row.quota_key: str(config.max_gpus(row.vendor)) for row in ACCELERATORS.values()},
    }


class Quotas(Component):
    """ResourceQuota and LimitRange of the training namespace."""

    quota: kubernetes.core.v1.ResourceQuota

    def __init__(
        self,
        name: str,
        config: StackConfig,
        *,
        namespace: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("platform:Quotas", name, opts)
        self.quota = kubernetes.core.v1.ResourceQuota(
            f"{name}-quota",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(name="training", namespace=namespace),
            spec=kubernetes.core.v1.ResourceQuotaSpecArgs(hard=hard_limits(config)),
            opts=self._opts(),
        )
        kubernetes.core.v1.LimitRange(
            f"{name}-defaults",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(name="defaults", namespace=namespace),
            spec=kubernetes.core.v1.LimitRangeSpecArgs(
                limits=[
                    kubernetes.core.v1.LimitRangeItemArgs(
                        type="Container",
                        # The quota counts requests and memory limits, so every container has them.
                        default_request={"cpu": "100m", "memory": "128Mi"},
                        default={"memory": "1Gi"},
                    )
                ]
            ),
            opts=self._opts(),
        )
        self.register_outputs({})
