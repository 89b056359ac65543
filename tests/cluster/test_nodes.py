"""What nodes advertise and carry: the vendor table's words, and nobody else's."""

from typing import Any

import pytest

from infra.accelerators import ACCELERATORS, Vendor
from infra.names import LABEL_VENDOR


def of_vendor(nodes: dict[str, dict[str, Any]], vendor: Vendor) -> list[dict[str, Any]]:
    return [n for n in nodes.values() if n["metadata"]["labels"].get(LABEL_VENDOR) == vendor]


@pytest.mark.cluster
@pytest.mark.parametrize("vendor", Vendor)
def test_a_vendors_nodes_advertise_its_resource_and_no_others(
    nodes: dict[str, dict[str, Any]], vendor: Vendor
) -> None:
    own = of_vendor(nodes, vendor)
    assert own, f"the cluster has no {vendor} node"
    for node in own:
        advertised = {
            accelerator.resource
            for accelerator in ACCELERATORS.values()
            if int(node["status"]["allocatable"].get(accelerator.resource, 0)) > 0
        }
        assert advertised == {ACCELERATORS[vendor].resource}


@pytest.mark.cluster
@pytest.mark.parametrize("vendor", Vendor)
def test_a_vendors_nodes_carry_its_labels_and_taint(
    nodes: dict[str, dict[str, Any]], vendor: Vendor
) -> None:
    accelerator = ACCELERATORS[vendor]
    for node in of_vendor(nodes, vendor):
        assert accelerator.node_labels.items() <= node["metadata"]["labels"].items()
        taints = [
            {"key": t["key"], "value": t.get("value", ""), "effect": t["effect"]}
            for t in node["spec"].get("taints", [])
        ]
        assert accelerator.taint.for_kubernetes() in taints


@pytest.mark.cluster
def test_nodes_without_gpu_are_free_for_everybody(nodes: dict[str, dict[str, Any]]) -> None:
    vendors = {vendor.value for vendor in Vendor}
    others = [n for n in nodes.values() if n["metadata"]["labels"].get(LABEL_VENDOR) not in vendors]
    assert others
    for node in others:
        resources = node["status"]["allocatable"].keys()
        assert not resources & {accelerator.resource for accelerator in ACCELERATORS.values()}
        assert not [t for t in node["spec"].get("taints", []) if t["effect"] == "NoExecute"]
