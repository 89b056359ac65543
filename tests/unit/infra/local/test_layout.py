"""Names and addresses of a local environment."""

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from infra.config import StackConfig
from infra.local.layout import Layout


def layout_of(**sizes: int) -> Layout:
    pools = {
        "system": {"instance_type": "m6i.large", "size": sizes.get("system", 1)},
        "nvidia": {"instance_type": "g4dn.xlarge", "size": sizes.get("nvidia", 1)},
        "amd": {"instance_type": "g4ad.xlarge", "size": sizes.get("amd", 1)},
    }
    stack = StackConfig.parse("local", {"environment": "local", "node_pools": pools})
    return Layout.of(stack, cache=Path("/cache"))


def test_every_node_has_its_own_name_address_namespace_interface_and_pod_range() -> None:
    nodes = layout_of(system=2, nvidia=3, amd=4).nodes
    assert len(nodes) == 9
    for field in ("name", "address", "namespace", "interface", "pods"):
        assert len({getattr(node, field) for node in nodes}) == 9, field


def test_nodes_are_called_after_their_pool_and_count_from_zero() -> None:
    assert [n.name for n in layout_of(nvidia=2).nodes] == [
        "system-0",
        "nvidia-0",
        "nvidia-1",
        "amd-0",
    ]


def test_a_pool_of_size_zero_has_no_node() -> None:
    assert [n.name for n in layout_of(amd=0).nodes] == ["system-0", "nvidia-0"]


def test_addresses_leave_room_for_the_machine_and_the_control_plane() -> None:
    layout = layout_of()
    used = {
        layout.machine_address,
        layout.control_plane_address,
        *(n.address for n in layout.nodes),
    }
    assert len(used) == 2 + len(layout.nodes)
    assert used <= set(IPv4Network("10.200.0.0/24").hosts())
    assert layout.nodes[0].address == IPv4Address("10.200.0.10")


def test_pod_ranges_lie_in_the_configured_range() -> None:
    layout = layout_of(nvidia=4)
    for node in layout.nodes:
        assert node.pods.subnet_of(layout.config.pod_cidr)


def test_interface_names_fit_the_kernels_limit_at_the_longest_name_and_most_nodes() -> None:
    pools = {
        name: {"instance_type": kind, "size": 20, "max_size": 20}
        for name, kind in (("a", "m6i.large"), ("b", "g4dn.xlarge"), ("c", "g4ad.xlarge"))
    }
    stack = StackConfig.parse(
        "local",
        {"environment": "local", "node_pools": pools, "local": {"name": "elevenchars"}},
    )
    layout = Layout.of(stack, cache=Path("/cache"))
    assert len(layout.nodes) == 60
    assert max(len(node.interface) for node in layout.nodes) <= 15  # IFNAMSIZ - 1
