"""Cluster: EKS' control plane, who may use it, and the add-ons that come before its nodes."""

from collections.abc import Sequence
from typing import Any, Final

import pulumi
import pulumi_aws as aws
import yaml

from infra.aws.addons import AddonsBeforeNodes
from infra.aws.config import SERVICE_CIDR, AwsConfig
from infra.aws.iam import Statement, document, role
from infra.component import Component
from infra.config import StackConfig
from infra.versions import KUBERNETES_MINOR

LOG_TYPES: Final = ("api", "audit", "authenticator", "controllerManager", "scheduler")
"""All that EKS has."""
ADMINISTRATOR: Final = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


def kubeconfig(name: str, endpoint: str, certificate_authority: str, region: str) -> str:
    """A kubeconfig whose token is made anew for each use, by whoever uses it.

    `certificate_authority` is base64, as EKS gives it.
    """
    user = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "aws",
        "args": ["eks", "get-token", "--region", region, "--cluster-name", name],
    }
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": name,
                "cluster": {
                    "server": endpoint,
                    "certificate-authority-data": certificate_authority,
                },
            }
        ],
        "users": [{"name": name, "user": {"exec": user}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return yaml.safe_dump(content, sort_keys=False)


def endpoints(settings: AwsConfig) -> dict[str, Any]:
    """Where the API server answers: inside the VPC, and to the addresses that are named."""
    if not settings.public_access_cidrs:
        return {"endpoint_private_access": True, "endpoint_public_access": False}
    return {
        "endpoint_private_access": True,
        "endpoint_public_access": True,
        "public_access_cidrs": [str(cidr) for cidr in settings.public_access_cidrs],
    }


def secrets_policy(secrets_key_arn: str) -> str:
    """What the cluster's role needs of the key for Kubernetes' objects."""
    return document(
        Statement(
            sid="EncryptObjects",
            # EKS looks at the grants with each check of its health
            # (github.com/terraform-aws-modules/terraform-aws-eks/issues/1913).
            actions=["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:ListGrants"],
            resources=[secrets_key_arn],
        )
    )


def principal_label(arn: str) -> str:
    """A short name for a role or user; IAM tells names apart without their paths."""
    path = arn.rpartition(":")[2].split("/")
    return f"{path[0]}-{path[-1]}"


class Cluster(Component):
    """The control plane; it has no nodes yet."""

    name: pulumi.Output[str]
    endpoint: pulumi.Output[str]
    certificate_authority: pulumi.Output[str]
    """Base64."""
    security_group_id: pulumi.Output[str]
    """EKS' own, of the control plane's interfaces and of every node."""
    kubeconfig: pulumi.Output[str]
    """Secret."""
    ready_for_kubernetes: list[pulumi.Resource]
    """Before these nobody may do anything in Kubernetes, not even whoever made the cluster."""
    ready_for_nodes: list[pulumi.Resource]
    """Before these a node would not get ready."""

    def __init__(
        self,
        name: str,
        config: StackConfig,
        *,
        control_plane_subnet_ids: Sequence[pulumi.Input[str]],
        secrets_key_arn: pulumi.Input[str],
        logs_key_arn: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("aws:Cluster", name, opts)
        settings = config.cloud
        cluster_role = role(
            f"{name}-role",
            service="eks.amazonaws.com",
            managed=["AmazonEKSClusterPolicy"],
            policy=pulumi.Output.from_input(secrets_key_arn).apply(secrets_policy),
            opts=self._opts(),
        )
        # EKS makes the group where it is missing, without a key and without an end.
        logs = aws.cloudwatch.LogGroup(
            f"{name}-logs",
            name=f"/aws/eks/{config.full_name}/cluster",
            kms_key_id=logs_key_arn,
            retention_in_days=365 if settings.is_protected else 30,
            opts=self._opts(),
        )
        made = aws.eks.Cluster(
            f"{name}-cluster",
            name=config.full_name,
            version=KUBERNETES_MINOR,
            # At the end of standard support EKS moves on, instead of billing six times as much.
            upgrade_policy=aws.eks.ClusterUpgradePolicyArgs(support_type="STANDARD"),
            role_arn=cluster_role.arn,
            vpc_config=aws.eks.ClusterVpcConfigArgs(
                subnet_ids=control_plane_subnet_ids, **endpoints(settings)
            ),
            kubernetes_network_config=aws.eks.ClusterKubernetesNetworkConfigArgs(
                ip_family="ipv4", service_ipv4_cidr=str(SERVICE_CIDR)
            ),
            access_config=aws.eks.ClusterAccessConfigArgs(
                authentication_mode="API", bootstrap_cluster_creator_admin_permissions=False
            ),
            # EKS' own copies would be in the add-ons' way.
            bootstrap_self_managed_addons=False,
            encryption_config=aws.eks.ClusterEncryptionConfigArgs(
                provider=aws.eks.ClusterEncryptionConfigProviderArgs(key_arn=secrets_key_arn),
                resources=["secrets"],
            ),
            enabled_cluster_log_types=list(LOG_TYPES),
            deletion_protection=settings.is_protected,
            # All GPUs are in one zone: to shift away from it stops jobs and saves none.
            zonal_shift_config=aws.eks.ClusterZonalShiftConfigArgs(enabled=False),
            opts=pulumi.ResourceOptions.merge(
                self._opts(after=[logs]),
                pulumi.ResourceOptions(protect=settings.is_protected),
            ),
        )
        self.name = made.name
        self.endpoint = made.endpoint
        self.certificate_authority = made.certificate_authority.apply(_base64)
        self.security_group_id = made.vpc_config.cluster_security_group_id
        self.ready_for_kubernetes = [
            resource
            for arn in settings.administrators
            for resource in self._administrator(f"{name}-{principal_label(arn)}", arn)
        ]
        addons = AddonsBeforeNodes(f"{name}-addons", cluster_name=self.name, opts=self._opts())
        self.ready_for_nodes = [*self.ready_for_kubernetes, *addons.ready]
        self.kubeconfig = pulumi.Output.secret(
            pulumi.Output.all(self.name, self.endpoint, self.certificate_authority).apply(
                lambda found: kubeconfig(found[0], found[1], found[2], settings.region)
            )
        )
        self.register_outputs({"name": self.name})

    def _administrator(self, name: str, arn: str) -> list[pulumi.Resource]:
        """The entry, and what it may do."""
        entry = aws.eks.AccessEntry(
            name,
            cluster_name=self.name,
            # With its path, other than in the old ConfigMap: EKS compares IAM's id behind it
            # (github.com/aws/containers-roadmap/issues/185).
            principal_arn=arn,
            type="STANDARD",
            opts=self._opts(),
        )
        rights = aws.eks.AccessPolicyAssociation(
            f"{name}-rights",
            cluster_name=self.name,
            principal_arn=arn,
            policy_arn=ADMINISTRATOR,
            access_scope=aws.eks.AccessPolicyAssociationAccessScopeArgs(type="cluster"),
            opts=self._opts(after=[entry]),
        )
        return [entry, rights]


def _base64(authority: aws.eks.outputs.ClusterCertificateAuthority | None) -> str:
    """The certificate; empty without an engine, where no cluster is made."""
    return (authority and authority.data) or ""
