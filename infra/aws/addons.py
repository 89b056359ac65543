"""EKS' add-ons: what every node runs, and the cluster's DNS and volumes.

The daemons come before the first node, because without a network it never gets ready; what has
replicas comes after, because without a node it never does.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pulumi
import pulumi_aws as aws

from infra import versions
from infra.aws.iam import POD_IDENTITY, Statement, document, role
from infra.component import Component
from infra.config import StackConfig
from infra.names import LABEL_VENDOR, NO_VENDOR

VPC_CNI: Final = "vpc-cni"
KUBE_PROXY: Final = "kube-proxy"
POD_IDENTITY_AGENT: Final = "eks-pod-identity-agent"
COREDNS: Final = "coredns"
EBS_CSI_DRIVER: Final = "aws-ebs-csi-driver"

WITHOUT_GPUS: Final = {LABEL_VENDOR: NO_VENDOR}
"""Node selector of what is to stay off the nodes that scale down and cost most."""
REPLICAS: Final = 2
"""One can go with its node."""


def vpc_cni_values() -> dict[str, Any]:
    """Network policies that are enforced, and addresses by prefix: 110 pods on any node.

    `standard` lets a pod's packets through until its policies are there; `strict` would need a
    policy for each pod of the system. Event logs cost a core per node.
    """
    return {
        "enableNetworkPolicy": "true",
        "env": {
            "ENABLE_PREFIX_DELEGATION": "true",
            "WARM_PREFIX_TARGET": "1",
            "NETWORK_POLICY_ENFORCING_MODE": "standard",
        },
        "nodeAgent": {"enablePolicyEventLogs": "false"},
    }


def coredns_values() -> dict[str, Any]:
    """Two replicas; the add-on's own affinity keeps them on different nodes where it can."""
    return {"replicaCount": REPLICAS, "nodeSelector": WITHOUT_GPUS}


def ebs_csi_values(region: str) -> dict[str, Any]:
    """The controller beside the DNS, its daemon on every node."""
    return {
        "controller": {
            "replicaCount": REPLICAS,
            "nodeSelector": WITHOUT_GPUS,
            # Pods cannot ask the instance: its metadata answers to one hop.
            "region": region,
        },
        "node": {"tolerateAllTaints": True},
    }


def checked_addon_values(addon: str, values: Mapping[str, Any]) -> str:
    """An add-on's configuration as JSON.

    Raises ValueError for what its schema refuses after minutes: vpc-cni takes strings only.
    """
    if addon == VPC_CNI:
        for path, value in _leaves(values):
            if not isinstance(value, str):
                msg = (
                    f"{addon}: {path} is {value!r}, but its schema takes strings; "
                    f"write {json.dumps(json.dumps(value))}."
                )
                raise ValueError(msg)
    return json.dumps(values)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """What is neither a mapping nor a list, with the way to it."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _leaves(item, f"{path}[{place}]")
    else:
        yield path, value


def volume_policy(disks_key_arn: str) -> str:
    """What the volumes' driver needs of their key, beyond AWS' policy for it."""
    return document(
        Statement(
            sid="EncryptVolumes",
            actions=[
                "kms:Decrypt",
                "kms:DescribeKey",
                "kms:GenerateDataKeyWithoutPlaintext",
                "kms:ReEncrypt*",
            ],
            resources=[disks_key_arn],
        ),
        Statement(
            sid="GrantToInstances",
            actions=["kms:CreateGrant"],
            resources=[disks_key_arn],
            condition={"Bool": {"kms:GrantIsForAWSResource": "true"}},
        ),
    )


class _Addons(Component):
    """Add-ons of one cluster, as EKS keeps them."""

    ready: list[pulumi.Resource]
    """The add-ons: whoever needs them is made after these."""

    def _addon(
        self,
        name: str,
        addon: str,
        version: str,
        *,
        cluster_name: pulumi.Input[str],
        values: Mapping[str, Any] | None = None,
        identity: tuple[str, pulumi.Input[str]] | None = None,
        after: Sequence[pulumi.Resource] = (),
    ) -> aws.eks.Addon:
        """`identity` is a service account of the add-on, and the ARN of the role that it takes."""
        associations = None
        if identity is not None:
            account, role_arn = identity
            # The add-on's own: EKS lets it adopt none that was made apart.
            associations = [
                aws.eks.AddonPodIdentityAssociationArgs(role_arn=role_arn, service_account=account)
            ]
        return aws.eks.Addon(
            f"{name}-{addon}",
            cluster_name=cluster_name,
            addon_name=addon,
            addon_version=version,
            configuration_values=None if values is None else checked_addon_values(addon, values),
            pod_identity_associations=associations,
            # The program is what is true, at the first time and later.
            resolve_conflicts_on_create="OVERWRITE",
            resolve_conflicts_on_update="OVERWRITE",
            opts=self._opts(after=after),
        )


class AddonsBeforeNodes(_Addons):
    """Pods' network, services' addresses, and pods' roles: daemons on every node."""

    def __init__(
        self,
        name: str,
        *,
        cluster_name: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("aws:AddonsBeforeNodes", name, opts)
        agent = self._addon(
            name,
            POD_IDENTITY_AGENT,
            versions.EKS_POD_IDENTITY_AGENT,
            cluster_name=cluster_name,
        )
        # The nodes' own role has no right to change network interfaces.
        network_role = role(
            f"{name}-{VPC_CNI}-role",
            service=POD_IDENTITY,
            managed=["AmazonEKS_CNI_Policy"],
            opts=self._opts(),
        )
        network = self._addon(
            name,
            VPC_CNI,
            versions.EKS_VPC_CNI,
            cluster_name=cluster_name,
            values=vpc_cni_values(),
            identity=("aws-node", network_role.arn),
            # Without its agent the association gives no credentials, and aws-node ends
            # (github.com/aws/amazon-vpc-cni-k8s/issues/3840).
            after=[agent],
        )
        proxy = self._addon(
            name, KUBE_PROXY, versions.EKS_KUBE_PROXY, cluster_name=cluster_name, after=[agent]
        )
        self.ready = [agent, network, proxy]
        self.register_outputs({})


class AddonsAfterNodes(_Addons):
    """The cluster's DNS, and volumes of EBS."""

    def __init__(
        self,
        name: str,
        config: StackConfig,
        *,
        cluster_name: pulumi.Input[str],
        disks_key_arn: pulumi.Input[str],
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`after` has the node groups; one of them has nodes without GPUs."""
        super().__init__("aws:AddonsAfterNodes", name, opts)
        settings = config.cloud
        dns = self._addon(
            name,
            COREDNS,
            versions.EKS_COREDNS,
            cluster_name=cluster_name,
            values=coredns_values(),
            after=after,
        )
        volumes_role = role(
            f"{name}-{EBS_CSI_DRIVER}-role",
            service=POD_IDENTITY,
            managed=["AmazonEBSCSIDriverPolicyV2"],
            policy=pulumi.Output.from_input(disks_key_arn).apply(volume_policy),
            opts=self._opts(),
        )
        volumes = self._addon(
            name,
            EBS_CSI_DRIVER,
            versions.EKS_EBS_CSI_DRIVER,
            cluster_name=cluster_name,
            values=ebs_csi_values(settings.region),
            identity=("ebs-csi-controller-sa", volumes_role.arn),
            after=after,
        )
        self.ready = [dns, volumes]
        self.register_outputs({})
