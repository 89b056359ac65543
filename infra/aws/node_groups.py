"""NodeGroups: an EKS node group with its launch template for each pool, and the nodes' role.

What a node does when it starts is in user_data.py, what the autoscaler must know in autoscaling.py.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import pulumi
import pulumi_aws as aws
from pulumi_aws.ec2 import (
    LaunchTemplateArgs,
    LaunchTemplateBlockDeviceMappingArgs,
    LaunchTemplateBlockDeviceMappingEbsArgs,
    LaunchTemplateMetadataOptionsArgs,
    LaunchTemplateNetworkInterfaceArgs,
    LaunchTemplatePlacementArgs,
    LaunchTemplateTagSpecificationArgs,
)
from pulumi_aws.eks import (
    NodeGroupArgs,
    NodeGroupLaunchTemplateArgs,
    NodeGroupNodeRepairConfigArgs,
    NodeGroupScalingConfigArgs,
    NodeGroupTaintArgs,
    NodeGroupUpdateConfigArgs,
)

from infra.accelerators import ACCELERATORS
from infra.aws.autoscaling import group_labels, group_tags, tag_group_behind, template_tags
from infra.aws.iam import trust
from infra.aws.user_data import bootstrap_script, encoded, node_config
from infra.component import Component
from infra.config import NodePool, StackConfig
from infra.node_pools import node_taints
from infra.versions import KUBERNETES_MINOR

AMI_TYPE_WITHOUT_GPU: Final = "AL2023_x86_64_STANDARD"
ROOT_DEVICE: Final = "/dev/xvda"
"""Of EKS' own images, Amazon Linux 2023."""
ROOT_DEVICE_OF_OWN_IMAGE: Final = "/dev/sda1"
"""Of Canonical's images, from which our own are made."""

NODE_POLICIES: Final = (
    # Not the "Minimal" one: the bootstrap of Ubuntu asks EC2 for the machine's host name.
    "AmazonEKSWorkerNodePolicy",
    "AmazonEC2ContainerRegistryPullOnly",
    # Session Manager is the only way onto a node that does not join: there is no SSH.
    "AmazonSSMManagedInstanceCore",
)
"""The nodes' own; addresses and volumes are managed by pods, which have roles of their own."""


def ami_type(pool: NodePool) -> str | None:
    """EKS' image family for the pool; None where the launch template names an image."""
    return AMI_TYPE_WITHOUT_GPU if pool.vendor is None else ACCELERATORS[pool.vendor].ami_type


def user_data(
    pool_name: str,
    pool: NodePool,
    *,
    cluster_name: str,
    endpoint: str,
    certificate_authority: str,
) -> str:
    """What a machine of the pool does to become a node, in base64. Raises ValueError."""
    # The table has a device to wait for where, and only where, the image is our own.
    device = None if pool.vendor is None else ACCELERATORS[pool.vendor].device_file
    if device is None:
        return encoded(node_config())
    script = bootstrap_script(
        cluster_name=cluster_name,
        endpoint=endpoint,
        certificate_authority=certificate_authority,
        device_file=device,
        labels=group_labels(pool_name, pool),
        taints=node_taints(pool),
    )
    return encoded(script)


def launch_template_args(
    pool: NodePool,
    *,
    image_id: str | None,
    user_data: pulumi.Input[str],
    security_group_ids: Sequence[pulumi.Input[str]],
    disks_key_arn: pulumi.Input[str],
    placement_group: pulumi.Input[str] | None,
    tags: Mapping[str, str],
) -> LaunchTemplateArgs:
    """The machine: what EKS does not take as a node group's own setting, and nothing that it does.

    There is no key pair, and no instance profile, which EKS makes from the node group's role.
    """
    return LaunchTemplateArgs(
        image_id=image_id,
        user_data=user_data,
        update_default_version=True,
        block_device_mappings=[
            LaunchTemplateBlockDeviceMappingArgs(
                device_name=ROOT_DEVICE_OF_OWN_IMAGE if pool.needs_own_image else ROOT_DEVICE,
                ebs=LaunchTemplateBlockDeviceMappingEbsArgs(
                    volume_size=pool.disk_gib,
                    volume_type="gp3",
                    encrypted="true",
                    kms_key_id=disks_key_arn,
                    delete_on_termination="true",
                ),
            )
        ],
        # Named here, security groups replace the cluster's own, so that one is among them.
        network_interfaces=[
            LaunchTemplateNetworkInterfaceArgs(
                device_index=0,
                associate_public_ip_address="false",
                delete_on_termination="true",
                security_groups=list(security_group_ids),
            )
        ],
        # One hop ends on the node: pods cannot borrow its role, they have Pod Identity.
        metadata_options=LaunchTemplateMetadataOptionsArgs(
            http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=1
        ),
        placement=(
            None
            if placement_group is None
            else LaunchTemplatePlacementArgs(group_name=placement_group)
        ),
        # Neither the provider's default tags nor the node group's reach what EC2 launches.
        tag_specifications=[
            LaunchTemplateTagSpecificationArgs(resource_type=kind, tags=dict(tags))
            for kind in ("instance", "volume")
        ],
    )


def node_group_args(
    pool_name: str,
    pool: NodePool,
    *,
    cluster_name: pulumi.Input[str],
    role_arn: pulumi.Input[str],
    subnet_ids: Sequence[pulumi.Input[str]],
    template: NodeGroupLaunchTemplateArgs,
) -> NodeGroupArgs:
    """The group. EKS names it, so that a replacement can exist beside what it replaces."""
    family = ami_type(pool)
    return NodeGroupArgs(
        cluster_name=cluster_name,
        node_role_arn=role_arn,
        subnet_ids=list(subnet_ids),
        launch_template=template,
        # EKS refuses both, and `release_version`, where the launch template names an image.
        # `release_version` is left open for EKS' images too: a new group takes the newest of the
        # minor and keeps it, and we know no release that EKS promises to keep.
        ami_type=family,
        version=None if family is None else KUBERNETES_MINOR,
        instance_types=[pool.instance_type, *pool.other_instance_types],
        capacity_type=pool.capacity.upper(),
        scaling_config=NodeGroupScalingConfigArgs(
            desired_size=pool.size, min_size=pool.min_size, max_size=pool.max_size
        ),
        labels=group_labels(pool_name, pool),
        taints=[NodeGroupTaintArgs(**taint.for_eks()) for taint in node_taints(pool)],
        tags=pulumi.Output.from_input(cluster_name).apply(
            lambda known: group_tags(pool_name, pool, cluster_name=known)
        ),
        update_config=NodeGroupUpdateConfigArgs(max_unavailable=1),
        node_repair_config=NodeGroupNodeRepairConfigArgs(enabled=True),
    )


class NodeGroups(Component):
    """All pools' nodes."""

    groups: dict[str, aws.eks.NodeGroup]
    """Pool name -> its group."""
    role_arn: pulumi.Output[str]
    role_name: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        config: StackConfig,
        *,
        cluster_name: pulumi.Input[str],
        endpoint: pulumi.Input[str],
        certificate_authority: pulumi.Input[str],
        security_group_ids: Sequence[pulumi.Input[str]],
        node_subnet_ids: Sequence[pulumi.Input[str]],
        gpu_subnet_id: pulumi.Input[str],
        disks_key_arn: pulumi.Input[str],
        tags: Mapping[str, str] | None = None,
        after: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`certificate_authority` is in base64.

        The cluster's own security group has to be among `security_group_ids`. `tags` go onto
        machines and their disks. `after` is what has to exist before a node can join.
        """
        super().__init__("aws:NodeGroups", name, opts)
        role = aws.iam.Role(
            f"{name}-role", assume_role_policy=trust("ec2.amazonaws.com"), opts=self._opts()
        )
        # Not `iam.role`: nothing can wait for policies that are below a role, and without them no
        # node joins, nor does EKS clean up after one.
        policies = [
            aws.iam.RolePolicyAttachment(
                f"{name}-role-{each}",
                role=role.name,
                policy_arn=f"arn:aws:iam::aws:policy/{each}",
                opts=self._opts(),
            )
            for each in NODE_POLICIES
        ]
        placement_group = (
            aws.ec2.PlacementGroup(f"{name}-gpus", strategy="cluster", opts=self._opts()).name
            if config.cloud.placement_group and config.vendors
            else None
        )
        known = pulumi.Output.all(
            cluster_name=cluster_name,
            endpoint=endpoint,
            certificate_authority=certificate_authority,
        )
        self.groups = {}
        for pool_name, pool in config.node_pools.items():
            has_gpus = pool.vendor is not None
            template = aws.ec2.LaunchTemplate(
                f"{name}-{pool_name}",
                launch_template_args(
                    pool,
                    image_id=config.cloud.amd_image_id if pool.needs_own_image else None,
                    user_data=_user_data(pool_name, pool, known),
                    security_group_ids=security_group_ids,
                    disks_key_arn=disks_key_arn,
                    placement_group=placement_group if has_gpus else None,
                    tags={**(tags or {}), "Name": f"{config.full_name}-{pool_name}"},
                ),
                opts=self._opts(),
            )
            group = aws.eks.NodeGroup(
                f"{name}-{pool_name}",
                node_group_args(
                    pool_name,
                    pool,
                    cluster_name=cluster_name,
                    role_arn=role.arn,
                    # Traffic between zones costs more than the machines, so GPUs have one subnet.
                    subnet_ids=[gpu_subnet_id] if has_gpus else node_subnet_ids,
                    template=NodeGroupLaunchTemplateArgs(
                        id=template.id, version=template.latest_version.apply(str)
                    ),
                ),
                opts=pulumi.ResourceOptions.merge(
                    self._opts(after=[*policies, *after]),
                    # The autoscaler's from the first minute on.
                    pulumi.ResourceOptions(ignore_changes=["scalingConfig.desiredSize"]),
                ),
            )
            tag_group_behind(
                f"{name}-{pool_name}",
                group.resources,
                template_tags(pool_name, pool),
                cluster_name=cluster_name,
                opts=self._opts(),
            )
            self.groups[pool_name] = group
        self.role_arn = role.arn
        self.role_name = role.name
        self.register_outputs({"role_arn": self.role_arn})


def _user_data(
    pool_name: str, pool: NodePool, known: pulumi.Output[dict[str, str]]
) -> pulumi.Output[str]:
    return known.apply(lambda cluster: user_data(pool_name, pool, **cluster))
