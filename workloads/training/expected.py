"""What each rank contributes and what an all-reduce must give, in closed form and exactly.

Plain arithmetic on whole numbers: the functions take a position as an int, a numpy array or a torch
tensor of int64 alike. README.md derives the formulas and says what they detect.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

PERIOD: Final = 1_048_573
"""Length of one block; the largest prime below 2^20, so no chunk of any library divides it."""
MAX_BLOCKS: Final = 64
STRIDE: Final = 611_953
"""A prime near PERIOD/phi: neighbours get values far apart."""
NUM_OFFSETS: Final = 4093
"""A prime; how many cases in a row differ from each other."""

EXACT: Final[Mapping[str, int]] = MappingProxyType(
    {
        "float32": 2**24,
        "float64": 2**53,
        "float16": 2**11,
        "bfloat16": 2**8,
        "int32": 2**31 - 1,
        "int64": 2**63 - 1,
    }
)
"""Up to here a type holds every whole number."""

SCALE: Final[Mapping[str, int]] = MappingProxyType({"float64": 2**20 + 1, "int64": 2**32 + 1})
"""Makes values need a wide type's full width, so that a detour over a narrower one shows."""


class PatternError(ValueError):
    """No exact pattern exists; one sentence."""


@dataclass(frozen=True)
class Pattern:
    """Contributions of one case; `a_pattern` chooses the numbers."""

    num_ranks: int
    modulus: int
    num_blocks: int
    scale: int
    offset: int
    """Where in the pattern position 0 lies: differs from case to case, so that what an earlier case
    left behind is wrong."""

    def contribution(self, position: Any, index: int) -> Any:
        """What the team's rank number `index` puts at a position."""
        place = position + self.offset
        turn = (index + place % PERIOD) % self.num_ranks
        return self.scale * (self.num_ranks * self._level(place) + turn + 1)

    def result(self, position: Any, operation: str) -> Any:
        """What every rank must have there afterwards; for `avg`, `num_ranks` times that."""
        n = self.num_ranks
        level = n * self._level(position + self.offset)
        match operation:
            case "sum" | "avg":
                return self.scale * (n * level + n * (n + 1) // 2)
            case "max":
                return self.scale * (level + n)
            case "min":
                return self.scale * (level + 1)
        msg = f"expected: operation {operation!r} has no formula; use sum, max, min or avg."
        raise ValueError(msg)

    def tolerance(self, operation: str, dtype: str) -> float:
        """How far a right average may be off, relative to it; all else is exact.

        A library multiplies by 1/n, which is rounded unless n is a power of two, and rounds the
        product: half a unit in the last place each.
        """
        if operation != "avg" or _is_power_of_two(self.num_ranks):
            return 0.0
        return 2.0 / EXACT[dtype]

    def block_step(self, block: int, operation: str | None) -> int:
        """How much block number `block` lies above the first, in contributions or in results."""
        ranks = self.num_ranks**2 if operation in ("sum", "avg") else self.num_ranks
        return self.scale * ranks * (block % self.num_blocks)

    def _level(self, place: Any) -> Any:
        """The part that all ranks share: differs along the block, and from block to block."""
        within = place % PERIOD
        mixed = STRIDE * within + within // self.modulus
        return mixed % self.modulus + place // PERIOD % self.num_blocks


def a_pattern(dtype: str, operation: str, num_ranks: int, number: int = 0) -> Pattern:
    """The widest pattern whose sums are exact in the type. Raises PatternError.

    `number` counts the patterns that one process uses.
    """
    offset = 61 * number % NUM_OFFSETS
    scale = SCALE.get(dtype, 1)
    limit = EXACT[dtype]
    if operation == "avg" and not _is_power_of_two(num_ranks):
        limit //= 4  # one wrong contribution must move the average by twice its tolerance
    # The largest sum is scale * n^2 * (modulus + num_blocks - 1), roughly, and not above.
    levels = limit // (scale * num_ranks**2)
    if levels < 3:  # a modulus of two and one block
        msg = (
            f"expected: {dtype} holds whole numbers up to {EXACT[dtype]} exactly, too few for "
            f"{operation} over {num_ranks} ranks; check this type on fewer ranks."
        )
        raise PatternError(msg)
    if levels >= PERIOD + MAX_BLOCKS:
        return Pattern(num_ranks, PERIOD, MAX_BLOCKS, scale, offset)
    num_blocks = max(1, min(MAX_BLOCKS, levels // 4))
    return Pattern(num_ranks, _prime_up_to(levels - num_blocks), num_blocks, scale, offset)


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


def _prime_up_to(limit: int) -> int:
    for candidate in range(limit, 2, -1):
        if all(candidate % divisor for divisor in range(2, int(candidate**0.5) + 1)):
            return candidate
    return 2
