"""Marks this folder's tests when pytest runs them; unittest does not read this."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/distributed" in item.path.as_posix():
            item.add_marker(pytest.mark.distributed)
