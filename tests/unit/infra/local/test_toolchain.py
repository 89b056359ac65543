"""Which tools are built, from what, and when they are built again."""

import dataclasses
import re
import shutil
from pathlib import Path

import pytest

from infra import versions
from infra.local import toolchain
from infra.local.toolchain import TOOL_SETS


@pytest.mark.parametrize("tool_set", TOOL_SETS, ids=lambda tool_set: tool_set.name)
def test_every_binary_is_a_tool_of_its_module_and_named_by_its_package(
    tool_set: toolchain.ToolSet,
) -> None:
    modules = (tool_set.folder / "go.mod").read_text(encoding="utf-8")
    for binary, package in tool_set.binaries.items():
        if package.startswith("./"):
            assert (tool_set.folder / package / "main.go").exists()
        else:
            assert re.search(rf"^\s+{re.escape(package)}$", modules, re.MULTILINE)
        last = re.sub(r"/v\d+$", "", package).rpartition("/")[2]
        assert binary == last


@pytest.mark.parametrize(
    ("folder", "module", "version"),
    [
        ("cluster", "k8s.io/kubernetes", versions.KUBERNETES),
        ("cluster", "go.etcd.io/etcd/server/v3", versions.ETCD),
        ("cluster", "github.com/coredns/coredns", versions.COREDNS),
        ("cluster", "helm.sh/helm/v3", versions.HELM),
        ("cluster", "sigs.k8s.io/kwok", versions.KWOK),
        ("volcano", "volcano.sh/volcano", versions.VOLCANO_LOCAL),
    ],
)
def test_the_modules_are_those_of_the_version_table(folder: str, module: str, version: str) -> None:
    modules = (toolchain.SOURCES / folder / "go.mod").read_text(encoding="utf-8")
    assert re.search(rf"\s{re.escape(module)} v{re.escape(version)}\b", modules)


def test_a_changed_flag_is_another_build() -> None:
    [first, *_] = TOOL_SETS
    changed = dataclasses.replace(first, linker_flags="-X a=b")
    assert changed.key != first.key


def test_a_changed_source_is_another_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [first, *_] = TOOL_SETS
    before = first.key
    shutil.copytree(toolchain.SOURCES, tmp_path / "copy")
    monkeypatch.setattr(toolchain, "SOURCES", tmp_path / "copy")
    assert first.key == before
    with (tmp_path / "copy" / first.name / "go.sum").open("a", encoding="utf-8") as file:
        file.write("x v1 h1:\n")
    assert first.key != before


def test_a_folder_that_was_not_finished_does_not_exist(tmp_path: Path) -> None:
    def fail() -> None:
        with toolchain._finished_at_once(tmp_path / "f") as folder:
            (folder / "half").touch()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(tmp_path.iterdir()) == []
    with toolchain._finished_at_once(tmp_path / "f") as folder:
        (folder / "whole").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
