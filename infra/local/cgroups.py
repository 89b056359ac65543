"""Control groups of an environment: one per node, under one of the environment's name.

Works on version 2 and on version 1, where every controller has a hierarchy of its own.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from infra.local.machine import LocalError

_PERIOD_US: Final = 100_000
_CONTROLLERS: Final = ("cpu", "cpuset", "memory", "pids", "io")


def create(environment: str, node: str, *, cpu_limit: float | None) -> None:
    """Make a node's group in every hierarchy, limited to `cpu_limit` cores."""
    for hierarchy in _hierarchies():
        group = hierarchy / environment / node
        group.mkdir(parents=True, exist_ok=True)
        if _is_unified(hierarchy):
            for parent in (hierarchy, hierarchy / environment):
                _enable_controllers(parent)
        elif (hierarchy / "cpuset.cpus").exists():
            # Version 1 makes groups without any CPU or memory node, in which nothing can run.
            for child in (group.parent, group):
                for name in ("cpuset.cpus", "cpuset.mems"):
                    (child / name).write_text((child.parent / name).read_text())
        if cpu_limit is not None:
            _limit(group, cpu_limit)


def _limit(group: Path, cores: float) -> None:
    quota = int(cores * _PERIOD_US)
    if (group / "cpu.cfs_quota_us").exists():
        (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(quota))
    elif (group / "cpu.max").exists():
        (group / "cpu.max").write_text(f"{quota} {_PERIOD_US}")


def processes(environment: str) -> list[int]:
    """Numbers of all processes in the environment's groups: the containers'."""
    found: set[int] = set()
    for group in _groups(environment):
        with suppress(OSError):
            found.update(int(line) for line in (group / "cgroup.procs").read_text().split())
    return sorted(found)


def remove(environment: str) -> None:
    """Remove the environment's groups; they must be empty of processes."""
    end = time.monotonic() + 10
    while groups := list(_groups(environment)):
        for group in groups:  # children first
            with suppress(OSError):
                group.rmdir()
        if time.monotonic() > end:
            msg = f"control group {groups[0]} cannot be removed; look at its cgroup.procs."
            raise LocalError(msg)


def _groups(environment: str) -> Iterator[Path]:
    """The environment's groups in every hierarchy, children before parents."""
    for hierarchy in _hierarchies():
        for folder, _, _ in os.walk(hierarchy / environment, topdown=False):
            yield Path(folder)


def _hierarchies() -> list[Path]:
    """Mount points of all hierarchies: one of version 2, all of version 1, or both kinds."""
    mounts = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    return [
        Path(fields[1]) for fields in map(str.split, mounts) if fields[2] in ("cgroup", "cgroup2")
    ]


def _is_unified(hierarchy: Path) -> bool:
    return (hierarchy / "cgroup.controllers").exists()


def _enable_controllers(group: Path) -> None:
    present = (group / "cgroup.controllers").read_text().split()
    wanted = " ".join(f"+{name}" for name in _CONTROLLERS if name in present)
    (group / "cgroup.subtree_control").write_text(wanted)
