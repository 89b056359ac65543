import re

import pytest

from infra import versions

NUMBERS = {
    key: value
    for key, value in vars(versions).items()
    if key.isupper() and re.match(r"\d", str(value)) and not key.endswith("_SHA256")
}


# Each names a line of versions, not one of them.
SERIES = {"KUBERNETES_MINOR", "GO", "UBUNTU_LTS_KERNEL_SERIES"}


@pytest.mark.parametrize("name", sorted(NUMBERS.keys() - SERIES))
def test_a_version_is_exact(name: str) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.\d+)?(\.post\d+)?", NUMBERS[name])


def test_kubernetes_minor_is_that_of_its_version() -> None:
    assert versions.KUBERNETES.rpartition(".")[0] == versions.KUBERNETES_MINOR


@pytest.mark.parametrize("name", [key for key in vars(versions) if key.endswith("_REPOSITORY")])
def test_a_repository_is_reached_over_https(name: str) -> None:
    assert getattr(versions, name).startswith("https://")
