import pytest

from infra.accelerators import ACCELERATORS, Vendor
from infra.names import LABEL_VENDOR
from infra.platform.device_plugins import DevicePlugins, plugin_values
from tests.conftest import Deploy

RELEASE = "kubernetes:helm.sh/v3:Release"


@pytest.mark.parametrize("vendor", Vendor)
def test_a_plugin_runs_on_its_vendors_nodes_only(vendor: Vendor) -> None:
    accelerator = ACCELERATORS[vendor]
    selector = plugin_values(accelerator)[accelerator.device_plugin.node_selector]
    assert {key: value for key, value in selector.items() if value is not None} == {
        LABEL_VENDOR: vendor.value
    }


@pytest.mark.parametrize("vendor", Vendor)
def test_a_plugin_tolerates_its_vendors_taint_besides_the_charts_own(vendor: Vendor) -> None:
    assert plugin_values(ACCELERATORS[vendor])["tolerations"] == [
        {"key": "CriticalAddonsOnly", "operator": "Exists"},
        ACCELERATORS[vendor].taint.toleration,
    ]


def test_the_charts_selector_that_never_matches_a_v520_is_removed() -> None:
    values = plugin_values(ACCELERATORS[Vendor.AMD])
    assert values["node_selector_enabled"] is True
    assert values["node_selector"]["feature.node.kubernetes.io/pci-0300_1002.present"] is None


@pytest.mark.parametrize("vendor", Vendor)
def test_a_plugin_is_the_vendors_pinned_chart(deploy: Deploy, vendor: Vendor) -> None:
    made = deploy(lambda: DevicePlugins("d", [vendor], namespace="gpu"))
    [release] = made.of_type(RELEASE)
    chart = ACCELERATORS[vendor].device_plugin.chart
    assert release.inputs["chart"] == chart.name
    assert release.inputs["version"] == chart.version
    assert release.inputs["repositoryOpts"] == {"repo": chart.repository}
    assert release.inputs["values"] == plugin_values(ACCELERATORS[vendor])


def test_a_plugin_does_not_wait_for_nodes_that_may_not_exist_yet(deploy: Deploy) -> None:
    made = deploy(lambda: DevicePlugins("d", list(Vendor), namespace="gpu"))
    assert [release.inputs["skipAwait"] for release in made.of_type(RELEASE)] == [True, True]


def test_no_vendor_makes_no_release(deploy: Deploy) -> None:
    assert deploy(lambda: DevicePlugins("d", [], namespace="gpu")).of_type(RELEASE) == []
