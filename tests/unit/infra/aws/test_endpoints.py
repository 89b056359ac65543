from typing import Any

import pulumi

from infra.aws.endpoints import INTERFACE_SERVICES, Endpoints
from infra.recording import Recording, Resource
from tests.builders import an_aws_config
from tests.conftest import Deploy

ENDPOINT = "aws:ec2/vpcEndpoint:VpcEndpoint"


def endpoints(deploy: Deploy, **changes: Any) -> Recording:
    config = an_aws_config(**changes)

    def program() -> None:
        made = Endpoints(
            "e",
            config,
            full_name="p-test",
            vpc_id="vpc-1",
            subnet_ids=["subnet-1", "subnet-2"],
            route_table_ids=["rtb-1", "rtb-2"],
        )
        pulumi.export("ready", [resource.urn for resource in made.ready])

    return deploy(program)


def interfaces(made: Recording) -> list[Resource]:
    return [each for each in made.of_type(ENDPOINT) if each.inputs["vpcEndpointType"] != "Gateway"]


def test_s3_is_reached_by_a_gateway_from_every_private_subnet(deploy: Deploy) -> None:
    [s3] = endpoints(deploy).of_type(ENDPOINT)
    assert s3.inputs["serviceName"] == "com.amazonaws.us-east-1.s3"
    assert s3.inputs["vpcEndpointType"] == "Gateway"
    assert s3.inputs["routeTableIds"] == ["rtb-1", "rtb-2"]


def test_nothing_that_costs_is_made_unless_it_is_wanted(deploy: Deploy) -> None:
    assert interfaces(endpoints(deploy)) == []
    assert endpoints(deploy).of_type("aws:ec2/securityGroup:SecurityGroup") == []


def test_an_isolated_node_finds_what_it_needs_to_join_and_to_pull_images(deploy: Deploy) -> None:
    made = interfaces(endpoints(deploy, interface_endpoints=True))
    found = {each.inputs["serviceName"].removeprefix("com.amazonaws.us-east-1.") for each in made}
    assert found == set(INTERFACE_SERVICES)
    # What EKS's page on private clusters asks for, with the autoscaler and Pod Identity.
    assert found >= {"ec2", "ecr.api", "ecr.dkr", "eks", "eks-auth", "sts", "autoscaling"}


def test_interfaces_answer_to_the_services_own_names_in_every_zone(deploy: Deploy) -> None:
    made = endpoints(deploy, interface_endpoints=True)
    [group] = made.of_type("aws:ec2/securityGroup:SecurityGroup")
    for each in interfaces(made):
        assert each.inputs["vpcEndpointType"] == "Interface"
        assert each.inputs["privateDnsEnabled"] is True
        assert each.inputs["subnetIds"] == ["subnet-1", "subnet-2"]
        assert each.inputs["securityGroupIds"] == [f"{group.name}-id"]


def test_interfaces_admit_https_from_the_vpc_and_nothing_else(deploy: Deploy) -> None:
    made = endpoints(deploy, interface_endpoints=True, vpc_cidr="10.65.0.0/16")
    [group] = made.of_type("aws:ec2/securityGroup:SecurityGroup")
    assert not {"ingress", "egress"} & group.inputs.keys()
    assert made.of_type("aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule") == []
    [rule] = made.of_type("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule")
    wanted = {"cidrIpv4": "10.65.0.0/16", "ipProtocol": "tcp", "fromPort": 443, "toPort": 443}
    assert wanted.items() <= rule.inputs.items()
    assert rule.inputs["securityGroupId"] == f"{group.name}-id"


def test_the_services_are_reachable_once_endpoints_and_their_rule_exist(deploy: Deploy) -> None:
    made = endpoints(deploy, interface_endpoints=True)
    rules = made.of_type("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule")
    assert set(made.outputs["ready"]) == {each.urn for each in [*made.of_type(ENDPOINT), *rules]}
