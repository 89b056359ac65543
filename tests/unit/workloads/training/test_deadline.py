"""In processes of their own, because an expired deadline ends the process."""

import subprocess
import sys
from pathlib import Path

from workloads.training.deadline import EXIT_DEADLINE

REPOSITORY = Path(__file__).parents[4]
PROGRAM = """
import sys, time
from workloads.training.deadline import deadline
with deadline({seconds}, lambda: print("too late", flush=True)):
    {body}
time.sleep(0.5)  # the deadline of what has ended must not come
print("orderly")
"""


def run(seconds: float, body: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(seconds=seconds, body=body)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_what_ends_in_time_is_left_alone() -> None:
    ended = run(0.2, "pass")
    assert (ended.returncode, ended.stdout) == (0, "orderly\n")


def test_what_hangs_is_reported_and_ended() -> None:
    ended = run(0.1, "time.sleep(20)")
    assert (ended.returncode, ended.stdout) == (EXIT_DEADLINE, "too late\n")


def test_a_report_that_fails_does_not_keep_the_process_alive() -> None:
    program = PROGRAM.replace('print("too late", flush=True)', "1 / 0")
    ended = subprocess.run(
        [sys.executable, "-c", program.format(seconds=0.1, body="time.sleep(20)")],
        cwd=REPOSITORY,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == EXIT_DEADLINE
