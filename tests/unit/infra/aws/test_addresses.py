import ipaddress
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.aws.addresses import ZoneAddresses, address_plan

VPCS = st.tuples(st.integers(0, 2**9 - 1), st.sampled_from([16, 17])).map(
    lambda drawn: ipaddress.IPv4Network((0x0A000000 + (drawn[0] << 15), drawn[1]), strict=False)
)
ZONES = st.lists(
    st.integers(1, 7).map(lambda number: f"use1-az{number}"), min_size=2, max_size=4, unique=True
)


def ranges(plan: dict[str, ZoneAddresses]) -> list[ipaddress.IPv4Network]:
    return [
        cidr for each in plan.values() for cidr in (each.public, each.control_plane, each.nodes)
    ]


@given(vpc=VPCS, zones=ZONES)
def test_ranges_lie_in_the_vpc_and_do_not_overlap(
    vpc: ipaddress.IPv4Network, zones: list[str]
) -> None:
    found = ranges(address_plan(vpc, zones))
    assert all(cidr.subnet_of(vpc) for cidr in found)
    assert not [(a, b) for a, b in combinations(found, 2) if a.overlaps(b)]


@given(vpc=VPCS, zones=ZONES)
def test_every_zone_gets_ranges_of_the_same_sizes(
    vpc: ipaddress.IPv4Network, zones: list[str]
) -> None:
    plan = address_plan(vpc, zones)
    assert list(plan) == zones
    for each in plan.values():
        lengths = [cidr.prefixlen for cidr in (each.public, each.control_plane, each.nodes)]
        assert lengths == [24, 28, 20]


@given(vpc=VPCS, zones=ZONES, data=st.data())
def test_no_subnet_moves_when_zones_come_go_or_change_places(
    vpc: ipaddress.IPv4Network, zones: list[str], data: st.DataObject
) -> None:
    others = data.draw(ZONES)
    before, after = address_plan(vpc, zones), address_plan(vpc, others)
    for zone in set(zones) & set(others):
        assert before[zone] == after[zone]


def test_the_plan_of_the_default_network_is_this_one() -> None:
    plan = address_plan(ipaddress.IPv4Network("10.64.0.0/16"), ["use1-az1", "use1-az6"])
    assert {zone: [str(cidr) for cidr in ranges({zone: each})] for zone, each in plan.items()} == {
        "use1-az1": ["10.64.1.0/24", "10.64.8.16/28", "10.64.16.0/20"],
        "use1-az6": ["10.64.6.0/24", "10.64.8.96/28", "10.64.96.0/20"],
    }


@pytest.mark.parametrize("zone", ["use1-az0", "use1-az8"])
def test_a_zone_without_a_place_is_refused(zone: str) -> None:
    with pytest.raises(ValueError, match=rf"{zone} has no place in 10\.64\.0\.0/17; .* az1 to az7"):
        address_plan(ipaddress.IPv4Network("10.64.0.0/17"), [zone])
