"""Starts a carrier and makes teams of ranks on it: the effects behind carriers.py."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

import torch
import torch.distributed as dist

from .launch import Launch, LaunchError

OPERATIONS = {
    "sum": dist.ReduceOp.SUM,
    "max": dist.ReduceOp.MAX,
    "min": dist.ReduceOp.MIN,
    "avg": dist.ReduceOp.AVG,
}


class Team(Protocol):
    """Ranks that reduce together; every method blocks until its result is there."""

    def all_reduce(self, tensor: torch.Tensor, operation: str) -> None:
        """Replaces the tensor by the team's result."""

    def all_reduce_into(self, output: torch.Tensor, tensor: torch.Tensor, operation: str) -> None:
        """Writes the team's result to `output` and leaves the tensor as it is."""

    def barrier(self) -> None:
        """Returns when every rank of the team has called it."""


def connect(launch: Launch, timeout: timedelta) -> Any:
    """The store through which ranks meet; rank 0 serves it, unless torchrun does."""
    try:
        return dist.TCPStore(
            launch.master_address,
            launch.master_port,
            launch.world_size,
            is_master=launch.rank == 0 and not launch.is_store_elsewhere,
            timeout=timeout,
            wait_for_workers=False,  # the agreement can name who is missing, the store cannot
            use_libuv=False,  # Debian's torch is built without
        )
    except RuntimeError as error:
        msg = (
            f"launch: the store at {launch.master_address}:{launch.master_port} cannot be reached "
            f"within {timeout.total_seconds():g} s ({_first_line(error)}); rank 0 must run there."
        )
        raise LaunchError(msg) from error


@contextmanager
def world(carrier: str, launch: Launch, store: Any, timeout: timedelta) -> Iterator[Team]:
    """The team of all ranks; torch's default group while it lasts."""
    if carrier == "mpi":
        if not dist.is_mpi_available():
            msg = "mpi: this torch has no mpi backend; use Debian's torch or another carrier."
            raise LaunchError(msg)
        if launch.started_by != "mpirun":
            msg = f"mpi: started by {launch.started_by}; the mpi carrier needs mpirun."
            raise LaunchError(msg)
        dist.init_process_group("mpi")  # takes rank and size from mpirun, and has no timeout
    else:
        if carrier == "libucc":
            from . import libucc  # noqa: F401  registers the backend
        dist.init_process_group(
            carrier,
            store=dist.PrefixStore("world", store),
            rank=launch.rank,
            world_size=launch.world_size,
            timeout=timeout,
        )
    yield _GroupTeam(carrier, dist.group.WORLD)
    dist.destroy_process_group()


def team(
    carrier: str, name: str, ranks: Sequence[int], launch: Launch, store: Any, timeout: timedelta
) -> Team | None:
    """The team of these ranks, in this order; None on the others, which must call this too."""
    if carrier == "mpi":
        # Open MPI needs every rank of the world here, and torch 2.6's new_group() calls it on
        # the members only: they would wait for ever.
        backend = dist.ProcessGroupMPI.create(list(ranks))
        return _BackendTeam(carrier, backend) if launch.rank in ranks else None
    if sorted(ranks) == list(ranks):
        # torch sorts the ranks of its groups
        group = dist.new_group(list(ranks), timeout=timeout)
        return _GroupTeam(carrier, group) if launch.rank in ranks else None
    if launch.rank not in ranks:
        return None
    own_store = dist.PrefixStore(f"team/{name}", store)
    index = list(ranks).index(launch.rank)
    if carrier == "libucc":
        from . import libucc

        return _BackendTeam(carrier, libucc.create(own_store, index, len(ranks), timeout, name))
    return _BackendTeam(
        carrier, dist.ProcessGroupGloo(own_store, index, len(ranks), timeout=timeout)
    )


@dataclass(frozen=True)
class _BackendTeam:
    """A team that torch's group functions do not know, because its ranks are out of order."""

    carrier: str
    backend: Any

    def all_reduce(self, tensor: torch.Tensor, operation: str) -> None:
        self.backend.allreduce([tensor], _options(operation)).wait()

    def all_reduce_into(self, output: torch.Tensor, tensor: torch.Tensor, operation: str) -> None:
        _into(self, self.carrier, self.backend, output, tensor, operation)

    def barrier(self) -> None:
        self.backend.barrier(dist.BarrierOptions()).wait()


@dataclass(frozen=True)
class _GroupTeam:
    """A team that is a torch group."""

    carrier: str
    group: Any

    def all_reduce(self, tensor: torch.Tensor, operation: str) -> None:
        dist.all_reduce(tensor, OPERATIONS[operation], group=self.group)

    def all_reduce_into(self, output: torch.Tensor, tensor: torch.Tensor, operation: str) -> None:
        backend = self.group._get_backend(torch.device("cpu"))
        _into(self, self.carrier, backend, output, tensor, operation)

    def barrier(self) -> None:
        dist.barrier(group=self.group)


def _into(
    team: Team,
    carrier: str,
    backend: Any,
    output: torch.Tensor,
    tensor: torch.Tensor,
    operation: str,
) -> None:
    """Out of place: by the library where it can, else as torch's functional collectives do it."""
    if carrier == "libucc":
        backend.allreduce_into(output, tensor, _options(operation)).wait()
    else:
        output.copy_(tensor)
        team.all_reduce(output, operation)


def _options(operation: str) -> Any:
    options = dist.AllreduceOptions()
    options.reduceOp = OPERATIONS[operation]
    return options


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
