"""The patterns, by an all-reduce done with numpy in the type itself, right and spoilt."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest

from workloads.training.carriers import INTEGERS, ITEM_SIZES, OPERATIONS
from workloads.training.expected import (
    EXACT,
    MAX_BLOCKS,
    NUM_OFFSETS,
    PERIOD,
    Pattern,
    PatternError,
    a_pattern,
)

Array = Any
LENGTH = 20_001
TEAMS = (1, 2, 3, 5, 8)
SHIFTS = (1, 2, 64, 1024, 4096, 16_384)
"""Neighbours, and the steps in which libraries cut."""
COMBINATIONS = [
    (operation, dtype)
    for operation in OPERATIONS
    for dtype in ITEM_SIZES
    if not (operation == "avg" and dtype in INTEGERS)
]


def rounded(values: Array, dtype: str) -> Array:
    """The values as the type holds them; bfloat16, which numpy lacks, by hand."""
    if dtype != "bfloat16":
        return values.astype(dtype)
    bits = values.astype(np.float32).view(np.uint32)
    half = 0x7FFF + ((bits >> 16) & 1)  # ties to even
    return ((bits + half) & 0xFFFF0000).view(np.float32)


def contributions(pattern: Pattern, dtype: str, positions: Array) -> list[Array]:
    return [
        rounded(pattern.contribution(positions, index), dtype) for index in range(pattern.num_ranks)
    ]


def all_reduce(parts: list[Array], operation: str, dtype: str) -> Array:
    """One rank after the other, rounding after every step as a library does."""
    if operation == "max":
        return reduce(np.maximum, parts)
    if operation == "min":
        return reduce(np.minimum, parts)
    total = reduce(lambda a, b: rounded(a + b, dtype), parts)
    if operation == "avg":
        narrow = np.float64 if dtype == "float64" else np.float32
        return rounded(total.astype(narrow) * narrow(1 / len(parts)), dtype)
    return total


def num_wrong(pattern: Pattern, operation: str, dtype: str, got: Array) -> int:
    """The comparison of buffers.py, in numpy."""
    total = pattern.result(np.arange(got.size), operation)
    if operation == "avg":
        right = rounded(total.astype(np.float64) / pattern.num_ranks, dtype)
    else:
        right = rounded(total, dtype)
    tolerance = pattern.tolerance(operation, dtype)
    if not tolerance:
        return int((got != right).sum())
    off = np.abs(got.astype(np.float64) - right)
    return int((~(off <= np.abs(right) * tolerance)).sum())


def the_pattern(operation: str, dtype: str, num_ranks: int) -> Pattern | None:
    try:
        return a_pattern(dtype, operation, num_ranks, number=7)
    except PatternError:
        return None


def cases() -> list[Any]:
    found = []
    for operation, dtype in COMBINATIONS:
        for num_ranks in TEAMS:
            pattern = the_pattern(operation, dtype, num_ranks)
            if pattern is not None:
                name = f"{operation}-{dtype}-{num_ranks}"
                found.append(pytest.param(operation, dtype, pattern, id=name))
    return found


every_case = pytest.mark.parametrize(("operation", "dtype", "pattern"), cases())
several_ranks = pytest.mark.parametrize(
    ("operation", "dtype", "pattern"),
    [case for case in cases() if case.values[2].num_ranks > 1],
)


def test_all_types_have_patterns_for_the_teams_of_a_small_job() -> None:
    for operation, dtype in COMBINATIONS:
        for num_ranks in (1, 2, 3, 4):
            assert the_pattern(operation, dtype, num_ranks) is not None, (operation, dtype)


@every_case
def test_a_right_all_reduce_is_right_everywhere(
    operation: str, dtype: str, pattern: Pattern
) -> None:
    parts = contributions(pattern, dtype, np.arange(LENGTH))
    assert num_wrong(pattern, operation, dtype, all_reduce(parts, operation, dtype)) == 0


@every_case
def test_the_order_of_the_ranks_does_not_matter(
    operation: str, dtype: str, pattern: Pattern
) -> None:
    parts = contributions(pattern, dtype, np.arange(LENGTH))[::-1]
    assert num_wrong(pattern, operation, dtype, all_reduce(parts, operation, dtype)) == 0


@every_case
def test_contributions_and_sums_are_exact_in_the_type(
    operation: str, dtype: str, pattern: Pattern
) -> None:
    # the first and the last block, where values are largest
    last = (MAX_BLOCKS - 1) * PERIOD
    positions = np.concatenate([np.arange(LENGTH), np.arange(last, last + LENGTH)])
    for index in range(pattern.num_ranks):
        exact = pattern.contribution(positions, index)
        assert (rounded(exact, dtype) == exact).all()
    total = pattern.result(positions, "sum")
    assert total.max() <= EXACT[dtype]
    assert (rounded(total, dtype) == total).all()


@every_case
def test_ranks_differ_at_every_position(operation: str, dtype: str, pattern: Pattern) -> None:
    parts = contributions(pattern, dtype, np.arange(LENGTH))
    for first in range(len(parts)):
        for second in range(first):
            assert (parts[first] != parts[second]).all()


def spoilt_everywhere(
    operation: str, dtype: str, pattern: Pattern, spoil: Callable[[list[Array], int], None]
) -> list[int]:
    """How many elements are wrong after each rank in turn was spoilt."""
    counts = []
    for index in range(pattern.num_ranks):
        parts = contributions(pattern, dtype, np.arange(LENGTH))
        spoil(parts, index)
        counts.append(num_wrong(pattern, operation, dtype, all_reduce(parts, operation, dtype)))
    return counts


def drop(parts: list[Array], index: int) -> None:
    """What a library adds when it loses a contribution: nothing at all."""
    parts[index] = np.zeros_like(parts[index])


@several_ranks
def test_a_dropped_contribution_is_seen(operation: str, dtype: str, pattern: Pattern) -> None:
    counts = spoilt_everywhere(operation, dtype, pattern, drop)
    if operation == "max":
        # Each rank has the largest value at one position in num_ranks, and only there matters.
        assert all(count in _one_in(pattern.num_ranks) for count in counts)
    else:
        assert counts == [LENGTH] * pattern.num_ranks


@several_ranks
def test_a_contribution_in_the_place_of_anothers_is_seen(
    operation: str, dtype: str, pattern: Pattern
) -> None:
    def replace(parts: list[Array], index: int) -> None:
        parts[index] = parts[(index + 1) % len(parts)]

    counts = spoilt_everywhere(operation, dtype, pattern, replace)
    if operation in ("sum", "avg"):
        assert counts == [LENGTH] * pattern.num_ranks
    else:
        assert all(count in _one_in(pattern.num_ranks) for count in counts)


@several_ranks
def test_a_doubled_contribution_is_seen_by_what_adds(
    operation: str, dtype: str, pattern: Pattern
) -> None:
    def double(parts: list[Array], index: int) -> None:
        parts.append(parts[index])

    counts = []
    for index in range(pattern.num_ranks):
        parts = contributions(pattern, dtype, np.arange(LENGTH))
        if operation == "avg":
            parts[index] = rounded(parts[index] * 2, dtype)
        else:
            double(parts, index)
        counts.append(num_wrong(pattern, operation, dtype, all_reduce(parts, operation, dtype)))
    if operation in ("sum", "avg"):
        assert counts == [LENGTH] * pattern.num_ranks
    else:
        # The largest of the same values twice is the same: no check of a result can see it.
        assert counts == [0] * pattern.num_ranks


@several_ranks
def test_a_shifted_contribution_is_seen(operation: str, dtype: str, pattern: Pattern) -> None:
    def shift(parts: list[Array], index: int) -> None:
        parts[index] = np.roll(parts[index], places)

    # The largest value hides a change of any other.
    hidden = pattern.num_ranks if operation in ("max", "min") else 1
    for places in SHIFTS:
        counts = spoilt_everywhere(operation, dtype, pattern, shift)
        assert min(counts) >= 0.3 * LENGTH / hidden, places


@every_case
def test_a_shifted_result_is_seen(operation: str, dtype: str, pattern: Pattern) -> None:
    result = all_reduce(contributions(pattern, dtype, np.arange(LENGTH)), operation, dtype)
    for places in SHIFTS:
        wrong = num_wrong(pattern, operation, dtype, np.roll(result, places))
        assert wrong >= 0.15 * LENGTH, places


@every_case
def test_two_exchanged_chunks_of_a_result_are_seen(
    operation: str, dtype: str, pattern: Pattern
) -> None:
    result = all_reduce(contributions(pattern, dtype, np.arange(LENGTH)), operation, dtype)
    result[:4096], result[8192:12_288] = result[8192:12_288].copy(), result[:4096].copy()
    assert num_wrong(pattern, operation, dtype, result) >= 0.2 * 8192


@every_case
def test_what_the_case_before_left_behind_is_seen(
    operation: str, dtype: str, pattern: Pattern
) -> None:
    before = a_pattern(dtype, operation, pattern.num_ranks, number=6)
    stale = all_reduce(contributions(before, dtype, np.arange(LENGTH)), operation, dtype)
    assert num_wrong(pattern, operation, dtype, stale) >= 0.15 * LENGTH


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_a_detour_over_half_the_width_is_seen(dtype: str) -> None:
    pattern = a_pattern(dtype, "sum", 2)
    narrow = {"float64": np.float32, "int64": np.int32}[dtype]
    parts = contributions(pattern, dtype, np.arange(LENGTH))
    detour = [part.astype(narrow).astype(dtype) for part in parts]
    assert num_wrong(pattern, "sum", dtype, all_reduce(detour, "sum", dtype)) > 0.9 * LENGTH


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_an_average_may_be_off_by_its_rounding_and_no_more(dtype: str) -> None:
    pattern = a_pattern(dtype, "avg", 3)
    parts = contributions(pattern, dtype, np.arange(LENGTH))
    parts[0] = rounded(parts[0] + 1, dtype)
    got = all_reduce(parts, "avg", dtype)
    assert num_wrong(pattern, "avg", dtype, got) == LENGTH


@pytest.mark.parametrize("num_ranks", [1, 2, 4, 8])
def test_averages_over_a_power_of_two_are_exact(num_ranks: int) -> None:
    assert a_pattern("float32", "avg", num_ranks).tolerance("avg", "float32") == 0


@pytest.mark.parametrize(("operation", "dtype"), COMBINATIONS)
def test_blocks_differ_by_their_step(operation: str, dtype: str) -> None:
    pattern = a_pattern(dtype, operation, 2, number=3)
    start = PERIOD - pattern.offset
    positions = np.arange(start, start + 100)
    for block in range(3):
        moved = positions + block * PERIOD
        step = pattern.block_step(block + 1, None) - pattern.block_step(1, None)
        assert (pattern.contribution(moved, 1) == pattern.contribution(positions, 1) + step).all()
        step = pattern.block_step(block + 1, operation) - pattern.block_step(1, operation)
        assert (
            pattern.result(moved, operation) == pattern.result(positions, operation) + step
        ).all()


def test_the_period_is_the_largest_prime_of_its_size() -> None:
    def is_prime(number: int) -> bool:
        return all(number % divisor for divisor in range(2, int(number**0.5) + 1))

    assert [n for n in range(PERIOD, 2**20) if is_prime(n)] == [PERIOD]
    assert is_prime(NUM_OFFSETS)


def test_patterns_repeat_their_offset_only_after_thousands_of_cases() -> None:
    offsets = [a_pattern("float32", "sum", 2, number).offset for number in range(NUM_OFFSETS)]
    assert len(set(offsets)) == NUM_OFFSETS


def test_a_type_too_narrow_for_a_team_is_refused() -> None:
    with pytest.raises(PatternError, match=r"bfloat16 holds .* 256 .* sum over 16 ranks; check"):
        a_pattern("bfloat16", "sum", 16)


def test_an_unknown_operation_is_refused() -> None:
    with pytest.raises(ValueError, match="'median' has no formula"):
        a_pattern("float32", "sum", 2).result(0, "median")


def _one_in(num_ranks: int) -> range:
    return range(LENGTH // num_ranks, LENGTH // num_ranks + 2)
