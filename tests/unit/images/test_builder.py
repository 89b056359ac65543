"""What is kept when a build is done, and what a full disk or an old storage means."""

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from images import builder, sources
from images.buildah import Buildah
from images.builder import Builder
from images.plan import plan
from images.progress import Report


@pytest.fixture
def a_builder(tmp_path: Path) -> Builder:
    planned = plan(["pause"], given={}, ucc=sources.wheel())
    return Builder(cache=tmp_path, plan=planned, report=Report(Console(file=io.StringIO())))


def archives(builder: Builder, *, keys: list[str], name: str = "pause") -> None:
    """Archives with these keys, oldest first."""
    for age, key in enumerate(keys):
        file = builder.cache / f"{name}-{key}.tar"
        file.touch()
        os.utime(file, (age, age))


def test_the_newest_two_archives_are_kept(
    a_builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Buildah, "created", lambda _: {})
    archives(a_builder, keys=["1", "2", "3"])
    archives(a_builder, keys=["1"], name="pause-other")
    a_builder.forget_old()
    assert sorted(file.name for file in a_builder.cache.glob("*.tar")) == [
        "pause-2.tar",
        "pause-3.tar",
        "pause-other-1.tar",
    ]


def test_an_archive_that_is_asked_for_is_kept_however_old(
    a_builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Buildah, "created", lambda _: {})
    own = a_builder.plan.keys["pause"]
    archives(a_builder, keys=[own, "2", "3"])
    a_builder.forget_old()
    assert a_builder.archive("pause").exists()


def test_the_newest_two_images_in_the_storage_are_kept(
    a_builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[str] = []
    created = {f"localhost/crossvendor/launcher:{key}": f"2026-01-0{key}" for key in "1234"}
    monkeypatch.setattr(Buildah, "created", lambda _: created)
    monkeypatch.setattr(Buildah, "remove", lambda _, tags: removed.extend(tags))
    a_builder.forget_old()
    assert removed == ["localhost/crossvendor/launcher:2", "localhost/crossvendor/launcher:1"]


def test_a_storage_that_has_grown_too_large_is_dropped(
    a_builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builder, "_NUM_LAYERS_KEPT", 1)
    for name in ("a", "b"):
        (a_builder.cache / "storage" / "overlay-images" / name).mkdir(parents=True)
    a_builder.shrink_storage()
    assert not (a_builder.cache / "storage").exists()


def test_what_has_an_archive_is_not_missing(a_builder: Builder) -> None:
    assert [image.name for image in a_builder.missing()] == ["pause"]
    a_builder.archive("pause").touch()
    assert a_builder.missing() == []
