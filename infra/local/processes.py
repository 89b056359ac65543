"""Processes of an environment: started detached, found again by a mark in their environment.

Files with process numbers lie after a `kill -9` or a restart; the mark cannot.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from infra.local.machine import LocalError

MARK: Final = "CROSSVENDOR_ENVIRONMENT"
"""Environment variable that every process of an environment carries, with its name."""

_started: Final[set[int]] = set()
"""Children of this very process, which only it can collect."""


def start(
    command: Sequence[str | Path],
    *,
    mark: str,
    log: Path,
    namespace: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> int:
    """Start a daemon in a network namespace and return its process number.

    `nsenter` and not `ip netns exec`: the latter mounts a fresh /sys, where a kubelet finds no
    cgroups.
    """
    words = [str(word) for word in command]
    if namespace is not None:
        words = ["nsenter", f"--net=/run/netns/{namespace}", *words]
    log.parent.mkdir(parents=True, exist_ok=True)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        pid = os.posix_spawnp(
            words[0],
            words,
            {"PATH": os.environ["PATH"], "HOME": "/root", **(environment or {}), MARK: mark},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
            ],
            setsid=True,
        )
    finally:
        os.close(output)
    _started.add(pid)
    return pid


def marked(mark: str) -> list[int]:
    """Numbers of the processes that carry the mark."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):  # it ended, or is the kernel's
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def is_alive(pid: int, mark: str) -> bool:
    """Whether this process still runs and is the environment's (numbers are used again)."""
    with suppress(OSError):
        return f"{MARK}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False


def end_all(find: Callable[[], Iterable[int]], *, deadline: float = 30) -> None:
    """Kill what `find` finds until it finds nothing: children may be born while we look."""
    end = time.monotonic() + deadline
    killed: set[int] = set()
    while pids := list(find()):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed.update(pids)
        if time.monotonic() > end:
            numbers = ", ".join(str(pid) for pid in pids)
            msg = f"processes {numbers} do not end after SIGKILL; look at them with ps, or restart."
            raise LocalError(msg)
        time.sleep(0.05)
    for pid in killed & _started:  # our own children stay in the table until they are collected
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
        _started.discard(pid)
    while any(Path(f"/proc/{pid}").exists() for pid in killed) and time.monotonic() < end:
        time.sleep(0.05)  # the others are init's to collect


def wait_until(
    what: str, ready: Callable[[], bool], *, seconds: float, hint: str, every: float = 0.1
) -> None:
    """Poll until `ready`; LocalError names what was awaited and where to look."""
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            msg = f"{what} is not ready after {seconds:.0f} s; {hint}."
            raise LocalError(msg)
        time.sleep(every)
