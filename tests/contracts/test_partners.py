"""Every file of infra/ has the test file of its name, or says here where it is tested."""

from pathlib import Path

import pytest

from tests.builders import CHECKOUT

FILES = [
    file.relative_to(CHECKOUT)
    for file in sorted((CHECKOUT / "infra").rglob("*.py"))
    if not file.name.startswith("__")
]

# These change the machine and nothing else; only a whole environment shows whether they are right.
ON_THE_MACHINE = {
    Path("infra/local", f"{name}.py"): Path("tests/local/test_lifecycle.py")
    for name in (
        "cgroups",
        "control_plane",
        "environment",
        "image_store",
        "network",
    )
}


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_file_has_a_partner_that_tests_it(file: Path) -> None:
    own = Path("tests/unit", file.parent, f"test_{file.name}")
    partner = ON_THE_MACHINE.get(file, own)
    assert (CHECKOUT / partner).is_file(), f"{file} has no {partner}"


def test_no_file_is_excused_that_is_gone_or_has_a_partner() -> None:
    for file in ON_THE_MACHINE:
        assert (CHECKOUT / file).is_file()
        assert not (CHECKOUT / "tests/unit" / file.parent / f"test_{file.name}").exists()


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_file_says_what_it_is_in_at_most_five_lines(file: Path) -> None:
    text = (CHECKOUT / file).read_text(encoding="utf-8")
    assert text.startswith('"""')
    assert text[3:].partition('"""')[0].count("\n") <= 6
