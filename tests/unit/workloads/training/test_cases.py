import pytest

from workloads.training.carriers import CARRIERS, ITEM_SIZES
from workloads.training.cases import KIB, MIB, Case, cases, odd_count, teams

GBIT = 2e9 / 8  # bytes per second of a 2 Gbit/s link


def runs(carrier: str, world_size: int = 2, max_bytes: int = 256 * MIB) -> list[Case]:
    return cases(CARRIERS[carrier], world_size, max_bytes)[0]


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("dtype", ITEM_SIZES)
@pytest.mark.parametrize("operation", ["sum", "max", "avg"])
@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("size", [1, 2 * KIB, 64 * KIB, MIB])
def test_each_combination_runs_at_each_size_or_is_skipped_with_a_reason(
    carrier: str, dtype: str, operation: str, in_place: bool, size: int
) -> None:
    found, skipped = cases(CARRIERS[carrier], 2)
    has_run = any(
        (case.dtype, case.operation, case.in_place, case.team, case.num_elements)
        == (dtype, operation, in_place, "world", odd_count(size, dtype))
        for case in found
    )
    reasons = [skip.why for skip in skipped if skip.what == f"{operation} of {dtype}"]
    why = CARRIERS[carrier].why_not(operation, dtype)
    assert has_run == (why is None)
    assert reasons == ([] if why is None else [why])


@pytest.mark.parametrize("carrier", CARRIERS)
def test_sizes_go_from_4_bytes_to_256_mib(carrier: str) -> None:
    sizes = {case.num_bytes for case in runs(carrier) if case.dtype == "float32"}
    assert min(sizes) == 4
    assert max(sizes) == 256 * MIB


def test_counts_are_odd_but_for_the_largest() -> None:
    even = {case.num_elements for case in runs("libucc") if case.num_elements % 2 == 0}
    assert even == {64 * MIB}


def test_64_mib_runs_in_place_and_out_of_place() -> None:
    places = {case.in_place for case in runs("gloo") if 60 * MIB < case.num_bytes < 65 * MIB}
    assert places == {True, False}


def test_nothing_exceeds_the_size_that_was_asked_for() -> None:
    assert max(case.num_bytes for case in runs("libucc", max_bytes=MIB)) <= MIB


def test_a_quick_run_stays_small() -> None:
    found, _ = cases(CARRIERS["libucc"], 2, is_quick=True)
    assert 0 < max(case.num_bytes for case in found) <= 64 * KIB


@pytest.mark.parametrize("carrier", CARRIERS)
def test_the_wire_needs_a_few_seconds_for_all_of_a_carriers_cases(carrier: str) -> None:
    seconds = sum(case.num_bytes * case.iterations for case in runs(carrier)) / GBIT
    assert seconds < 3.5


@pytest.mark.parametrize("world_size", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("carrier", CARRIERS)
def test_every_team_runs_in_place_and_out_of_place(carrier: str, world_size: int) -> None:
    found = runs(carrier, world_size)
    for team in teams(world_size):
        assert {case.in_place for case in found if case.team == team} == {True, False}


@pytest.mark.parametrize("world_size", range(1, 10))
def test_teams_are_distinct_ranks_of_the_world(world_size: int) -> None:
    found = teams(world_size)
    for ranks in found.values():
        assert len(set(ranks)) == len(ranks)
        assert set(ranks) <= set(range(world_size))
    assert found["world"] == tuple(range(world_size))


@pytest.mark.parametrize("world_size", range(2, 10))
def test_there_is_a_reversed_team_and_a_single_rank(world_size: int) -> None:
    found = teams(world_size)
    assert found["reversed"] == found["world"][::-1]
    assert len(found["single"]) == 1


@pytest.mark.parametrize("world_size", range(3, 10))
def test_some_team_is_odd_and_larger_than_one(world_size: int) -> None:
    assert any(len(ranks) % 2 and len(ranks) > 1 for ranks in teams(world_size).values())


@pytest.mark.parametrize("world_size", range(4, 10))
def test_the_odd_team_leaves_rank_0_out(world_size: int) -> None:
    odd = teams(world_size)["odd"]
    assert len(odd) % 2
    assert 0 not in odd


def test_a_type_too_narrow_for_a_team_is_skipped_with_that_reason() -> None:
    _, skipped = cases(CARRIERS["gloo"], 16)
    [why] = [skip.why for skip in skipped if skip.what == "sum of bfloat16"]
    assert "too few for sum over 16 ranks" in why


def test_one_rank_alone_has_cases_too() -> None:
    assert runs("libucc", 1)
