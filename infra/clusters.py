"""Where a stack's cluster comes from: made in the cloud, or there already."""

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from infra.config import StackConfig


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster as the platform sees it."""

    provider: kubernetes.Provider
    ready: list[pulumi.Resource]
    """Before these no pod could run in it."""
    outputs: dict[str, pulumi.Input[object]]
    """What the stack tells people about it."""


def cluster_of(config: StackConfig) -> Cluster:
    """The stack's cluster; one in the cloud is made."""
    if config.aws is None:
        provider = kubernetes.Provider("cluster", kubeconfig=config.kubeconfig)
        return Cluster(provider=provider, ready=[], outputs={})
    # Only here: AWS's package takes a second to load, and other stacks have no use for it.
    from infra.aws.cloud import Cloud

    cloud = Cloud("cloud", config)
    return Cluster(
        provider=cloud.cluster,
        ready=cloud.ready,
        outputs={
            "kubeconfig": cloud.kubeconfig,
            "repositories": cloud.repository_urls,
            "bucket": cloud.bucket,
        },
    )
