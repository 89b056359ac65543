"""The workflows run what people run, and nothing that can change under them."""

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.builders import CHECKOUT

WORKFLOWS: Final = sorted((CHECKOUT / ".github/workflows").glob("*.yml"))

each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)


def steps(path: Path) -> list[dict[str, Any]]:
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [step for job in document["jobs"].values() for step in job["steps"]]


@each_workflow
def test_every_action_is_pinned_by_commit_with_its_version_beside(path: Path) -> None:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert lines
    for line in lines:
        assert re.search(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


@each_workflow
def test_every_step_of_ours_is_a_target_of_the_makefile(path: Path) -> None:
    makefile = (CHECKOUT / "Makefile").read_text(encoding="utf-8")
    targets = [
        match.group(1)
        for step in steps(path)
        if (match := re.search(r"\bmake ([a-z-]+)", step.get("run", "")))
    ]
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{path.name}: make {target}"


@each_workflow
def test_a_workflow_may_only_read_and_ends_in_time(path: Path) -> None:
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert document["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in document["jobs"].values())
