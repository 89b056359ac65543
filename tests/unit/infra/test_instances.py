import itertools

import pytest

from infra.accelerators import ACCELERATORS
from infra.instances import INSTANCE_TYPES, InstanceType

ROWS = sorted(INSTANCE_TYPES.values(), key=lambda row: row.name)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_type_has_gpus_exactly_when_its_family_is_a_vendors(row: InstanceType) -> None:
    families = {accelerator.instance_family for accelerator in ACCELERATORS.values()}
    assert (row.num_gpus > 0) == (row.family in families)
    assert (row.vendor is not None) == (row.num_gpus > 0)
    assert (row.gpu_memory_mib > 0) == (row.num_gpus > 0)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_figures_are_of_the_right_size(row: InstanceType) -> None:
    assert 2 <= row.vcpus <= 96
    assert row.memory_mib == 4 * 1024 * row.vcpus
    assert 500 <= row.baseline_mbits <= 100_000
    assert 8 <= row.max_pods <= 737
    assert 0.05 < row.usd_per_hour < 10


@pytest.mark.parametrize("family", sorted({row.family for row in ROWS}))
def test_a_larger_type_of_a_family_has_no_less_of_anything(family: str) -> None:
    rows = sorted((row for row in ROWS if row.family == family), key=lambda row: row.vcpus)
    for small, large in itertools.pairwise(rows):
        assert small.memory_mib < large.memory_mib
        assert small.baseline_mbits <= large.baseline_mbits
        assert small.max_pods <= large.max_pods or large.num_gpus < small.num_gpus
        assert small.usd_per_hour < large.usd_per_hour


def test_types_are_found_by_their_name() -> None:
    assert all(name == row.name for name, row in INSTANCE_TYPES.items())


def test_the_smallest_amd_type_has_room_for_eight_pods_only() -> None:
    assert INSTANCE_TYPES["g4ad.xlarge"].max_pods == 8
