"""Cluster Autoscaler: the tags by which it scales a node group from zero, and its release.

What a tag may say is in kubernetes/autoscaler, cluster-autoscaler/cloudprovider/aws/README.md.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as kubernetes

from infra import versions
from infra.accelerators import ACCELERATORS
from infra.aws.iam import POD_IDENTITY, Statement, document, trust
from infra.charts import Chart
from infra.component import Component
from infra.config import NodePool, StackConfig
from infra.names import LABEL_VENDOR, NO_VENDOR
from infra.node_pools import node_labels, node_resources, node_taints
from infra.platform.releases import release_args

CHART: Final = Chart(
    name="cluster-autoscaler",
    version=versions.CLUSTER_AUTOSCALER_CHART,
    repository=versions.CLUSTER_AUTOSCALER_REPOSITORY,
)
NAME: Final = "cluster-autoscaler"
"""Of the release, of its objects and of its service account."""
NAMESPACE: Final = "kube-system"

PREFIX: Final = "k8s.io/cluster-autoscaler"
ENABLED: Final = f"{PREFIX}/enabled"
OWNED: Final = "owned"
TEMPLATE: Final = f"{PREFIX}/node-template"
LABEL_ACCELERATOR: Final = "k8s.amazonaws.com/accelerator"
"""A node with this label counts as ready only when it advertises a GPU, of whichever vendor."""

GPU_UNNEEDED: Final = "30m0s"
"""A node that waits for the rest of its gang looks idle meanwhile, and its own boot is paid for."""

MAX_KEY: Final = 128
MAX_VALUE: Final = 256
_ALLOWED: Final = re.compile(r"[0-9A-Za-z +\-=._:/@]*")
"""What all of AWS takes, in ASCII."""


def group_labels(pool_name: str, pool: NodePool) -> dict[str, str]:
    """Labels of the pool's nodes in the cloud: everywhere's, and the autoscaler's for GPUs.

    Without the latter the autoscaler takes a node that has joined, and whose device plugin has not
    started yet, for one without GPU, and adds another. Its value only names a metric.
    """
    labels = node_labels(pool_name, pool)
    return labels if pool.vendor is None else {**labels, LABEL_ACCELERATOR: pool.vendor.value}


def owner_tag(cluster_name: str) -> str:
    """The key that says whose a group is; its value is OWNED."""
    return f"{PREFIX}/{cluster_name}"


def template_tags(pool_name: str, pool: NodePool) -> dict[str, str]:
    """Tags that say what a node of the pool would be, whatever its cluster."""
    # For every GPU instance the autoscaler assumes the count of one vendor's resource, whoever
    # made its GPU (aws_manager.go, buildNodeFromTemplate), so each vendor's is stated.
    resources = {row.resource: 0 for row in ACCELERATORS.values()} | node_resources(pool)
    tags = {
        ENABLED: "true",
        **{
            f"{TEMPLATE}/label/{key}": value for key, value in group_labels(pool_name, pool).items()
        },
        **{
            f"{TEMPLATE}/taint/{taint.key}": f"{taint.value}:{taint.effect}"
            for taint in node_taints(pool)
        },
        **{f"{TEMPLATE}/resources/{name}": str(count) for name, count in resources.items()},
        f"{TEMPLATE}/resources/ephemeral-storage": f"{ephemeral_gib(pool.disk_gib)}Gi",
    }
    if pool.vendor is not None:
        tags[f"{TEMPLATE}/autoscaling-options/scaledownunneededtime"] = GPU_UNNEEDED
    check_tags(tags)
    return tags


def group_tags(pool_name: str, pool: NodePool, *, cluster_name: str) -> dict[str, str]:
    """All tags of the pool's node group, and of the Auto Scaling group behind it."""
    tags = {**template_tags(pool_name, pool), owner_tag(cluster_name): OWNED}
    check_tags(tags)
    return tags


def ephemeral_gib(disk_gib: int) -> int:
    """What pods can ask for of a root disk: EKS reserves 1 GiB and the kubelet evicts at 10 %."""
    return disk_gib - 1 - -(-disk_gib // 10)


def check_tags(tags: Mapping[str, str]) -> None:
    """Raises ValueError with one sentence for the first tag that AWS would refuse."""
    for key, value in tags.items():
        _check_text(f"key {key!r}", key, MAX_KEY)
        _check_text(f"value {value!r} of {key}", value, MAX_VALUE)
        if not key:
            msg = f"tags: the key of value {value!r} is empty; use at least one character."
            raise ValueError(msg)


def _check_text(what: str, text: str, longest: int) -> None:
    if len(text) > longest:
        msg = f"tags: {what} has {len(text)} characters; AWS takes at most {longest}."
        raise ValueError(msg)
    if not _ALLOWED.fullmatch(text):
        msg = (
            f"tags: {what} has characters that AWS refuses; "
            "use letters, digits, spaces and + - = . _ : / @."
        )
        raise ValueError(msg)
    if text.lower().startswith("aws:"):
        msg = f"tags: {what} begins with aws:, which AWS keeps for itself; use another."
        raise ValueError(msg)


def tag_group_behind(
    name: str,
    resources: pulumi.Output[Sequence[aws.eks.outputs.NodeGroupResource]],
    tags: Mapping[str, str],
    *,
    cluster_name: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
) -> None:
    """Puts `tags` and the owner's on the Auto Scaling group among a node group's `resources`.

    EKS does not hand a node group's tags on, and the autoscaler asks EKS for them only about
    groups that never had a node.
    """
    keys: dict[str, tuple[pulumi.Input[str], str]] = {
        key.removeprefix(f"{TEMPLATE}/").removeprefix(f"{PREFIX}/"): (key, value)
        for key, value in tags.items()
    }
    owner = pulumi.Output.from_input(cluster_name).apply(owner_tag)
    for short, (key, value) in {**keys, "owner": (owner, OWNED)}.items():
        aws.autoscaling.Tag(
            f"{name}-{short.replace('/', '-')}",
            autoscaling_group_name=resources.apply(_name_behind),
            # The machines need no tags about themselves.
            tag=aws.autoscaling.TagTagArgs(key=key, value=value, propagate_at_launch=False),
            opts=opts,
        )


def _name_behind(resources: Sequence[aws.eks.outputs.NodeGroupResource] | None) -> str:
    """Name of the group that EKS made; empty without an engine, where nothing was made."""
    groups = resources[0].autoscaling_groups if resources else None
    return (groups[0].name or "") if groups else ""


def policy(*, region: str, account_id: str, cluster_name: str) -> str:
    """What the autoscaler may do: read, and change the size of this cluster's groups."""
    return document(
        Statement(
            sid="Read",
            # None of these can be limited to a resource (service authorization reference).
            actions=[
                "autoscaling:DescribeAutoScalingGroups",
                "autoscaling:DescribeAutoScalingInstances",
                "autoscaling:DescribeLaunchConfigurations",
                "autoscaling:DescribeScalingActivities",
                "ec2:DescribeImages",
                "ec2:DescribeInstanceTypes",
                "ec2:DescribeLaunchTemplateVersions",
                "ec2:GetInstanceTypesFromInstanceRequirements",
            ],
            resources=["*"],
        ),
        Statement(
            sid="ReadNodeGroups",
            actions=["eks:DescribeNodegroup"],
            resources=[f"arn:aws:eks:{region}:{account_id}:nodegroup/{cluster_name}/*"],
        ),
        Statement(
            sid="ScaleOwnGroups",
            actions=[
                "autoscaling:SetDesiredCapacity",
                "autoscaling:TerminateInstanceInAutoScalingGroup",
            ],
            # EKS chooses the groups' names, so their tags say which ones.
            resources=[
                f"arn:aws:autoscaling:{region}:{account_id}:autoScalingGroup:*:autoScalingGroupName/*"
            ],
            condition={
                "StringEquals": {
                    f"aws:ResourceTag/{ENABLED}": "true",
                    f"aws:ResourceTag/{owner_tag(cluster_name)}": OWNED,
                }
            },
        ),
    )


def chart_values(*, region: str, cluster_name: pulumi.Input[str]) -> dict[str, Any]:
    """Values of the autoscaler's chart."""
    return {
        "fullnameOverride": NAME,
        "cloudProvider": "aws",
        "awsRegion": region,  # asking the metadata service takes a hop more than nodes allow
        "autoDiscovery": {"clusterName": cluster_name},
        "image": {"tag": f"v{versions.CLUSTER_AUTOSCALER}"},
        "rbac": {"serviceAccount": {"create": True, "name": NAME}},
        "extraArgs": {
            "expander": "least-waste",
            # Groups of different vendors are not alike, however many CPUs they share.
            "balance-similar-node-groups": False,
            # Pods of kube-system would keep an empty node for an hour; coredns can move.
            "skip-nodes-with-system-pods": False,
            "scale-down-unneeded-time": "20m",
            # A GPU node of our own image takes minutes; 15 are the default.
            "max-node-provision-time": "20m",
        },
        "nodeSelector": {LABEL_VENDOR: NO_VENDOR},
        # Requests, limits and security as in upstream's own example for AWS.
        "resources": {
            "requests": {"cpu": "100m", "memory": "600Mi"},
            "limits": {"memory": "600Mi"},
        },
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65534,
            "fsGroup": 65534,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containerSecurityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }


class ClusterAutoscaler(Component):
    """The release, and what its pods may do in the account."""

    release: kubernetes.helm.v3.Release
    role_name: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        config: StackConfig,
        *,
        cluster_name: pulumi.Input[str],
        after: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`after` is what pods need: nodes without GPUs, DNS. `opts` carries both providers."""
        super().__init__("aws:ClusterAutoscaler", name, opts)
        region, account_id = config.cloud.region, config.cloud.account_id
        role = aws.iam.Role(
            f"{name}-role",
            assume_role_policy=trust(POD_IDENTITY),
            force_detach_policies=True,  # the budget's stop may be attached to it
            opts=self._opts(),
        )
        self.role_name = role.name
        allowed = aws.iam.RolePolicy(
            f"{name}-policy",
            role=role.name,
            policy=pulumi.Output.from_input(cluster_name).apply(
                lambda known: policy(region=region, account_id=account_id, cluster_name=known)
            ),
            opts=self._opts(),
        )
        # A pod gets its role when it is made, so the association comes first.
        association = aws.eks.PodIdentityAssociation(
            f"{name}-identity",
            cluster_name=cluster_name,
            namespace=NAMESPACE,
            service_account=NAME,
            role_arn=role.arn,
            opts=self._opts(after=[allowed]),
        )
        self.release = kubernetes.helm.v3.Release(
            f"{name}-release",
            release_args(
                CHART,
                name=NAME,
                namespace=NAMESPACE,
                values=chart_values(region=region, cluster_name=cluster_name),
            ),
            opts=self._opts(after=[association, *after]),
        )
        self.register_outputs({})
