"""A vendor's names are written in infra/accelerators.py and nowhere else."""

import subprocess

import pytest

from infra.accelerators import ACCELERATORS, Vendor
from tests.builders import CHECKOUT

TABLE = "infra/accelerators.py"
# What is made from the table and committed, and what explains it.
MADE_OR_EXPLAINED = (":!workloads/manifests", ":!tests/golden", ":!docs", ":!*.md")


def files_with(text: str) -> list[str]:
    command = ["git", "grep", "--untracked", "-l", "--fixed-strings", text, "--", "."]
    done = subprocess.run(
        [*command, *MADE_OR_EXPLAINED], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("vendor", Vendor)
def test_a_vendors_resource_is_written_once(vendor: Vendor) -> None:
    assert files_with(ACCELERATORS[vendor].resource) == [TABLE]


@pytest.mark.parametrize("vendor", Vendor)
def test_no_code_decides_by_vendor(vendor: Vendor) -> None:
    for comparison in ("is", "==", "is not", "!="):
        assert files_with(f"{comparison} Vendor.{vendor.name}") == []
