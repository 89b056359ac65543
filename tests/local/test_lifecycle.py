"""Up, again, killed, down: the machine is as it was, and any earlier end is harmless."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.local.conftest import CHECKOUT, NAME, command, local

pytestmark = pytest.mark.local

# Seconds after the start, spread over a start of about five: clean-up, network, control plane,
# nodes, waiting for them.
KILL_POINTS = (0.9, 1.6, 2.6, 3.6, 4.6)


def lines_of(*words: str) -> set[str]:
    return set(
        subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    )


def machine_state() -> dict[str, set[str]]:
    """What an environment may leave behind, by kind; only this environment's name or ranges."""
    processes = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if f"CROSSVENDOR_ENVIRONMENT={NAME}".encode() in (entry / "environ").read_bytes():
                    processes.add(entry.name)
            except OSError:
                continue
    groups = {str(path) for path in Path("/sys/fs/cgroup").glob(f"*/{NAME}*") if path.is_dir()} | {
        str(path) for path in Path("/sys/fs/cgroup").glob(f"{NAME}*") if path.is_dir()
    }
    mounts = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    return {
        "processes": processes,
        "control groups": groups,
        "mounts": {line for line in mounts if NAME in line},
        "namespaces": {line for line in lines_of("ip", "netns", "list") if NAME in line},
        "links": {line for line in lines_of("ip", "-brief", "link") if NAME in line},
        "routes": {
            line for line in lines_of("ip", "route") if "10.201." in line or "10.245." in line
        },
        "firewall rules": lines_of("nft", "list", "ruleset"),
        "socket folders": {str(path) for path in Path("/run/crossvendor").glob(f"{NAME}*")},
    }


def daemons() -> dict[str, object]:
    """Process numbers of the node's daemons."""
    [state] = {
        Path(json.loads(file.read_text(encoding="utf-8"))["state"])
        for file in Path("/run/crossvendor").glob(f"{NAME}/environment.json")
    }
    return {str(file.relative_to(state)): file.read_text() for file in state.rglob("*.pid")}


def test_down_leaves_the_machine_as_it_was_before_up(stack: Path) -> None:
    before = machine_state()
    assert local(stack, "up").returncode == 0
    during = machine_state()
    for kind in before.keys() - {"firewall rules"}:
        assert during[kind] > before[kind], f"up made no {kind}: the comparison would see nothing"
    done = local(stack, "down")
    assert done.returncode == 0, done.stderr
    assert machine_state() == before


def test_a_second_up_reuses_what_runs(stack: Path) -> None:
    assert local(stack, "up").returncode == 0
    first = daemons()
    again = local(stack, "up")
    assert again.returncode == 0
    assert "already running" in again.stdout
    assert daemons() == first


def test_an_environment_that_lost_a_daemon_is_started_again(stack: Path) -> None:
    assert local(stack, "up").returncode == 0
    first = daemons()
    [kubelet] = [str(number) for file, number in first.items() if file.endswith("kubelet.pid")][:1]
    os.kill(int(kubelet), signal.SIGKILL)
    assert local(stack, "up").returncode == 0
    assert daemons() != first


def test_another_size_is_another_environment(stack: Path) -> None:
    assert local(stack, "up").returncode == 0
    assert local(stack, "up", sizes=["nvidia=2", "system=1"]).returncode == 0
    document = json.loads(local(stack, "status", sizes=["nvidia=2"]).stdout)
    assert {"nvidia-0", "nvidia-1"} <= document["nodes"].keys()
    assert all(node["alive"] for node in document["nodes"].values())


@pytest.mark.parametrize("seconds", KILL_POINTS)
def test_up_after_a_kill_works(stack: Path, seconds: float) -> None:
    process = subprocess.Popen(
        command(stack, "up"), cwd=CHECKOUT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(seconds)
    process.kill()
    process.wait()
    done = local(stack, "up")
    assert done.returncode == 0, done.stderr
    document = json.loads(local(stack, "status").stdout)
    assert document["control_plane"]
    assert all(node["alive"] for node in document["nodes"].values())


def test_a_second_command_waits_its_turn_with_a_sentence(stack: Path) -> None:
    process = subprocess.Popen(
        command(stack, "up"), cwd=CHECKOUT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    lock = Path("/run/crossvendor") / NAME / "lock"
    while not lock.exists():
        time.sleep(0.02)
    time.sleep(0.1)
    second = local(stack, "up")
    assert process.wait() == 0
    assert second.returncode == 2
    assert f"another command works on environment {NAME}" in second.stderr
