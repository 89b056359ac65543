import pytest

from infra import versions
from infra.environments import ENVIRONMENTS, Environment


@pytest.mark.parametrize("environment", Environment)
def test_every_environment_has_a_row(environment: Environment) -> None:
    assert environment in ENVIRONMENTS


def test_the_local_chart_is_in_the_checkout_and_needs_no_network() -> None:
    chart = ENVIRONMENTS[Environment.LOCAL].volcano
    assert chart.repository is None
    assert chart.name.startswith("./build/")
    assert chart.version == versions.VOLCANO_LOCAL


@pytest.mark.parametrize("environment", [Environment.AWS, Environment.EXISTING])
def test_other_clusters_get_the_current_volcano_from_its_repository(
    environment: Environment,
) -> None:
    chart = ENVIRONMENTS[environment].volcano
    assert chart.repository == versions.VOLCANO_CHART_REPOSITORY
    assert chart.version == versions.VOLCANO


def test_only_nodes_with_devices_get_device_plugins() -> None:
    has_devices = {name: facts.has_devices for name, facts in ENVIRONMENTS.items()}
    assert has_devices == {
        Environment.LOCAL: False,
        Environment.AWS: True,
        Environment.EXISTING: True,
    }
