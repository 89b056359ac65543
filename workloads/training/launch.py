"""What a rank is told by whoever started it; the only place that reads the environment.

Nothing here talks to another rank.
"""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

_STARTERS: Final[tuple[tuple[str, str, str, str], ...]] = (
    ("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"),
)
"""Who sets rank, world size and local rank under which name. mpirun first: a job may export
RANK for its own purposes, but nobody else sets Open MPI's names."""


class LaunchError(ValueError):
    """The environment does not say what a rank must know; one sentence."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """This process's place in the job."""

    started_by: str
    rank: int
    world_size: int
    local_rank: int
    master_address: str
    master_port: int
    is_store_elsewhere: bool
    """torchrun's agent serves the store itself; otherwise rank 0 does."""
    hostname: str
    pod: str
    vendor: str
    link_mbits: float | None
    """The smallest link between the team's nodes; None when unknown."""
    environment: Mapping[str, str]
    """The whole of it, for settings.py and versions.py."""

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """The launch that the environment describes. Raises LaunchError."""
        started = [starter for starter in _STARTERS if starter[1] in environment]
        if not started:
            names = " or ".join(names[1] for names in _STARTERS)
            msg = f"launch: {names} is not set; start this with mpirun or torchrun."
            raise LaunchError(msg)
        started_by, rank, world_size, local_rank = started[0]
        hostname = socket.gethostname()
        link = environment.get("CROSSVENDOR_LINK_MBITS", "")
        launch = cls(
            started_by=started_by,
            rank=_number(environment, rank, least=0),
            world_size=_number(environment, world_size, least=1),
            local_rank=_number(environment, local_rank, least=0),
            master_address=_text(environment, "MASTER_ADDR"),
            master_port=_number(environment, "MASTER_PORT", least=1),
            is_store_elsewhere=environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
            hostname=hostname,
            pod=environment.get("CROSSVENDOR_POD", "") or hostname,
            vendor=environment.get("CROSSVENDOR_VENDOR", "") or "none",
            link_mbits=_positive(link, "CROSSVENDOR_LINK_MBITS") if link else None,
            environment=dict(environment),
        )
        if launch.rank >= launch.world_size:
            msg = (
                f"launch: {rank} is {launch.rank} in a world of {launch.world_size}; "
                f"ranks go from 0 to {launch.world_size - 1}."
            )
            raise LaunchError(msg)
        return launch


def _text(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "")
    if not value:
        msg = f"launch: {name} is not set; give every rank the host and port of rank 0."
        raise LaunchError(msg)
    return value


def _number(environment: Mapping[str, str], name: str, *, least: int) -> int:
    value = _text(environment, name)
    if not (value.isascii() and value.isdigit()) or int(value) < least:
        msg = f"launch: {name} is {value!r}; it must be a whole number of at least {least}."
        raise LaunchError(msg)
    return int(value)


def _positive(value: str, name: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        msg = f"launch: {name} is {value!r}; it must be a positive number of Mbit/s."
        raise LaunchError(msg)
    return number
