"""Every file of infra/ has the test file of its name."""

from pathlib import Path

import pytest

from tests.builders import CHECKOUT

FILES = [
    file.relative_to(CHECKOUT)
    for file in sorted((CHECKOUT / "infra").rglob("*.py"))
    if not file.name.startswith("__")
]


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_file_has_a_partner_that_tests_it(file: Path) -> None:
    partner = Path("tests/unit", file.parent, f"test_{file.name}")
    assert (CHECKOUT / partner).is_file(), f"{file} has no {partner}"


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_file_says_what_it_is_in_at_most_five_lines(file: Path) -> None:
    text = (CHECKOUT / file).read_text(encoding="utf-8")
    assert text.startswith('"""')
    assert text[3:].partition('"""')[0].count("\n") <= 6
