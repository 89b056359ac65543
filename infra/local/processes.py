"""Processes of an environment: started detached, found again by a mark in their environment.

Files with process numbers lie after a `kill -9` or a restart; the mark cannot.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from infra.local.machine import LocalError

MARK: Final = "CROSSVENDOR_ENVIRONMENT"
"""Environment variable that every process of an environment carries, with its name."""


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
    with log.open("ab") as output:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd="/",
            env={"PATH": os.environ["PATH"], "HOME": "/root", **(environment or {}), MARK: mark},
        )
    return process.pid


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
    while pids := list(find()):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _reap()
        if time.monotonic() > end:
            numbers = ", ".join(str(pid) for pid in pids)
            msg = f"processes {numbers} do not end after SIGKILL; look at them with ps, or restart."
            raise LocalError(msg)
        time.sleep(0.05)


def _reap() -> None:
    """Collect our own children that ended, which otherwise stay in the table as zombies."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


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
