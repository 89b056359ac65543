"""Everything in the cloud, in the order in which it comes to exist: from keys to the autoscaler."""

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as kubernetes

from infra.aws.addons import AddonsAfterNodes
from infra.aws.amd_image import AmdImagePipeline
from infra.aws.autoscaling import ClusterAutoscaler
from infra.aws.budget import STACK_TAG, Budget
from infra.aws.cluster import Cluster
from infra.aws.keys import Keys
from infra.aws.network import Network
from infra.aws.node_groups import NodeGroups
from infra.aws.registry import Registry
from infra.aws.storage import Storage
from infra.component import Component
from infra.config import StackConfig
from infra.names import PROJECT


def stack_tags(config: StackConfig) -> dict[str, str]:
    """What everything of a stack is tagged with; the budget counts by it."""
    return {STACK_TAG: config.stack, f"{PROJECT}:managed-by": "pulumi"}


class Cloud(Component):
    """An EKS cluster with its nodes, and what belongs to it in the account."""

    cluster: kubernetes.Provider
    """Leads to the cluster; whatever uses it is made after the administrators' rights."""
    ready: list[pulumi.Resource]
    """Before these no pod could run: nodes and DNS."""
    kubeconfig: pulumi.Output[str]
    """Secret."""
    repository_urls: dict[str, pulumi.Output[str]]
    """Image -> where to push it."""
    bucket: pulumi.Output[str]
    """Of checkpoints."""

    def __init__(
        self, name: str, config: StackConfig, *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("aws:Cloud", name, opts)
        cloud = config.cloud
        tags = stack_tags(config)
        provider = aws.Provider(
            f"{name}-account",
            region=cloud.region,
            # Credentials of another account end here, before anything is made in it.
            allowed_account_ids=[cloud.account_id],
            default_tags=aws.ProviderDefaultTagsArgs(tags=tags),
            opts=self._opts(),
        )
        below = pulumi.ResourceOptions(parent=self, providers=[provider])
        keys = Keys("keys", config, opts=below)
        network = Network("network", config, logs_key_arn=keys.logs_arn, opts=below)
        control_plane = Cluster(
            "control-plane",
            config,
            control_plane_subnet_ids=network.control_plane_subnet_ids,
            secrets_key_arn=keys.secrets_arn,
            logs_key_arn=keys.logs_arn,
            opts=below,
        )
        nodes = NodeGroups(
            "nodes",
            config,
            cluster_name=control_plane.name,
            endpoint=control_plane.endpoint,
            certificate_authority=control_plane.certificate_authority,
            security_group_ids=[control_plane.security_group_id, network.node_security_group_id],
            node_subnet_ids=list(network.node_subnet_ids.values()),
            gpu_subnet_id=network.gpu_subnet_id,
            disks_key_arn=keys.disks_arn,
            tags=tags,
            after=[*network.endpoints, *control_plane.ready_for_nodes],
            opts=below,
        )
        # Pools without GPUs: those with may have no node, and no pod of an add-on may run there.
        plain = [nodes.groups[pool] for pool, row in config.node_pools.items() if not row.vendor]
        addons = AddonsAfterNodes(
            "addons",
            config,
            cluster_name=control_plane.name,
            disks_key_arn=keys.disks_arn,
            after=plain,
            opts=below,
        )
        self.ready = [*plain, *addons.ready]
        self.kubeconfig = control_plane.kubeconfig
        self.cluster = kubernetes.Provider(
            f"{name}-cluster",
            kubeconfig=self.kubeconfig,
            # A changed certificate is still the same cluster: nothing in it is made anew.
            cluster_identifier=control_plane.name,
            opts=self._opts(after=control_plane.ready_for_kubernetes),
        )
        self.repository_urls = Registry(
            "registry", config, key_arn=keys.data_arn, opts=below
        ).repository_urls
        self.bucket = Storage(
            "storage",
            config,
            cluster_name=control_plane.name,
            key_arn=keys.data_arn,
            opts=below,
        ).bucket
        # Also without a pool that needs it: the first image is made before the first such pool. It
        # fetches a driver, so a stack without a way to the Internet takes another stack's image.
        if cloud.nat:
            AmdImagePipeline(
                "amd-image",
                config,
                vpc_id=network.vpc_id,
                subnet_id=network.gpu_subnet_id,
                disks_key_arn=keys.disks_arn,
                opts=below,
            )
        autoscaler = ClusterAutoscaler(
            "autoscaler",
            config,
            cluster_name=control_plane.name,
            after=self.ready,
            opts=pulumi.ResourceOptions(parent=self, providers=[provider, self.cluster]),
        )
        if cloud.budget is not None:
            Budget("budget", config, autoscaler_role_name=autoscaler.role_name, opts=below)
        self.register_outputs({"bucket": self.bucket})
