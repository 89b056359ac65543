import re

import pytest

from infra.aws.zones import CONTROL_PLANE_REFUSES, ZONES_WITH_BOTH


@pytest.mark.parametrize("region", ZONES_WITH_BOTH)
def test_a_regions_zones_are_ids_of_that_region(region: str) -> None:
    zones = ZONES_WITH_BOTH[region]
    assert len(set(zones)) == len(zones) >= 2
    [prefix] = {zone.partition("-")[0] for zone in zones}
    area, *_, number = region.split("-")
    assert prefix.startswith(area)
    assert prefix.endswith(number)
    assert all(re.fullmatch(r"[a-z]+\d-az\d", zone) for zone in zones)


def test_no_zone_is_offered_that_the_control_plane_refuses() -> None:
    offered = {zone for zones in ZONES_WITH_BOTH.values() for zone in zones}
    assert not offered & set(CONTROL_PLANE_REFUSES)
