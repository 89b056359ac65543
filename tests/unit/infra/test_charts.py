import dataclasses

import pytest

from infra.charts import Chart


def test_a_chart_is_in_a_folder_unless_it_has_a_repository() -> None:
    assert Chart(name="./chart", version="1.0.0").repository is None


def test_a_chart_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Chart(name="x", version="1.0.0").version = "2.0.0"  # type: ignore[misc]
