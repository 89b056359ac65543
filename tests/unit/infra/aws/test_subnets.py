from typing import Any

import pulumi
import pytest

from infra.aws.addresses import address_plan
from infra.aws.subnets import Subnets, nat_zones
from infra.recording import Recording
from tests.builders import an_aws_config
from tests.conftest import Deploy

SUBNET = "aws:ec2/subnet:Subnet"
ROUTE = "aws:ec2/route:Route"
ASSOCIATION = "aws:ec2/routeTableAssociation:RouteTableAssociation"
NAT = "aws:ec2/natGateway:NatGateway"
INTERNET = "aws:ec2/internetGateway:InternetGateway"
ADDRESS = "aws:ec2/eip:Eip"
ZONES = ["use1-az1", "use1-az2"]
ISOLATED = {"nat": False, "interface_endpoints": True}
EVERY_WAY = pytest.mark.parametrize("changes", [{}, {"is_protected": True}, ISOLATED])


def subnets(deploy: Deploy, **changes: Any) -> Recording:
    config = an_aws_config(**changes)

    def program() -> None:
        made = Subnets("s", config, full_name="p-test", vpc_id="vpc-1")
        pulumi.export("control_plane", made.control_plane_ids)
        pulumi.export("nodes", made.node_ids)
        pulumi.export("tables", made.route_table_ids)
        pulumi.export("ready", [resource.urn for resource in made.ready])

    return deploy(program)


def routes(made: Recording) -> dict[str, dict[str, Any]]:
    """Route table's id -> its one route."""
    found = made.of_type(ROUTE)
    by_table = {route.inputs["routeTableId"]: route.inputs for route in found}
    assert len(by_table) == len(found)
    return by_table


def tables(made: Recording) -> dict[str, str]:
    """Subnet's id -> its route table's id."""
    found = made.of_type(ASSOCIATION)
    return {each.inputs["subnetId"]: each.inputs["routeTableId"] for each in found}


@EVERY_WAY
def test_a_zone_has_one_subnet_of_each_kind_with_its_planned_range(
    deploy: Deploy, changes: dict[str, Any]
) -> None:
    config = an_aws_config(**changes)
    wanted = set()
    for zone, addresses in address_plan(config.vpc_cidr, ZONES).items():
        wanted |= {(zone, str(addresses.control_plane)), (zone, str(addresses.nodes))}
        if config.nat:
            wanted.add((zone, str(addresses.public)))
    found = subnets(deploy, **changes).of_type(SUBNET)
    places = [(each.inputs["availabilityZoneId"], each.inputs["cidrBlock"]) for each in found]
    assert len(places) == len(wanted)
    assert set(places) == wanted


@EVERY_WAY
def test_no_subnet_gives_out_public_addresses(deploy: Deploy, changes: dict[str, Any]) -> None:
    for subnet in subnets(deploy, **changes).of_type(SUBNET):
        assert subnet.inputs["mapPublicIpOnLaunch"] is False


@pytest.mark.parametrize(
    ("kind", "roles"),
    [("nodes", {"internal-elb"}), ("public", {"elb"}), ("control-plane", set())],
)
def test_kubernetes_can_tell_where_load_balancers_go(
    deploy: Deploy, kind: str, roles: set[str]
) -> None:
    found = [each for each in subnets(deploy).of_type(SUBNET) if each.name.startswith(f"s-{kind}-")]
    assert len(found) == len(ZONES)
    for subnet in found:
        tags = {key: text for key, text in subnet.inputs["tags"].items() if key != "Name"}
        assert tags == {f"kubernetes.io/role/{role}": "1" for role in roles}


def test_nodes_and_control_plane_are_told_apart_by_zone(deploy: Deploy) -> None:
    made = subnets(deploy)
    assert made.outputs["nodes"] == {zone: f"s-nodes-{zone}-id" for zone in ZONES}
    assert made.outputs["control_plane"] == [f"s-control-plane-{zone}-id" for zone in ZONES]
    assert made.outputs["tables"] == [f"s-private-{zone}-id" for zone in ZONES]


@EVERY_WAY
def test_every_subnet_has_the_route_table_of_its_zone(
    deploy: Deploy, changes: dict[str, Any]
) -> None:
    made = subnets(deploy, **changes)
    found = tables(made)
    assert found.keys() == {f"{subnet.name}-id" for subnet in made.of_type(SUBNET)}
    for subnet in made.of_type(SUBNET):
        zone = subnet.inputs["availabilityZoneId"]
        public = subnet.name.startswith("s-public-")
        assert found[f"{subnet.name}-id"] == ("s-public-id" if public else f"s-private-{zone}-id")


def test_without_nat_there_is_no_way_to_or_from_the_internet(deploy: Deploy) -> None:
    made = subnets(deploy, **ISOLATED)
    for kind in (INTERNET, NAT, ADDRESS, ROUTE):
        assert made.of_type(kind) == []
    assert nat_zones(an_aws_config(**ISOLATED)) == {}


@pytest.mark.parametrize("gpu_zone", ZONES)
def test_one_nat_gateway_stands_where_the_gpus_are(deploy: Deploy, gpu_zone: str) -> None:
    made = subnets(deploy, gpu_zone_id=gpu_zone)
    [gateway] = made.of_type(NAT)
    assert gateway.inputs["subnetId"] == f"s-public-{gpu_zone}-id"
    for zone in ZONES:
        route = routes(made)[f"s-private-{zone}-id"]
        assert route["destinationCidrBlock"] == "0.0.0.0/0"
        assert route["natGatewayId"] == f"{gateway.name}-id"


def test_a_protected_stack_has_a_nat_gateway_in_every_zone(deploy: Deploy) -> None:
    made = subnets(deploy, is_protected=True)
    places = {f"{each.name}-id": each.inputs["subnetId"] for each in made.of_type(NAT)}
    assert len(places) == len(ZONES)
    for zone in ZONES:
        through = routes(made)[f"s-private-{zone}-id"]["natGatewayId"]
        assert places[through] == f"s-public-{zone}-id"


@pytest.mark.parametrize("changes", [{}, {"is_protected": True}])
def test_only_the_public_table_leads_to_the_internet_gateway(
    deploy: Deploy, changes: dict[str, Any]
) -> None:
    made = subnets(deploy, **changes)
    direct = {table for table, route in routes(made).items() if "gatewayId" in route}
    assert direct == {"s-public-id"}
    assert routes(made)["s-public-id"]["gatewayId"] == "s-internet-id"


def test_nat_gateways_and_their_addresses_come_after_the_internet_gateway(deploy: Deploy) -> None:
    made = subnets(deploy, is_protected=True)
    [internet] = made.of_type(INTERNET)
    addresses = {f"{each.name}-id" for each in made.of_type(ADDRESS)}
    assert {each.inputs["allocationId"] for each in made.of_type(NAT)} == addresses
    for each in [*made.of_type(NAT), *made.of_type(ADDRESS)]:
        assert internet.urn in each.depends_on
    for each in made.of_type(ADDRESS):
        assert each.inputs["domain"] == "vpc"


@EVERY_WAY
def test_a_packet_gets_out_once_routes_and_associations_exist(
    deploy: Deploy, changes: dict[str, Any]
) -> None:
    made = subnets(deploy, **changes)
    wanted = {each.urn for each in [*made.of_type(ROUTE), *made.of_type(ASSOCIATION)]}
    assert set(made.outputs["ready"]) == wanted
