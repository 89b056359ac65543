"""Starts the ranks of one job on this machine and waits for them."""

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PACKAGE = "training" if importlib.util.find_spec("training") else "workloads.training"
BODIES = "tests.distributed.bodies"
LIMIT_SECONDS = 150.0
"""For a whole job; importing torch on a busy machine takes a good part of it."""

ENVIRONMENT = {
    "UCC_CLS": "basic",
    "UCC_TLS": "ucp,self",
    "UCC_CONFIG_FILE": "",
    "UCX_TLS": "tcp,self",
    "UCX_NET_DEVICES": "lo",
    "UCX_LOG_LEVEL": "error",
    "GLOO_SOCKET_IFNAME": "lo",
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "sm,self",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "MASTER_ADDR": "127.0.0.1",
}


@dataclass(frozen=True)
class Ended:
    """One process, or mpirun with all of its."""

    status: int
    output: str
    errors: str

    @property
    def events(self) -> list[dict[str, Any]]:
        """The lines of the result protocol."""
        return [json.loads(line) for line in self.output.splitlines() if line.startswith("{")]

    def of(self, event: str) -> list[dict[str, Any]]:
        """The events of one kind."""
        return [found for found in self.events if found["event"] == event]


def run_ranks(
    size: int,
    arguments: Sequence[str],
    by_rank: Mapping[int, Mapping[str, str]] | None = None,
) -> list[Ended]:
    """Runs `python3 -m ARGUMENTS` once per rank, as torchrun would, but lets the others live on."""
    port = str(free_port())
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", *arguments],
            env={
                **os.environ,
                **ENVIRONMENT,
                "MASTER_PORT": port,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(size),
                "CROSSVENDOR_POD": f"pod-{rank}",
                **(by_rank or {}).get(rank, {}),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        ended = []
        for process in processes:
            output, errors = process.communicate(timeout=LIMIT_SECONDS)
            ended.append(Ended(process.returncode, output, errors))
        return ended
    finally:
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()


def run_body(
    size: int, name: str, by_rank: Mapping[int, Mapping[str, str]] | None = None
) -> list[Ended]:
    """Runs a function of bodies.py on every rank."""
    return run_ranks(size, [BODIES, name], by_rank)


def mpirun(size: int, arguments: Sequence[str]) -> Ended:
    """Runs `python3 -m ARGUMENTS` under mpirun."""
    ended = subprocess.run(
        [
            *("mpirun", "-n", str(size), "--oversubscribe", "--bind-to", "none"),
            *(sys.executable, "-m", *arguments),
        ],
        env={**os.environ, **ENVIRONMENT, "MASTER_PORT": str(free_port())},
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def crashed_as_known(ended: Ended, ucc: str) -> bool:
    """Whether a rank whose peer died ended by the crash of a UCC before 1.8.

    That one cancels and frees UCX's error as if it were a request (its tl_ucp_sendrecv.h).
    """
    is_old = tuple(map(int, ucc.split("."))) < (1, 8)
    return is_old and ended.status == -signal.SIGSEGV


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
