"""What is said when a command fails, which tool is accepted, and what a dead parent leaves."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from images import buildah
from images.buildah import Buildah
from images.sources import BuildError


def a_tool(folder: Path, name: str, script: str) -> None:
    """A command of this name, first on the PATH of the test."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


def test_a_missing_buildah_is_named_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match=r"buildah is missing; install it with apt-get install"):
        Buildah(tmp_path / "cache").prepare()


@pytest.mark.parametrize(
    ("said", "is_accepted"),
    [
        ("buildah version 1.23.1 (image-spec 1.0.1, runtime-spec 1.0.2)", False),
        ("buildah version 1.28.2 (image-spec 1.1.0-rc2)", True),
        ("buildah version 1.39.3", True),
    ],
)
def test_a_buildah_without_named_contexts_is_refused(
    said: str, is_accepted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_tool(tmp_path / "bin", "buildah", f"echo '{said}'")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    refusals = []
    try:
        Buildah(tmp_path / "cache").prepare()
    except BuildError as error:
        refusals.append(str(error))
    assert [("too old; install buildah 1.26" in text) for text in refusals] == (
        [] if is_accepted else [True]
    )


def test_preparing_sweeps_what_a_killed_build_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_tool(tmp_path / "bin", "buildah", "echo buildah version 1.28.2")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    cache = tmp_path / "cache"
    (cache / "tmp").mkdir(parents=True)
    (cache / "tmp" / "launcher-0.tar").write_bytes(b"half")
    Buildah(cache).prepare()
    assert list((cache / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            "STEP 1\nwriting blob: write /x: no space left on device\nexit status 125",
            "the disk is full; free some gigabytes and run it again.",
        ),
        (
            "E: Unable to locate package nothing\nsubprocess exited\nError: building at STEP",
            "E: Unable to locate package nothing",
        ),
        (
            "user: fine\nucx: BROKEN: UCX is 1.22.0\nError: building at STEP",
            "ucx: BROKEN: UCX is 1.22.0",
        ),
        ("Error: something else\n", "something else"),
    ],
)
def test_a_failure_is_told_by_the_line_that_says_why(
    said: str, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "said").write_text(said, encoding="utf-8")
    command = ["sh", "-c", f"cat {tmp_path / 'said'}; exit 1"]
    with pytest.raises(BuildError) as error:
        buildah.run(command, log=tmp_path / "log")
    assert str(error.value).startswith(sentence)
    assert "\n" not in str(error.value)


def test_the_log_keeps_everything_that_was_said(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert buildah.run(["sh", "-c", "echo one; echo two >&2"], log=log) == "one\ntwo\n"
    assert buildah.run(["echo", "three"], log=log) == "three\n"
    assert log.read_text(encoding="utf-8") == "one\ntwo\nthree\n"


def test_what_is_parsed_holds_no_warnings() -> None:
    assert buildah.run(["sh", "-c", "echo one; echo two >&2"], log=None) == "one\n"


def test_a_build_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    # Namespaces need root; that the first half of the chain works needs none.
    [*guard, _, _, _, _, _, _] = buildah.ISOLATED
    marker = tmp_path / "pid"
    program = (
        "import subprocess, sys; subprocess.run([*sys.argv[1:], 'sh', '-c', "
        f"'echo $$ > {marker}; exec sleep 60'])"
    )
    parent = subprocess.Popen([sys.executable, "-c", program, *guard])
    while not marker.exists() or not marker.read_text(encoding="ascii"):
        time.sleep(0.01)
    child = int(marker.read_text(encoding="ascii"))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    for _ in range(500):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        if "Z" in Path(f"/proc/{child}/stat").read_text(encoding="ascii").split():
            return
        time.sleep(0.01)
    pytest.fail("the child outlived its parent")
