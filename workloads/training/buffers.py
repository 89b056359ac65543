"""Fills tensors with a case's contributions and counts the wrong elements of a result.

Works block by block, so that checking 256 MiB needs a few MiB and touches every element.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from .expected import PERIOD, Pattern


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """The wrong elements of one result."""

    num_elements: int
    first_index: int
    got: float
    expected: float


def fill(tensor: torch.Tensor, pattern: Pattern, index: int) -> None:
    """Writes the contribution of the team's rank number `index`."""
    first = pattern.contribution(_positions(tensor), index).to(tensor.dtype)
    for block, part in _blocks(tensor):
        torch.add(first[: part.numel()], pattern.block_step(block, None), out=part)


def wrong_in_input(tensor: torch.Tensor, pattern: Pattern, index: int) -> Wrong | None:
    """Elements of an out-of-place input that the collective has changed."""
    first = pattern.contribution(_positions(tensor), index).to(tensor.dtype)
    return _compare(tensor, first, lambda block: pattern.block_step(block, None), 0.0)


def wrong_in_result(tensor: torch.Tensor, pattern: Pattern, operation: str) -> Wrong | None:
    """Elements that are not what the operation must give."""
    divisor = pattern.num_ranks if operation == "avg" else 1
    total = pattern.result(_positions(tensor), operation)
    # Averages are whole or half numbers; as float64 they are exact before the type's own rounding.
    first = (total if divisor == 1 else total.double() / divisor).to(tensor.dtype)
    dtype = str(tensor.dtype).removeprefix("torch.")
    return _compare(
        tensor,
        first,
        lambda block: pattern.block_step(block, operation) // divisor,
        pattern.tolerance(operation, dtype),
    )


def _positions(tensor: torch.Tensor) -> torch.Tensor:
    return torch.arange(min(tensor.numel(), PERIOD), dtype=torch.int64)


def _blocks(tensor: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
    return enumerate(tensor.split(PERIOD))


def _compare(
    tensor: torch.Tensor, first: torch.Tensor, step: Callable[[int], int], tolerance: float
) -> Wrong | None:
    num_wrong = 0
    found: tuple[int, float, float] | None = None
    for block, part in _blocks(tensor):
        right = first[: part.numel()] + step(block)
        if torch.equal(part, right):
            continue
        if tolerance:
            # not <= rather than >, so that a NaN is wrong
            off = ~((part - right).abs().double() <= right.abs().double() * tolerance)
        else:
            off = part != right
        num_wrong += int(off.sum())
        if found is None and num_wrong:
            at = int(off.nonzero()[0])
            found = (block * PERIOD + at, part[at].item(), right[at].item())
    if found is None:
        return None
    return Wrong(num_elements=num_wrong, first_index=found[0], got=found[1], expected=found[2])
