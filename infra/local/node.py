"""One node: containerd, kubelet and kube-proxy in its network namespace, with its own folders."""

import json
from pathlib import Path
from typing import Any, Final

import grpc
import yaml

from infra.local import cgroups, control_plane, machine, processes
from infra.local.control_plane import Authority
from infra.local.layout import Layout, Node
from infra.local.machine import run
from infra.local.network import MTU
from infra.local.toolchain import Toolchain
from infra.node_pools import node_labels, node_taints

PAUSE_IMAGE: Final = "localhost/crossvendor/pause:0.1.0"
_CONTAINERD_NAMESPACE: Final = "k8s.io"
_DAEMONS: Final = ("containerd", "kubelet", "kube-proxy")


def folder(layout: Layout, node: Node) -> Path:
    """Everything that the node writes but its logs and sockets."""
    return layout.state / "nodes" / node.name


def containerd_socket(layout: Layout, node: Node) -> Path:
    """Where the node's containerd listens."""
    return layout.run / node.name / "containerd.sock"


def kubelet_root(layout: Layout, node: Node) -> Path:
    """The kubelet's folder by a short name."""
    return layout.run / node.name / "kubelet"


def prepare(layout: Layout, node: Node, authority: Authority, image_store: Path) -> None:
    """Write the node's configuration and give it the images of the shared store."""
    here = folder(layout, node)
    for name in ("cni", "containerd", "kubelet", "pod-logs", "pki", "volume-plugins"):
        (here / name).mkdir(parents=True)
    containerd_socket(layout, node).parent.mkdir(parents=True)
    _adopt_images(image_store, here / "containerd")
    # The kubelet makes sockets below its root, and a socket's path has at most 107 characters.
    kubelet_root(layout, node).mkdir()
    run(["mount", "--bind", here / "kubelet", kubelet_root(layout, node)])
    run(["mount", "--make-private", kubelet_root(layout, node)])
    (here / "base-spec.json").write_text(json.dumps(_base_spec()), encoding="utf-8")
    (here / "containerd.toml").write_text(_containerd_config(layout, node), encoding="utf-8")
    (here / "cni" / "10-bridge.conflist").write_text(
        json.dumps(_cni_config(layout, node)), encoding="utf-8"
    )
    # Search domains of the machine do not belong into pods.
    (here / "resolv.conf").write_text(
        f"nameserver {layout.control_plane_address}\n", encoding="utf-8"
    )
    key, certificate = authority.issue(
        here / "pki",
        "kubelet",
        user=f"system:node:{node.name}",
        group="system:nodes",
        address=str(node.address),
    )
    (here / "kubelet.kubeconfig").write_text(
        control_plane.client_kubeconfig(layout, key, certificate), encoding="utf-8"
    )
    configuration = _kubelet_config(layout, node, authority, key, certificate)
    (here / "kubelet.yaml").write_text(yaml.safe_dump(configuration), encoding="utf-8")
    key, certificate = authority.issue(here / "pki", "kube-proxy", user="system:kube-proxy")
    (here / "kube-proxy.kubeconfig").write_text(
        control_plane.client_kubeconfig(layout, key, certificate), encoding="utf-8"
    )
    (here / "kube-proxy.yaml").write_text(
        yaml.safe_dump(_kube_proxy_config(layout, node)), encoding="utf-8"
    )
    cgroups.create(layout.cgroup, node.name, cpu_limit=node.pool.cpu_limit)


def start(layout: Layout, node: Node, toolchain: Toolchain) -> None:
    """Start the node's daemons; the kubelet registers the node."""
    here = folder(layout, node)
    labels = {
        **node_labels(node.pool_name, node.pool),
        "node.kubernetes.io/instance-type": node.pool.instance_type,
    }
    start_containerd(layout, node)
    _start(layout, node, "kubelet", [
        toolchain["kubelet"], "--config", here / "kubelet.yaml",
        "--kubeconfig", here / "kubelet.kubeconfig", "--root-dir", kubelet_root(layout, node),
        "--hostname-override", node.name, "--node-ip", str(node.address),
        f"--node-labels={','.join(f'{key}={value}' for key, value in labels.items())}",
    ])  # fmt: skip
    _start(layout, node, "kube-proxy", [
        toolchain["kube-proxy"], "--config", here / "kube-proxy.yaml",
    ])  # fmt: skip


def start_containerd(layout: Layout, node: Node) -> None:
    """Start the node's containerd and wait until it answers."""
    socket = containerd_socket(layout, node)
    _start(layout, node, "containerd", [
        "containerd", "--config", folder(layout, node) / "containerd.toml",
    ])  # fmt: skip
    processes.wait_until(
        f"containerd of node {node.name}",
        lambda: _answers(socket),
        seconds=60,
        hint=f"see {layout.logs / node.name}-containerd.log",
        every=0.05,
    )


def _adopt_images(store: Path, root: Path) -> None:
    """Give a containerd the images of the shared store without copying them.

    An unpacked layer is only ever read: containers write to upper layers of their own, and when
    containerd drops a layer it drops the link. The databases that say what is there are copied.
    """
    for source in store.iterdir():
        target = root / source.name
        layers = source / "snapshots"
        if not layers.exists():
            run(["cp", "-al", source, target])  # compressed layers: few files
        else:
            (target / "snapshots").mkdir(parents=True)
            for layer in layers.iterdir():
                (target / "snapshots" / layer.name).symlink_to(layer)
        for database in source.glob("*.db"):
            run(["cp", "--remove-destination", database, target])


def _answers(socket: Path) -> bool:
    """Whether the container runtime is ready: a kubelet that asks it earlier gives up."""
    if not socket.exists():
        return False
    with grpc.insecure_channel(f"unix://{socket}") as channel:
        version = channel.unary_unary("/runtime.v1.RuntimeService/Version")
        try:
            version(b"", timeout=2)
        except grpc.RpcError:
            return False
    return True


def is_alive(layout: Layout, node: Node) -> bool:
    """Whether the node's daemons still run."""
    files = [folder(layout, node) / f"{daemon}.pid" for daemon in _DAEMONS]
    return all(
        file.exists() and processes.is_alive(int(file.read_text()), layout.name) for file in files
    )


def _start(layout: Layout, node: Node, daemon: str, command: list[str | Path]) -> None:
    number = processes.start(
        command,
        mark=layout.name,
        log=layout.logs / f"{node.name}-{daemon}.log",
        namespace=node.namespace,
    )
    (folder(layout, node) / f"{daemon}.pid").write_text(str(number), encoding="utf-8")


def _base_spec() -> dict[str, Any]:
    """The runtime's default container, less what only a machine with CAP_SYS_RESOURCE may set.

    Raising limits and lowering the out-of-memory score need that capability, which machines that
    are themselves containers or sandboxes often lack; nothing here needs either.
    """
    spec: dict[str, Any] = json.loads(run(["ctr", "oci", "spec"]))
    spec["process"].pop("rlimits", None)
    spec["process"].pop("oomScoreAdj", None)
    return spec


def _containerd_config(layout: Layout, node: Node) -> str:
    here, runtime = folder(layout, node), containerd_socket(layout, node).parent
    return f"""version = 2
root = "{here}/containerd"
state = "{runtime}/containerd"
[grpc]
  address = "{containerd_socket(layout, node)}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{here}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  enable_unprivileged_ports = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{machine.cni_folder()}"
    conf_dir = "{here}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      base_runtime_spec = "{here}/base-spec.json"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"""


def _cni_config(layout: Layout, node: Node) -> dict[str, Any]:
    return {
        "cniVersion": "0.4.0",
        "name": "crossvendor",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": True,
                "ipMasq": False,
                "hairpinMode": True,
                "mtu": MTU,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": str(node.pods)}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                    "dataDir": str(folder(layout, node) / "addresses"),
                },
            }
        ],
    }


def _kubelet_config(
    layout: Layout, node: Node, authority: Authority, key: Path, certificate: Path
) -> dict[str, Any]:
    here = folder(layout, node)
    configuration: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "x509": {"clientCAFile": str(authority.certificate)},
            "webhook": {"enabled": True},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(certificate),
        "tlsPrivateKeyFile": str(key),
        "clusterDNS": [str(layout.control_plane_address)],
        "clusterDomain": control_plane.CLUSTER_DOMAIN,
        "resolvConf": str(here / "resolv.conf"),
        "containerRuntimeEndpoint": f"unix://{containerd_socket(layout, node)}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{layout.cgroup}/{node.name}",
        "podLogsDir": str(here / "pod-logs"),
        "volumePluginDir": str(here / "volume-plugins"),
        # The machine is shared, may have swap, an old kind of control groups, and no right to
        # set limits of its own.
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        "failCgroupV1": False,
        "oomScoreAdj": 0,
        # A pod may not have a larger share than its parent group: where the node is limited, the
        # node's limit is the one that counts.
        "cpuCFSQuota": node.pool.cpu_limit is None,
        "featureGates": {"KubeletInUserNamespace": True},
        "localStorageCapacityIsolation": False,
        "evictionHard": {"nodefs.available": "1%"},
        # Images are shared with the other nodes and must survive; they cost no space here.
        "imageGCHighThresholdPercent": 100,
        "syncFrequency": "10s",
        "registerWithTaints": [taint.for_kubernetes() for taint in node_taints(node.pool)],
    }
    return configuration


def _kube_proxy_config(layout: Layout, node: Node) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "hostnameOverride": node.name,
        "clusterCIDR": str(layout.config.pod_cidr),
        "clientConnection": {
            "kubeconfig": str(folder(layout, node) / "kube-proxy.kubeconfig"),
        },
        "conntrack": {"maxPerCore": 0, "min": 0},
    }
