"""Runs one case on this rank: fill, time, verify every element, each time anew."""

import time

import torch

from .buffers import Tables, Wrong
from .cases import Case
from .expected import a_pattern
from .groups import Team
from .outcomes import Outcome
from .spoil import spoil_input, spoil_result


class Memory:
    """Two buffers that all cases share, because fresh pages cost more than small collectives."""

    def __init__(self) -> None:
        self._buffers: dict[str, torch.Tensor] = {}

    def tensor(self, name: str, case: Case) -> torch.Tensor:
        """The named buffer as a tensor of the case's type and length."""
        buffer = self._buffers.get(name)
        if buffer is None or buffer.numel() < case.num_bytes:
            self._buffers.pop(name, None)
            buffer = torch.empty(case.num_bytes, dtype=torch.uint8)
            self._buffers[name] = buffer
        return buffer[: case.num_bytes].view(getattr(torch, case.dtype))


def measure(
    case: Case,
    team: Team,
    ranks: tuple[int, ...],
    rank: int,
    memory: Memory,
    tables: Tables,
    number: int,
    fault: str | None,
) -> Outcome:
    """Runs the case; a collective that fails is an outcome, not an exception.

    `number` is that of the first iteration's pattern.
    """
    index = ranks.index(rank)
    seconds: list[float] = []
    num_wrong = 0
    first: Wrong | None = None
    tensor = memory.tensor("input", case)
    output = tensor if case.in_place else memory.tensor("output", case)
    try:
        for iteration in range(case.iterations):
            pattern = a_pattern(case.dtype, case.operation, len(ranks), number + iteration)
            tables.fill(tensor, pattern, index)
            if output is not tensor:
                output.zero_()
            spoil_input(fault, tensor, case.operation)
            team.barrier()  # time the collective, not the wait for the slowest verification
            start = time.perf_counter()
            if case.in_place:
                team.all_reduce(tensor, case.operation)
            else:
                team.all_reduce_into(output, tensor, case.operation)
            seconds.append(time.perf_counter() - start)
            spoil_result(fault, output)
            checks = [tables.wrong_in_result(output, pattern, case.operation)]
            if output is not tensor and fault is None:
                checks.append(tables.wrong_in_input(tensor, pattern, index))
            for wrong in checks:
                if wrong is not None:
                    num_wrong += wrong.num_elements
                    first = first or wrong
    except RuntimeError as error:
        return Outcome(rank=rank, seconds=seconds, error=str(error).splitlines()[0])
    return Outcome(
        rank=rank,
        seconds=seconds,
        num_wrong=num_wrong,
        first_wrong=None
        if first is None
        else {
            "rank": rank,
            "index": first.first_index,
            "got": _finite(first.got),
            "expected": first.expected,
        },
    )


def _finite(value: float) -> float | str:
    # JSON has no NaN and no infinity
    return value if abs(value) < float("inf") else str(value)
