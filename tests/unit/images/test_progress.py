"""Steps follow what they need, together where they can, and the first failure is named."""

import io
import threading

import pytest
from rich.console import Console

from images import progress
from images.sources import BuildError


def a_report() -> progress.Report:
    return progress.Report(Console(file=io.StringIO()))


def test_steps_run_after_what_they_need_and_independent_ones_together() -> None:
    together = threading.Barrier(2, timeout=20)
    done: list[str] = []

    def step(name: str, *, meets: bool = False) -> str:
        if meets:
            together.wait()
        done.append(name)
        return "built"

    graph = {"a": {"root"}, "b": {"root"}, "last": {"a", "b"}}
    steps = {
        "root": lambda: step("root"),
        "a": lambda: step("a", meets=True),
        "b": lambda: step("b", meets=True),
        "last": lambda: step("last"),
    }
    progress.run_in_order(graph, steps, a_report())
    assert done[0] == "root"
    assert sorted(done[1:3]) == ["a", "b"]
    assert done[3] == "last"


def test_a_step_that_fails_is_named_and_its_children_do_not_run() -> None:
    def fail() -> str:
        msg = "the disk is full."
        raise BuildError(msg)

    def never() -> str:
        raise AssertionError

    with pytest.raises(BuildError, match=r"^parent: the disk is full\."):
        progress.run_in_order({"child": {"parent"}}, {"parent": fail, "child": never}, a_report())
