"""Dockerfiles and scripts: linted, pinned through the catalogue, without root at the end."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.builders import CHECKOUT

DOCKERFILES = sorted(CHECKOUT.glob("images/**/Dockerfile"))
SCRIPTS = [
    file
    for file in sorted((CHECKOUT / "images/scripts").iterdir())
    if file.is_file() and file.read_bytes().startswith((b"#!/bin/sh", b"#!/bin/bash"))
]

EACH_DOCKERFILE = pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.parent.name)
EACH_SCRIPT = pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.name)


def words(file: Path, instruction: str) -> list[list[str]]:
    lines = file.read_text(encoding="utf-8").splitlines()
    return [line.split()[1:] for line in lines if line.startswith(f"{instruction} ")]


@EACH_DOCKERFILE
def test_a_dockerfile_passes_hadolint(file: Path) -> None:
    command = ["hadolint", "--config", str(CHECKOUT / ".hadolint.yaml"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@EACH_SCRIPT
def test_a_script_passes_shellcheck(file: Path) -> None:
    done = subprocess.run(["shellcheck", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@EACH_SCRIPT
def test_a_script_is_executable(file: Path) -> None:
    assert os.access(file, os.X_OK)


@EACH_DOCKERFILE
def test_a_dockerfile_names_no_image_itself(file: Path) -> None:
    stages = {line[-1] for line in words(file, "FROM") if "AS" in line}
    for line in words(file, "FROM"):
        assert line[0] in {"${PARENT}", "scratch", *stages}


@EACH_DOCKERFILE
def test_what_pods_run_does_not_run_as_root(file: Path) -> None:
    last = file.read_text(encoding="utf-8").rpartition("\nFROM ")[2]
    is_parent_only = file.parent.name == "openmpi"
    users = re.findall(r"^USER (\d+):(\d+)$", last, re.MULTILINE)
    assert bool(users) != is_parent_only
    assert all(int(user) > 0 and int(group) > 0 for user, group in users)


@EACH_DOCKERFILE
def test_packages_are_installed_by_the_script_that_leaves_nothing_behind(file: Path) -> None:
    assert "apt-get" not in file.read_text(encoding="utf-8")


@EACH_DOCKERFILE
def test_a_dockerfile_fetches_nothing_but_packages(file: Path) -> None:
    assert not re.search(r"\b(curl|wget|pip|git)\b|https?://", file.read_text(encoding="utf-8"))


def test_the_compiler_stays_in_a_stage_of_its_own() -> None:
    for file in DOCKERFILES:
        last = file.read_text(encoding="utf-8").rpartition("\nFROM ")[2]
        assert "g++" not in last
