from collections.abc import Mapping
from typing import Any

import pulumi
import pytest

from infra.aws.network import Network
from infra.recording import Recording
from tests.builders import an_aws_config, an_aws_stack
from tests.conftest import Deploy

VPC = "aws:ec2/vpc:Vpc"
ENDPOINT = "aws:ec2/vpcEndpoint:VpcEndpoint"
INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
EGRESS = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
NEEDED_TO_JOIN = (
    "aws:ec2/route:Route",
    "aws:ec2/routeTableAssociation:RouteTableAssociation",
    ENDPOINT,
    INGRESS,
    EGRESS,
)
DEFAULTS: Mapping[str, Any] = {}
ISOLATED = {"nat": False, "interface_endpoints": True}
EVERY_WAY = pytest.mark.parametrize("changes", [DEFAULTS, {"is_protected": True}, ISOLATED])


def network(
    deploy: Deploy, changes: Mapping[str, Any] = DEFAULTS, *, logs_key_arn: str | None = None
) -> Recording:
    config = an_aws_stack(aws=an_aws_config(**changes))

    def program() -> None:
        made = Network("net", config, logs_key_arn=logs_key_arn)
        pulumi.export("vpc", made.vpc_id)
        pulumi.export("nodes", made.node_subnet_ids)
        pulumi.export("control_plane", made.control_plane_subnet_ids)
        pulumi.export("gpus", made.gpu_subnet_id)
        pulumi.export("group", made.node_security_group_id)
        pulumi.export("endpoints", [resource.urn for resource in made.endpoints])

    return deploy(program)


def test_names_resolve_in_the_vpc(deploy: Deploy) -> None:
    [vpc] = network(deploy, {"vpc_cidr": "10.65.0.0/17"}).of_type(VPC)
    assert vpc.inputs["cidrBlock"] == "10.65.0.0/17"
    assert vpc.inputs["enableDnsSupport"] is True
    assert vpc.inputs["enableDnsHostnames"] is True


@EVERY_WAY
def test_everything_is_in_the_one_vpc(deploy: Deploy, changes: dict[str, Any]) -> None:
    made = network(deploy, changes)
    [vpc] = made.of_type(VPC)
    assert made.outputs["vpc"] == f"{vpc.name}-id"
    named = {each.inputs["vpcId"] for each in made.resources if "vpcId" in each.inputs}
    assert named == {f"{vpc.name}-id"}


@EVERY_WAY
def test_every_name_begins_with_the_networks(deploy: Deploy, changes: dict[str, Any]) -> None:
    for made in network(deploy, changes).resources:
        assert made.name == "net" or made.name.startswith("net-")


def test_the_default_security_group_has_no_rules(deploy: Deploy) -> None:
    [group] = network(deploy).of_type("aws:ec2/defaultSecurityGroup:DefaultSecurityGroup")
    assert group.inputs["vpcId"] == "net-vpc-id"
    assert not group.inputs.get("ingress")
    assert not group.inputs.get("egress")


@pytest.mark.parametrize("gpu_zone", ["use1-az1", "use1-az2"])
def test_gpus_are_in_their_zones_private_subnet(deploy: Deploy, gpu_zone: str) -> None:
    outputs = network(deploy, {"gpu_zone_id": gpu_zone}).outputs
    assert outputs["nodes"].keys() == {"use1-az1", "use1-az2"}
    assert outputs["gpus"] == outputs["nodes"][gpu_zone] == f"net-subnets-nodes-{gpu_zone}-id"
    assert len(outputs["control_plane"]) == 2


def test_nodes_may_talk_to_nodes_on_every_port(deploy: Deploy) -> None:
    made = network(deploy)
    group = made.outputs["group"]
    [rule] = [each for each in made.of_type(INGRESS) if each.inputs["securityGroupId"] == group]
    assert rule.inputs["referencedSecurityGroupId"] == group
    assert rule.inputs["ipProtocol"] == "-1"
    assert not {"fromPort", "toPort", "cidrIpv4", "cidrIpv6"} & rule.inputs.keys()


def test_nodes_reach_whatever_their_routes_lead_to(deploy: Deploy) -> None:
    made = network(deploy)
    [rule] = made.of_type(EGRESS)
    assert rule.inputs["securityGroupId"] == made.outputs["group"]
    assert rule.inputs["cidrIpv4"] == "0.0.0.0/0"
    assert rule.inputs["ipProtocol"] == "-1"


@EVERY_WAY
def test_nothing_outside_of_the_vpc_is_admitted(deploy: Deploy, changes: dict[str, Any]) -> None:
    made = network(deploy, changes)
    for rule in made.of_type(INGRESS):
        sources = {"cidrIpv4", "cidrIpv6", "prefixListId", "referencedSecurityGroupId"}
        found = {key: text for key, text in rule.inputs.items() if key in sources}
        assert found in (
            {"referencedSecurityGroupId": made.outputs["group"]},
            {"cidrIpv4": "10.64.0.0/16"},
        )
    for group in made.of_type("aws:ec2/securityGroup:SecurityGroup"):
        assert not {"ingress", "egress"} & group.inputs.keys()


@EVERY_WAY
def test_what_a_node_needs_to_join_is_said(deploy: Deploy, changes: dict[str, Any]) -> None:
    made = network(deploy, changes)
    wanted = {each.urn for kind in NEEDED_TO_JOIN for each in made.of_type(kind)}
    assert set(made.outputs["endpoints"]) == wanted


def test_endpoints_are_in_the_nodes_subnets_and_all_private_route_tables(deploy: Deploy) -> None:
    made = network(deploy, ISOLATED)
    gateway, *interfaces = made.of_type(ENDPOINT)
    assert set(gateway.inputs["routeTableIds"]) == {
        f"{each.name}-id" for each in made.of_type("aws:ec2/routeTable:RouteTable")
    }
    for each in interfaces:
        assert set(each.inputs["subnetIds"]) == set(made.outputs["nodes"].values())


def test_connections_are_logged_under_the_given_key(deploy: Deploy) -> None:
    key = "arn:aws:kms:us-east-1:123456789012:key/1"
    made = network(deploy, logs_key_arn=key)
    [group] = made.of_type("aws:cloudwatch/logGroup:LogGroup")
    assert group.inputs["kmsKeyId"] == key
    assert group.inputs["name"] == "/aws/vpc/crossvendor-test/flow-logs"
