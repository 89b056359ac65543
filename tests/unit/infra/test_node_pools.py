import pytest

from infra.accelerators import ACCELERATORS, Vendor
from infra.config import NodePool
from infra.instances import INSTANCE_TYPES
from infra.names import LABEL_POOL, LABEL_VENDOR, NO_VENDOR
from infra.node_pools import node_labels, node_resources, node_taints

PLAIN = NodePool(instance_type="m6i.large")


def pool_of(vendor: Vendor) -> NodePool:
    family = ACCELERATORS[vendor].instance_family
    return NodePool(instance_type=f"{family}.xlarge")


@pytest.mark.parametrize("vendor", Vendor)
def test_a_vendors_nodes_carry_its_labels_taint_and_resource(vendor: Vendor) -> None:
    accelerator = ACCELERATORS[vendor]
    pool = pool_of(vendor)
    assert node_labels("big", pool) == {
        LABEL_POOL: "big",
        LABEL_VENDOR: vendor.value,
        **accelerator.extra_node_labels,
    }
    assert node_taints(pool) == [accelerator.taint]
    assert node_resources(pool) == {accelerator.resource: 1}


def test_a_pool_without_gpus_says_so_and_lets_every_pod_in() -> None:
    assert node_labels("system", PLAIN) == {LABEL_POOL: "system", LABEL_VENDOR: NO_VENDOR}
    assert node_taints(PLAIN) == []
    assert node_resources(PLAIN) == {}


@pytest.mark.parametrize("instance_type", sorted(INSTANCE_TYPES))
def test_a_node_advertises_exactly_its_instance_types_gpus(instance_type: str) -> None:
    row = INSTANCE_TYPES[instance_type]
    resources = node_resources(NodePool(instance_type=instance_type))
    assert sum(resources.values()) == row.num_gpus


def test_labels_of_the_vendors_differ() -> None:
    labels = [tuple(node_labels("p", pool_of(vendor)).items()) for vendor in Vendor]
    assert len(set(labels)) == len(labels)
