"""Fills tensors with a case's contributions and counts the wrong elements of a result.

Works block by block against tables of one block, so that checking 256 MiB needs a few MiB more and
touches every element.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from .expected import NUM_OFFSETS, PERIOD, Pattern


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """The wrong elements of one result."""

    num_elements: int
    first_index: int
    got: float
    expected: float


class Tables:
    """The first block of each pattern in use: computed once for all offsets, longer when needed."""

    def __init__(self) -> None:
        self._tables: dict[tuple[Pattern, int | str, torch.dtype], torch.Tensor] = {}

    def fill(self, tensor: torch.Tensor, pattern: Pattern, index: int) -> None:
        """Writes the contribution of the team's rank number `index`."""
        table = self._table(pattern, index, tensor)
        for start, place, length in _pieces(tensor, pattern):
            source = table[place % PERIOD :][:length]
            step = pattern.block_step(place // PERIOD, None)
            torch.add(source, step, out=tensor[start : start + length])

    def wrong_in_input(self, tensor: torch.Tensor, pattern: Pattern, index: int) -> Wrong | None:
        """Elements of an out-of-place input that the collective has changed."""
        return self._compare(tensor, pattern, index)

    def wrong_in_result(
        self, tensor: torch.Tensor, pattern: Pattern, operation: str
    ) -> Wrong | None:
        """Elements that are not what the operation must give."""
        return self._compare(tensor, pattern, operation)

    def _compare(self, tensor: torch.Tensor, pattern: Pattern, what: int | str) -> Wrong | None:
        table = self._table(pattern, what, tensor)
        operation = what if isinstance(what, str) else None
        divisor = pattern.num_ranks if operation == "avg" else 1
        tolerance = pattern.tolerance(operation or "", _name(tensor.dtype))
        num_wrong = 0
        first: Wrong | None = None
        for start, place, length in _pieces(tensor, pattern):
            got = tensor[start : start + length]
            right = table[place % PERIOD :][:length]
            step = pattern.block_step(place // PERIOD, operation) // divisor
            if step:
                right = right + step
            if torch.equal(got, right):
                continue
            off = _differs(got, right, tolerance)
            num_wrong += int(off.sum())
            if first is None and num_wrong:
                at = int(off.nonzero()[0])
                first = Wrong(
                    num_elements=0,
                    first_index=start + at,
                    got=got[at].item(),
                    expected=right[at].item(),
                )
        return first and replace(first, num_elements=num_wrong)

    def _table(self, pattern: Pattern, what: int | str, tensor: torch.Tensor) -> torch.Tensor:
        """The pattern's values from its very beginning, in the tensor's type."""
        length = min(NUM_OFFSETS + tensor.numel(), PERIOD)
        pattern = replace(pattern, offset=0)
        key = (pattern, what, tensor.dtype)
        table = self._tables.get(key)
        if table is None or table.numel() < length:
            places = torch.arange(length, dtype=torch.int64)
            if isinstance(what, int):
                values = pattern.contribution(places, what)
            else:
                values = pattern.result(places, what)
            if what == "avg":
                # whole and half numbers: exact as float64
                values = values.double() / pattern.num_ranks
            table = values.to(tensor.dtype)
            self._tables[key] = table
        return table


def _pieces(tensor: torch.Tensor, pattern: Pattern) -> Iterator[tuple[int, int, int]]:
    """Start in the tensor, place in the pattern and length, for each block that it touches."""
    start = 0
    while start < tensor.numel():
        place = pattern.offset + start
        length = min(PERIOD - place % PERIOD, tensor.numel() - start)
        yield start, place, length
        start += length


def _differs(got: torch.Tensor, right: torch.Tensor, tolerance: float) -> torch.Tensor:
    if not tolerance:
        return got != right
    # not(<=) rather than >, so that a NaN is wrong
    return ~((got.double() - right.double()).abs() <= right.double() * tolerance)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
