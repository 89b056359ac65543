"""Who talked to whom in the VPC: flow logs in CloudWatch, and the role that may write them."""

from typing import Final

import pulumi
import pulumi_aws as aws

from infra.aws.config import AwsConfig
from infra.aws.iam import Statement, document, trust
from infra.component import Component

RETENTION_DAYS: Final = 90
"""How far back one can look after an incident; one of the numbers that CloudWatch takes."""
_SERVICE: Final = "vpc-flow-logs.amazonaws.com"


def log_group_name(full_name: str) -> str:
    """A chosen name: the role's policy and people's queries have to know it."""
    return f"/aws/vpc/{full_name}/flow-logs"


def write_policy(cloud: AwsConfig, group: str) -> str:
    """Policy of the role: write into this one log group, which it may not make.

    Without `logs:CreateLogGroup`, records that arrive late do not bring a removed group back.
    """
    groups = f"arn:aws:logs:{cloud.region}:{cloud.account_id}:log-group"
    return document(
        Statement(
            sid="WriteRecords",
            actions=["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
            resources=[f"{groups}:{group}:*"],  # all streams of the group
        ),
        Statement(
            sid="FindGroup",
            # It lists groups, so one group's name is no limit that AWS could check.
            actions=["logs:DescribeLogGroups"],
            resources=[f"{groups}:*"],
        ),
    )


class FlowLogs(Component):
    """Flow logs of one VPC: every connection, accepted or not."""

    def __init__(
        self,
        name: str,
        cloud: AwsConfig,
        *,
        full_name: str,
        vpc_id: pulumi.Input[str],
        key_arn: pulumi.Input[str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`key_arn` is a KMS key that CloudWatch Logs may use; None for AWS's own encryption."""
        super().__init__("aws:FlowLogs", name, opts)
        group_name = log_group_name(full_name)
        group = aws.cloudwatch.LogGroup(
            f"{name}-group",
            name=group_name,
            retention_in_days=RETENTION_DAYS,
            kms_key_id=key_arn,
            opts=self._opts(),
        )
        role = aws.iam.Role(
            f"{name}-role",
            assume_role_policy=trust(_SERVICE, account_id=cloud.account_id),
            opts=self._opts(),
        )
        policy = aws.iam.RolePolicy(
            f"{name}-policy",
            role=role.id,
            policy=write_policy(cloud, group_name),
            opts=self._opts(),
        )
        aws.ec2.FlowLog(
            f"{name}-log",
            vpc_id=vpc_id,
            traffic_type="ALL",
            log_destination_type="cloud-watch-logs",
            log_destination=group.arn,
            iam_role_arn=role.arn,
            tags={"Name": full_name},
            # A log that is made before its role may write reports an access error.
            opts=self._opts(after=[policy]),
        )
        self.register_outputs({})
