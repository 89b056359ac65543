"""Which all-reduces the check runs: chosen to cover what matters within seconds. Pure.

The cross product of operation, type and place is run at small sizes; the large ones, where the wire
decides, are run once or twice each.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from .carriers import ITEM_SIZES, Carrier
from .expected import PatternError, a_pattern

KIB: Final = 1024
MIB: Final = 1024 * KIB

CROSS_OPERATIONS: Final = ("sum", "max", "avg")
CROSS_SIZES: Final = (1, 2 * KIB, 64 * KIB, MIB)
"""Bytes; UCC and Open MPI change algorithm between these."""
CROSS_ITERATIONS: Final = 2
LARGE: Final = 64 * MIB
SCALE_ITERATIONS: Final[Mapping[int, int]] = {
    4: 20,
    64: 20,
    KIB: 20,
    16 * KIB: 20,
    256 * KIB: 10,
    MIB: 5,
    4 * MIB: 3,
    16 * MIB: 2,
    LARGE: 1,
    256 * MIB: 1,
}
"""Sizes of the one series that latency and bandwidth are plotted from."""
TEAM_SIZES: Final = (1, 64 * KIB, MIB)
QUICK_MAX: Final = 64 * KIB


@dataclass(frozen=True, kw_only=True)
class Case:
    """One all-reduce to run and to verify."""

    operation: str
    dtype: str
    in_place: bool
    team: str
    num_elements: int
    iterations: int

    @property
    def num_bytes(self) -> int:
        """Size of one rank's contribution."""
        return self.num_elements * ITEM_SIZES[self.dtype]


@dataclass(frozen=True)
class Skipped:
    """Something that is not checked, and why."""

    what: str
    why: str


def teams(world_size: int) -> dict[str, tuple[int, ...]]:
    """The teams to check, as global ranks in team order; the same on every rank."""
    found = {"world": tuple(range(world_size))}
    if world_size > 1:
        found["reversed"] = tuple(reversed(range(world_size)))
        found["single"] = (world_size - 1,)
    if world_size > 3:  # below, the world itself is the only odd team
        odd = world_size - 1 if world_size % 2 == 0 else world_size - 2
        found["odd"] = tuple(range(world_size - odd, world_size))
        found["every-second"] = tuple(range(0, world_size, 2))
    return found


def cases(
    carrier: Carrier, world_size: int, max_bytes: int = 256 * MIB, *, is_quick: bool = False
) -> tuple[list[Case], list[Skipped]]:
    """What to run, smallest first within each part, and what this carrier cannot be asked."""
    limit = min(max_bytes, QUICK_MAX) if is_quick else max_bytes
    runs: list[Case] = []
    skipped: list[Skipped] = []
    sizes = {name: len(ranks) for name, ranks in teams(world_size).items()}
    for case in (*_cross(limit), *_scale(limit), *_teams(world_size, limit)):
        why = carrier.why_not(case.operation, case.dtype) or _why_inexact(case, sizes[case.team])
        if why is None:
            runs.append(case)
            continue
        skip = Skipped(f"{case.operation} of {case.dtype}", why)
        if skip not in skipped:
            skipped.append(skip)
    return runs, skipped


def odd_count(num_bytes: int, dtype: str) -> int:
    """The largest odd number of elements that fits, at least one."""
    count = max(1, num_bytes // ITEM_SIZES[dtype])
    return count if count % 2 else count - 1


def _cross(limit: int) -> Iterator[Case]:
    for num_bytes in CROSS_SIZES:
        for dtype in ITEM_SIZES:
            for operation in CROSS_OPERATIONS:
                for in_place in (True, False):
                    if num_bytes <= limit:
                        yield Case(
                            operation=operation,
                            dtype=dtype,
                            in_place=in_place,
                            team="world",
                            num_elements=odd_count(num_bytes, dtype),
                            iterations=CROSS_ITERATIONS,
                        )


def _scale(limit: int) -> Iterator[Case]:
    for num_bytes, iterations in SCALE_ITERATIONS.items():
        if num_bytes > limit:
            continue
        # One size stays a round number of bytes, as other benchmarks have it.
        is_largest = num_bytes == max(SCALE_ITERATIONS)
        count = num_bytes // 4 if is_largest else odd_count(num_bytes, "float32")
        for in_place in (True, False) if num_bytes == LARGE else (True,):
            yield Case(
                operation="sum",
                dtype="float32",
                in_place=in_place,
                team="world",
                num_elements=count,
                iterations=iterations,
            )


def _teams(world_size: int, limit: int) -> Iterator[Case]:
    for team in teams(world_size):
        if team == "world":
            continue
        for num_bytes in TEAM_SIZES:
            for operation, dtype, in_place in (
                ("sum", "float32", True),
                ("sum", "float64", False),
                ("max", "int64", True),
                ("avg", "float32", False),
            ):
                if num_bytes <= limit:
                    yield Case(
                        operation=operation,
                        dtype=dtype,
                        in_place=in_place,
                        team=team,
                        num_elements=odd_count(num_bytes, dtype),
                        iterations=CROSS_ITERATIONS,
                    )


def _why_inexact(case: Case, num_ranks: int) -> str | None:
    try:
        a_pattern(case.dtype, case.operation, num_ranks)
    except PatternError as error:
        return str(error)
    return None
