"""Keys follow what goes in, steps follow their parents, and refusals are one sentence."""

import argparse
import io
import json
import os
import shutil
import threading
from pathlib import Path

import pytest
from rich.console import Console

from images import build, sources
from images.catalog import IMAGES
from images.plan import plan
from images.sources import BuildError

NAMES = ("launcher", "worker-cpu")


@pytest.fixture
def training(tmp_path: Path) -> Path:
    folder = tmp_path / "training"
    folder.mkdir()
    (folder / "launcher.py").write_text("print(1)\n", encoding="utf-8")
    return folder


def keys(training: Path, ucc: sources.Ucc | None = None) -> dict[str, str]:
    planned = plan(NAMES, given={"training": training}, ucc=ucc or sources.wheel())
    return dict(planned.keys)


def arguments(*argv: str) -> argparse.Namespace:
    return build.parse(list(argv))


def quiet() -> Console:
    return Console(file=io.StringIO())


def test_an_unknown_image_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BuildError, match=r"there is no image 'nothing'; .*launcher, worker-cpu"):
        build.build(arguments("nothing"), quiet())


def test_a_context_without_a_path_is_refused() -> None:
    with pytest.raises(BuildError, match="--context 'toolchain' is not NAME=PATH"):
        build.build(arguments("--context", "toolchain", "pause"), quiet())


def test_only_root_builds(tmp_path: Path, training: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    given = ["--cache", str(tmp_path / "cache"), "--context", f"training={training}"]
    with pytest.raises(BuildError, match=r"needs root; run it with sudo"):
        build.build(arguments(*given, "launcher"), quiet())


def test_what_is_built_is_not_built_again_and_needs_nothing(
    tmp_path: Path, training: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", "")
    key = keys(training)["launcher"]
    archive = tmp_path / f"launcher-{key}.tar"
    archive.touch()
    given = ["--cache", str(tmp_path), "--context", f"training={training}"]
    assert build.build(arguments(*given, "launcher"), quiet()) == {
        "launcher": {
            "reference": "localhost/crossvendor/launcher:0.1.0",
            "archive": str(archive),
            "key": key,
        }
    }


def test_a_full_disk_is_told_before_anything_is_built(
    tmp_path: Path, training: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: argparse.Namespace(free=1 << 30))
    given = ["--cache", str(tmp_path), "--context", f"training={training}"]
    with pytest.raises(BuildError, match=r"has 1\.0 GiB free; building needs 5 GiB"):
        build.build(arguments(*given, "launcher"), quiet())


def test_the_last_line_of_the_command_is_json(
    tmp_path: Path, training: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / f"launcher-{keys(training)['launcher']}.tar").touch()
    given = ["--cache", str(tmp_path), "--context", f"training={training}"]
    assert build.main([*given, "launcher"]) == 0
    assert list(json.loads(capsys.readouterr().out.splitlines()[-1])) == ["launcher"]


def test_a_refusal_is_one_sentence_and_exit_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main(["nothing"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("images: there is no image 'nothing'; ")


def test_the_list_names_every_image(capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main(["--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == list(IMAGES)


def test_a_second_build_waits_for_the_first(tmp_path: Path) -> None:
    said = io.StringIO()
    order: list[str] = []

    def second() -> None:
        with build.lock(tmp_path, Console(file=said)):
            order.append("second")

    thread = threading.Thread(target=second)
    with build.lock(tmp_path, quiet()):
        thread.start()
        while "waiting for another build" not in said.getvalue():
            pass
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_the_cache_is_the_makefiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSVENDOR_CACHE", "/somewhere")
    assert build.default_cache() == Path("/somewhere/images")
    monkeypatch.delenv("CROSSVENDOR_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert build.default_cache() == Path("/caches/crossvendor/images")
