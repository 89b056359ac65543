"""Keys follow what goes in, and nothing else."""

from pathlib import Path
from typing import cast

import pytest

from images import plan, sources
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
    planned = plan.plan(NAMES, given={"training": training}, ucc=ucc or sources.wheel())
    return dict(planned.keys)


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
    monkeypatch.setattr(plan, "BASE_REFERENCE", "docker.io/library/debian@sha256:other")
    after = keys(training)
    assert all(before[name] != after[name] for name in before)


def test_a_plan_has_the_parents_first(training: Path) -> None:
    planned = plan.plan(NAMES, given={"training": training}, ucc=sources.wheel())
    assert [image.name for image in planned.images] == ["openmpi", *NAMES]
    assert set(planned.keys) == {BASE, "openmpi", *NAMES}


def test_a_missing_context_names_the_image() -> None:
    with pytest.raises(BuildError, match=r"^volcano-scheduler: .* pass --context toolchain="):
        plan.plan(["volcano-scheduler"], given={}, ucc=sources.wheel())


def test_the_versions_that_images_are_checked_against_come_from_the_table() -> None:
    values = {value for image in IMAGES.values() for value in image.arguments.values()}
    assert {versions.DEBIAN_OPENMPI, versions.DEBIAN_TORCH, versions.DEBIAN_UCX} <= values
    for file in CHECKOUT.glob("images/**/Dockerfile"):
        text = file.read_text(encoding="utf-8")
        assert not {versions.DEBIAN_OPENMPI, versions.DEBIAN_TORCH} & set(text.split("="))
