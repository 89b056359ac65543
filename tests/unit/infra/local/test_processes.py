"""Finding and ending an environment's processes by their mark."""

import os
import signal
import time
from pathlib import Path

import pytest

from infra.local import processes
from infra.local.machine import LocalError


@pytest.fixture
def mark(request: pytest.FixtureRequest) -> str:
    return f"test-{os.getpid()}-{abs(hash(request.node.nodeid))}"


def test_a_started_process_is_found_by_its_mark_and_ended(mark: str, tmp_path: Path) -> None:
    pid = processes.start(["sleep", "60"], mark=mark, log=tmp_path / "log")
    assert processes.is_alive(pid, mark)
    assert processes.marked(mark) == [pid]
    processes.end_all(lambda: processes.marked(mark))
    assert processes.marked(mark) == []
    assert not processes.is_alive(pid, mark)


def test_children_are_found_too_even_when_their_parent_has_ended(mark: str, tmp_path: Path) -> None:
    processes.start(["sh", "-c", "sleep 60 & exit 0"], mark=mark, log=tmp_path / "log")
    time.sleep(0.3)
    assert processes.marked(mark)
    processes.end_all(lambda: processes.marked(mark))
    assert processes.marked(mark) == []


def test_somebody_elses_process_with_the_same_number_is_not_ours(mark: str) -> None:
    assert not processes.is_alive(os.getpid(), mark)


def test_output_goes_to_the_log(mark: str, tmp_path: Path) -> None:
    log = tmp_path / "folder" / "log"
    processes.start(["sh", "-c", "echo out; echo err >&2"], mark=mark, log=log)
    processes.wait_until("text", lambda: log.read_text() == "out\nerr\n", seconds=5, hint="-")
    processes.end_all(lambda: processes.marked(mark))


def test_what_does_not_become_ready_is_named_with_a_hint() -> None:
    with pytest.raises(LocalError, match=r"the thing is not ready after 0 s; look there"):
        processes.wait_until("the thing", lambda: False, seconds=0.1, hint="look there")


def test_a_process_that_ignores_sigterm_is_ended_all_the_same(mark: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    ignoring = "trap '' TERM; echo ready; while :; do sleep 1; done"
    pid = processes.start(["sh", "-c", ignoring], mark=mark, log=log)
    processes.wait_until("trap", lambda: log.read_text() == "ready\n", seconds=5, hint="-")
    os.kill(pid, signal.SIGTERM)
    time.sleep(0.1)
    assert processes.is_alive(pid, mark)
    processes.end_all(lambda: processes.marked(mark))
    assert not Path(f"/proc/{pid}").exists()
