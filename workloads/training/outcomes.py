"""What one rank found in one case, as it travels to rank 0. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Self


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one rank found in one case."""

    rank: int
    seconds: list[float] = field(default_factory=list)
    """Of each iteration."""
    num_wrong: int = 0
    first_wrong: dict[str, Any] | None = None
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """For the store."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """What another rank sent."""
        return cls(**values)


def median_seconds(outcomes: Sequence[Outcome]) -> float | None:
    """The median over iterations of the time of the slowest rank."""
    if not outcomes or not all(outcome.seconds for outcome in outcomes):
        return None
    num_iterations = min(len(outcome.seconds) for outcome in outcomes)
    slowest = [max(o.seconds[i] for o in outcomes) for i in range(num_iterations)]
    return median(slowest)
