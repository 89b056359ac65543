"""Keys: what a stack encrypts with, and which services of AWS may use each key."""

from enum import StrEnum
from typing import Any

import pulumi
import pulumi_aws as aws

from infra.aws.config import AwsConfig
from infra.aws.iam import Statement, document
from infra.component import Component
from infra.config import StackConfig


class Purpose(StrEnum):
    """What a key encrypts; also the end of its alias."""

    SECRETS = "secrets"
    """Kubernetes' objects in EKS' etcd."""
    DISKS = "disks"
    """Root disks of nodes, and volumes of pods."""
    LOGS = "logs"
    """Log groups."""
    DATA = "data"
    """Checkpoints and images."""


def key_policy(purpose: Purpose, settings: AwsConfig) -> str:
    """Who may use a key, as JSON; in a key's own policy the resource `*` is this key only."""
    match purpose:
        case Purpose.DISKS:
            more = _for_instances(settings)
        case Purpose.LOGS:
            more = [_for_log_groups(settings)]
        case Purpose.SECRETS | Purpose.DATA:
            # EKS and S3 act as their callers, whose roles the account's IAM decides about.
            more = []
    return document(_for_account(settings), *more)


def _for_account(settings: AwsConfig) -> Statement:
    """Leaves the key to the account's IAM, which is KMS' default."""
    return Statement(
        sid="AccountDecides",
        # A policy that keeps its account out can be repaired by AWS' support only.
        actions=["kms:*"],
        principal={"AWS": f"arn:aws:iam::{settings.account_id}:root"},
    )


def _for_instances(settings: AwsConfig) -> list[Statement]:
    """Lets EC2 start instances of a scaling group whose disks are encrypted with this key.

    The roles that do it are AWS' own and allow nothing on a customer's key; EC2 hands on a grant
    (docs.aws.amazon.com/autoscaling/ec2/userguide/key-policy-requirements-EBS-encryption.html).
    """
    roles = [
        f"arn:aws:iam::{settings.account_id}:role/aws-service-role/{service}/{role}"
        for service, role in (
            ("autoscaling.amazonaws.com", "AWSServiceRoleForAutoScaling"),
            ("spot.amazonaws.com", "AWSServiceRoleForEC2Spot"),
        )
    ]
    # As principals they would have to exist, and in a new account they do not: KMS refuses the
    # policy (github.com/terraform-aws-modules/terraform-aws-eks/issues/3013). Conditions may name
    # what is yet to come.
    anybody = {"AWS": "*"}
    only_they: dict[str, dict[str, Any]] = {
        "StringEquals": {"kms:CallerAccount": settings.account_id},
        "ArnEquals": {"aws:PrincipalArn": roles},
    }
    return [
        Statement(
            sid="InstancesUse",
            actions=[
                "kms:Decrypt",
                "kms:DescribeKey",
                "kms:Encrypt",
                "kms:GenerateDataKey*",
                "kms:ReEncrypt*",
            ],
            principal=anybody,
            condition=only_they,
        ),
        Statement(
            sid="InstancesGrant",
            actions=["kms:CreateGrant"],
            principal=anybody,
            condition={**only_they, "Bool": {"kms:GrantIsForAWSResource": "true"}},
        ),
    ]


def _for_log_groups(settings: AwsConfig) -> Statement:
    """Lets CloudWatch encrypt the log groups of this account and region, and nothing else."""
    region, account = settings.region, settings.account_id
    return Statement(
        sid="LogGroupsUse",
        actions=[
            "kms:Decrypt",
            "kms:DescribeKey",
            "kms:Encrypt",
            "kms:GenerateDataKey*",
            "kms:ReEncrypt*",
        ],
        principal={"Service": f"logs.{region}.amazonaws.com"},
        condition={
            "ArnLike": {
                "kms:EncryptionContext:aws:logs:arn": f"arn:aws:logs:{region}:{account}:log-group:*"
            }
        },
    )


class Keys(Component):
    """One key per purpose, each with an alias."""

    secrets_arn: pulumi.Output[str]
    disks_arn: pulumi.Output[str]
    logs_arn: pulumi.Output[str]
    data_arn: pulumi.Output[str]

    def __init__(
        self, name: str, config: StackConfig, *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("aws:Keys", name, opts)
        made = {purpose: self._key(name, purpose, config) for purpose in Purpose}
        self.secrets_arn = made[Purpose.SECRETS].arn
        self.disks_arn = made[Purpose.DISKS].arn
        self.logs_arn = made[Purpose.LOGS].arn
        self.data_arn = made[Purpose.DATA].arn
        self.register_outputs({})

    def _key(self, name: str, purpose: Purpose, config: StackConfig) -> aws.kms.Key:
        settings = config.cloud
        keep = pulumi.ResourceOptions(
            protect=settings.is_protected,
            # What the key encrypted outlives the stack where the data does.
            retain_on_delete=settings.is_protected and purpose is Purpose.DATA,
        )
        key = aws.kms.Key(
            f"{name}-{purpose}",
            description=f"{config.full_name}: {purpose}",
            policy=key_policy(purpose, settings),
            enable_key_rotation=True,
            # KMS' longest and shortest: until then a deletion can be taken back.
            deletion_window_in_days=30 if settings.is_protected else 7,
            opts=pulumi.ResourceOptions.merge(self._opts(), keep),
        )
        aws.kms.Alias(
            f"{name}-{purpose}-alias",
            name=f"alias/{config.full_name}-{purpose}",
            target_key_id=key.id,
            opts=self._opts(),
        )
        return key
