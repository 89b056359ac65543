"""Keys follow what goes in, steps follow their parents, and refusals are one sentence."""

import argparse
import io
import json
import os
import shutil
import threading
from pathlib import Path
from typing import cast

import pytest
from rich.console import Console

from images import build, sources
from images.catalog import BASE, IMAGES
from images.sources import BuildError
from infra import versions
from tests.builders import CHECKOUT

NAMES = ("launcher", "worker-cpu")


@pytest.fixture
def training(tmp_path: Path) -> Path:
    folder = tmp_path / "training"
    folder.mkdir()
    (folder / "launcher.py").write_text("print(1)\n", encoding="utf-8")
    return folder


def keys(training: Path, ucc: sources.Ucc | None = None) -> dict[str, str]:
    planned = build.plan(NAMES, given={"training": training}, ucc=ucc or sources.wheel())
    return dict(planned.keys)


def arguments(*argv: str) -> argparse.Namespace:
    return build.parse(list(argv))


def quiet() -> Console:
    return Console(file=io.StringIO())


def test_the_same_inputs_have_the_same_keys(training: Path) -> None:
    assert keys(training) == keys(training)


def test_a_change_of_the_package_changes_its_images_and_not_their_parents(training: Path) -> None:
    before = keys(training)
    (training / "launcher.py").write_text("print(2)\n", encoding="utf-8")
    after = keys(training)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == set(NAMES)


def test_another_ucc_changes_the_worker_alone(training: Path) -> None:
    other = sources.Ucc(origin="source x", identity="x", version="", source=None)
    before, after = keys(training), keys(training, other)
    assert {name for name in before if before[name] != after[name]} == {"worker-cpu"}


def test_another_version_in_the_table_changes_the_image(
    training: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = keys(training)
    worker = IMAGES["worker-cpu"]
    monkeypatch.setitem(cast("dict[str, str]", worker.arguments), "TORCH", "9.9")
    after = keys(training)
    assert {name for name in before if before[name] != after[name]} == {"worker-cpu"}


def test_another_base_changes_all(training: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = keys(training)
    monkeypatch.setattr(build, "BASE_REFERENCE", "docker.io/library/debian@sha256:other")
    after = keys(training)
    assert all(before[name] != after[name] for name in before)


def test_a_plan_has_the_parents_first(training: Path) -> None:
    planned = build.plan(NAMES, given={"training": training}, ucc=sources.wheel())
    assert [image.name for image in planned.images] == ["openmpi", *NAMES]
    assert set(planned.keys) == {BASE, "openmpi", *NAMES}


def test_a_missing_context_names_the_image() -> None:
    with pytest.raises(BuildError, match=r"^volcano-scheduler: .* pass --context toolchain="):
        build.plan(["volcano-scheduler"], given={}, ucc=sources.wheel())


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
    build.run_in_order(graph, steps, build.Report(quiet()))
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
        build.run_in_order(
            {"child": {"parent"}}, {"parent": fail, "child": never}, build.Report(quiet())
        )


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


def test_the_versions_that_images_are_checked_against_come_from_the_table() -> None:
    values = {value for image in IMAGES.values() for value in image.arguments.values()}
    assert {versions.DEBIAN_OPENMPI, versions.DEBIAN_TORCH, versions.DEBIAN_UCX} <= values
    for file in CHECKOUT.glob("images/**/Dockerfile"):
        text = file.read_text(encoding="utf-8")
        assert not {versions.DEBIAN_OPENMPI, versions.DEBIAN_TORCH} & set(text.split("="))
