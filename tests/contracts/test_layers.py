"""Imports go one way: training <- workloads, policies <- infra <- __main__ (DESIGN, Layout)."""

import ast
from pathlib import Path

import pytest

from tests.builders import CHECKOUT

PACKAGES = ("infra", "images", "workloads", "policies", "tests")
TABLES = ("infra.accelerators", "infra.names", "infra.versions")

# Folder or file -> what of ours it may import. The longest entry that fits a file counts.
ALLOWED = {
    "workloads/training": ("workloads.training",),
    "workloads": ("workloads", "images.catalog", *TABLES),
    "policies": ("policies", "images.catalog", *TABLES),
    "images": ("images", *TABLES),
    "infra": ("infra", "images.catalog"),
    "__main__.py": ("infra",),
}
# Facts below everything: only each other, so that a job or an image can import them cheaply.
TABLE_FILES = ("accelerators", "charts", "instances", "names", "versions")


def files() -> list[Path]:
    found = [CHECKOUT / "__main__.py"]
    for package in PACKAGES[:-1]:
        found += sorted((CHECKOUT / package).rglob("*.py"))
    return [file.relative_to(CHECKOUT) for file in found]


def imports(file: Path) -> set[str]:
    """Modules of ours that a file imports, wherever in it."""
    tree = ast.parse((CHECKOUT / file).read_text(encoding="utf-8"))
    package = file.with_suffix("").parts[:-1]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.partition(".")[0] in PACKAGES}


def allowed(file: Path) -> tuple[str, ...]:
    [*_, longest] = sorted((key for key in ALLOWED if file.is_relative_to(key)), key=len)
    return ALLOWED[longest]


@pytest.mark.parametrize("file", files(), ids=str)
def test_a_file_imports_only_what_is_below_it(file: Path) -> None:
    wrong = {
        name
        for name in imports(file)
        if not any(name == below or name.startswith(f"{below}.") for below in allowed(file))
    }
    assert not wrong, f"{file} imports {sorted(wrong)}; it may import {allowed(file)}"


@pytest.mark.parametrize("name", TABLE_FILES)
def test_the_tables_import_nothing_but_tables(name: str) -> None:
    below = tuple(f"infra.{table}" for table in TABLE_FILES)
    found = imports(Path("infra", f"{name}.py"))
    assert not [module for module in found if not module.startswith((*below, "infra.versions"))]


def test_the_reader_of_imports_sees_relative_and_inner_ones(tmp_path: Path) -> None:
    assert "infra.config.StackConfig" in imports(Path("__main__.py"))
    assert "infra.names.PROJECT" in imports(Path("infra/config.py"))
