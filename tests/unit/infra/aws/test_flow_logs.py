import json
from typing import Any

import pytest

from infra.aws.flow_logs import RETENTION_DAYS, FlowLogs, log_group_name, write_policy
from infra.recording import Recording
from tests.builders import an_aws_config
from tests.conftest import Deploy

GROUPS = "arn:aws:logs:us-east-1:123456789012:log-group"
KEY = "arn:aws:kms:us-east-1:123456789012:key/1"


def flow_logs(deploy: Deploy, **arguments: Any) -> Recording:
    config = an_aws_config()
    return deploy(lambda: FlowLogs("f", config, full_name="p-test", vpc_id="vpc-1", **arguments))


def test_every_connection_of_the_vpc_is_logged_to_the_group(deploy: Deploy) -> None:
    made = flow_logs(deploy)
    [log] = made.of_type("aws:ec2/flowLog:FlowLog")
    [group] = made.of_type("aws:cloudwatch/logGroup:LogGroup")
    assert log.inputs["vpcId"] == "vpc-1"
    assert log.inputs["trafficType"] == "ALL"
    assert log.inputs["logDestinationType"] == "cloud-watch-logs"
    assert group.inputs["name"] == log_group_name("p-test")
    assert group.inputs["retentionInDays"] == RETENTION_DAYS


@pytest.mark.parametrize("key", [None, KEY])
def test_the_group_is_encrypted_with_the_given_key(deploy: Deploy, key: str | None) -> None:
    [group] = flow_logs(deploy, key_arn=key).of_type("aws:cloudwatch/logGroup:LogGroup")
    assert group.inputs.get("kmsKeyId") == key


def test_only_flow_logs_of_the_account_take_the_role(deploy: Deploy) -> None:
    [role] = flow_logs(deploy).of_type("aws:iam/role:Role")
    [statement] = json.loads(role.inputs["assumeRolePolicy"])["Statement"]
    assert statement["Principal"] == {"Service": "vpc-flow-logs.amazonaws.com"}
    assert statement["Condition"] == {"StringEquals": {"aws:SourceAccount": "123456789012"}}


def test_the_role_writes_into_one_group_and_makes_none() -> None:
    write, find = json.loads(write_policy(an_aws_config(), "g"))["Statement"]
    assert write["Resource"] == [f"{GROUPS}:g:*"]
    assert set(write["Action"]) == {
        "logs:CreateLogStream",
        "logs:DescribeLogStreams",
        "logs:PutLogEvents",
    }
    assert find["Action"] == ["logs:DescribeLogGroups"]
    assert find["Resource"] == [f"{GROUPS}:*"]


def test_the_log_starts_after_its_role_may_write(deploy: Deploy) -> None:
    made = flow_logs(deploy)
    [log] = made.of_type("aws:ec2/flowLog:FlowLog")
    [role] = made.of_type("aws:iam/role:Role")
    [policy] = made.of_type("aws:iam/rolePolicy:RolePolicy")
    assert policy.urn in log.depends_on
    assert policy.inputs["role"] == f"{role.name}-id"
    [group] = made.of_type("aws:cloudwatch/logGroup:LogGroup")
    assert policy.inputs["policy"] == write_policy(an_aws_config(), group.inputs["name"])
