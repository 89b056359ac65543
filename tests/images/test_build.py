"""The build command on a real storage: it survives its own death and a damaged storage."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from images.build import default_cache
from tests.builders import CHECKOUT
from tests.images.conftest import build_images

pytestmark = pytest.mark.local


@pytest.fixture
def cache(built: object, tmp_path: Path) -> Path:
    """A cache of its own that has the base, and nothing else."""
    assert built is not None
    for archive in default_cache().glob("base-*.tar"):
        shutil.copy(archive, tmp_path)
    return tmp_path


def processes_of(cache: Path) -> list[str]:
    """Command lines that name the cache, but this test's own."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(cache) in words and process.name != str(os.getpid()):
            found.append(words)
    return found


def test_a_killed_build_leaves_nothing_and_the_next_one_is_whole(cache: Path) -> None:
    command = [sys.executable, "-m", "images.build", "--cache", str(cache), "pause"]
    process = subprocess.Popen(command, cwd=CHECKOUT, stderr=subprocess.DEVNULL)
    log = cache / "logs"
    # In the middle of the Dockerfile's installing step.
    while not any("RUN" in file.read_text(encoding="utf-8") for file in log.glob("pause-*")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 5
    while processes_of(cache) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_of(cache) == []
    assert str(cache) not in Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    assert list(cache.glob("pause-*.tar")) == []
    [image] = build_images("--cache", str(cache), "pause").values()
    assert Path(image["archive"]).is_file()
    assert str(cache) not in Path("/proc/self/mountinfo").read_text(encoding="utf-8")


def test_a_damaged_storage_is_made_anew(cache: Path) -> None:
    [image] = build_images("--cache", str(cache), "pause").values()
    Path(image["archive"]).unlink()
    for file in cache.glob("storage/*-layers/layers.json"):
        file.write_bytes(b"")
    [again] = build_images("--cache", str(cache), "pause").values()
    assert again == image
    assert Path(again["archive"]).is_file()


def test_a_failed_step_is_one_sentence_and_does_not_cost_the_layers(
    cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    scripts = tmp_path_factory.mktemp("scripts")
    shutil.copytree(CHECKOUT / "images/scripts", scripts, dirs_exist_ok=True)
    (scripts / "apt-install").write_text("#!/bin/sh\necho 'E: no such package' >&2; exit 100\n")
    given = ["--cache", str(cache), "--context", f"scripts={scripts}"]
    done = subprocess.run(
        [sys.executable, "-m", "images.build", *given, "pause"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last.startswith("images: pause: E: no such package (building at STEP); see ")
    assert "damaged" not in done.stderr
