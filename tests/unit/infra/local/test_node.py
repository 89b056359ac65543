"""A node's configuration, as its daemons read it."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from infra.accelerators import ACCELERATORS, Vendor
from infra.config import StackConfig
from infra.local import machine, node
from infra.local.control_plane import Authority
from infra.local.layout import Layout, Node

AUTHORITY = Authority(folder=Path("/pki"))


def layout_with(**pool: object) -> Layout:
    pools = {
        "system": {"instance_type": "m6i.large"},
        "nvidia": {"instance_type": "g4dn.xlarge", **pool},
    }
    stack = StackConfig.parse("local", {"environment": "local", "node_pools": pools})
    return Layout.of(stack, cache=Path("/cache"))


def kubelet(layout: Layout, each: Node) -> dict[str, Any]:
    return node._kubelet_config(layout, each, AUTHORITY, Path("/key"), Path("/certificate"))


def test_nodes_share_no_folder_socket_or_control_group() -> None:
    layout = layout_with(size=2)
    for key in ("cgroupRoot", "podLogsDir", "containerRuntimeEndpoint", "volumePluginDir"):
        values = {kubelet(layout, each)[key] for each in layout.nodes}
        assert len(values) == len(layout.nodes), key


def test_gpu_nodes_register_with_their_vendors_taint_and_others_with_none() -> None:
    system, nvidia = layout_with().nodes
    taint = ACCELERATORS[Vendor.NVIDIA].taint.for_kubernetes()
    assert kubelet(layout_with(), nvidia)["registerWithTaints"] == [taint]
    assert kubelet(layout_with(), system)["registerWithTaints"] == []


@pytest.mark.parametrize(("limit", "has_quota"), [({}, True), ({"cpu_limit": 0.5}, False)])
def test_pods_of_a_limited_node_have_no_limit_beyond_the_nodes(
    limit: dict[str, float], has_quota: bool
) -> None:
    layout = layout_with(**limit)
    assert kubelet(layout, layout.nodes[1])["cpuCFSQuota"] is has_quota


def test_the_runtimes_configuration_is_whole_and_the_nodes_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bridge").touch()
    monkeypatch.setattr(machine, "CNI_FOLDERS", (str(tmp_path),))
    layout = layout_with()
    texts = [tomllib.loads(node._containerd_config(layout, each)) for each in layout.nodes]
    assert len({text["root"] for text in texts}) == len({text["state"] for text in texts}) == 2
    runtime = texts[0]["plugins"]["io.containerd.grpc.v1.cri"]
    assert runtime["cni"]["bin_dir"] == str(tmp_path)
    assert runtime["sandbox_image"] == node.PAUSE_IMAGE


def test_pods_get_addresses_of_their_nodes_range_only() -> None:
    layout = layout_with(size=2)
    for each in layout.nodes:
        [plugin] = node._cni_config(layout, each)["plugins"]
        assert plugin["ipam"]["ranges"] == [[{"subnet": str(each.pods)}]]
        json.dumps(plugin)


def test_a_layer_of_the_store_is_linked_and_its_databases_are_copied(tmp_path: Path) -> None:
    store, root = tmp_path / "store", tmp_path / "root"
    root.mkdir()
    layer = store / "snapshotter" / "snapshots" / "1"
    (layer / "fs").mkdir(parents=True)
    (layer / "fs" / "own.db").write_text("of the image")
    (store / "snapshotter" / "metadata.db").write_text("of the snapshotter")
    (store / "content").mkdir()
    (store / "content" / "blob").write_text("compressed")
    node._adopt_images(store, root)
    assert (root / "snapshotter" / "snapshots" / "1").readlink() == layer
    (root / "snapshotter" / "metadata.db").write_text("changed by the node")
    assert (store / "snapshotter" / "metadata.db").read_text() == "of the snapshotter"
    assert (root / "content" / "blob").samefile(store / "content" / "blob")
