"""The environment's network: a bridge, namespaces for nodes and control plane, shaped links.

Nothing is set in the machine's own namespace but the bridge, one link per node and their routes.
"""

import ipaddress
import json
from typing import Final

from infra.local.layout import Layout, Node
from infra.local.machine import LocalError, run

MTU: Final = 9001
"""Bytes; what links inside a VPC carry."""

API_PORT: Final = 6443
DNS_PORT: Final = 53

# Of the control plane only the API server and DNS may be reached: kwokctl's etcd listens on every
# address and asks nobody who they are.
_CONTROL_PLANE_RULES: Final = f"""
table inet crossvendor {{
  chain input {{
    type filter hook input priority filter; policy drop;
    iifname "lo" accept
    ct state established,related accept
    icmp type echo-request accept
    tcp dport {{ {API_PORT}, {DNS_PORT} }} accept
    udp dport {DNS_PORT} accept
  }}
}}
"""


def require_free_ranges(layout: Layout) -> None:
    """Refuse address ranges and interface names that the machine uses for something else."""
    ours = {layout.config.node_cidr: "node_cidr", layout.config.pod_cidr: "pod_cidr"}
    for route in json.loads(run(["ip", "-json", "-4", "route", "show", "table", "all"]) or "[]"):
        device = route.get("dev", "")
        if route["dst"] == "default" or route.get("type") in ("broadcast", "local"):
            continue
        used = ipaddress.ip_network(route["dst"])
        for range_, key in ours.items():
            if device != layout.bridge and range_.overlaps(ipaddress.IPv4Network(used)):
                msg = (
                    f"Pulumi.local.yaml, crossvendor:local.{key}: {range_} overlaps {used}, which "
                    f"this machine reaches through {device or 'another route'}; choose a range "
                    "that is free here."
                )
                raise LocalError(msg)


def create(layout: Layout) -> None:
    """Make the bridge, the namespaces, their links and routes."""
    bridge = layout.bridge
    prefix = layout.config.node_cidr.prefixlen
    lines = [
        f"link add {bridge} mtu {MTU} type bridge",
        f"addr add {layout.machine_address}/{prefix} dev {bridge}",
        f"link set {bridge} up",
    ]
    for namespace, interface, address in _ends(layout):
        lines += [
            f"netns add {namespace}",
            f"link add {interface} mtu {MTU} type veth peer name eth0 mtu {MTU} netns {namespace}",
            f"link set {interface} master {bridge} up",
            f"-netns {namespace} link set lo up",
            f"-netns {namespace} addr add {address}/{prefix} dev eth0",
            f"-netns {namespace} link set eth0 up",
            f"-netns {namespace} route add default via {layout.machine_address}",
        ]
    # kwokctl's certificate for the API server names the addresses of its namespace; pods know the
    # server by its service's.
    lines.append(f"-netns {layout.control_plane_namespace} addr add {layout.api_service}/32 dev lo")
    lines += [f"route add {node.pods} via {node.address}" for node in layout.nodes]
    for namespace, _, address in _ends(layout):
        lines += [
            f"-netns {namespace} route add {node.pods} via {node.address}"
            for node in layout.nodes
            if node.address != address
        ]
    for line in lines:
        run(["ip", *line.split()])
    run(
        ["nsenter", f"--net=/run/netns/{layout.control_plane_namespace}", "nft", "-f", "-"],
        stdin=_CONTROL_PLANE_RULES,
    )
    for node in layout.nodes:
        run(["nsenter", f"--net=/run/netns/{node.namespace}", "sysctl", "-qw",
             "net.ipv4.ip_forward=1"])  # fmt: skip
        _shape(node)


def _ends(layout: Layout) -> list[tuple[str, str, ipaddress.IPv4Address]]:
    """Namespace, machine's interface and address of each end of the bridge."""
    control_plane = (
        layout.control_plane_namespace,
        layout.control_plane_interface,
        layout.control_plane_address,
    )
    return [control_plane, *((n.namespace, n.interface, n.address) for n in layout.nodes)]


def _shape(node: Node) -> None:
    """Limit a node's link in both directions, each at the end that sends."""
    mbits = node.pool.link_limit_mbits
    if mbits is None:
        return
    # A bucket of 4 ms at full rate, and never less than one large segment: smaller ones cannot
    # be refilled in time by the kernel's clock, and the link would be slower than it should.
    burst = max(mbits * 1_000_000 // 8 * 4 // 1000, 128 * 1024)
    words = ["root", "tbf", "rate", f"{mbits}mbit", "burst", str(burst), "latency", "50ms"]
    run(["tc", "qdisc", "add", "dev", node.interface, *words])
    run(["tc", "-netns", node.namespace, "qdisc", "add", "dev", "eth0", *words])


def remove(name: str) -> None:
    """Remove whatever an environment of this name left: links, bridge, namespaces."""
    links = json.loads(run(["ip", "-json", "link", "show"]))
    for link in links:
        interface = link["ifname"]
        prefix, _, number = interface.rpartition("-")
        if interface == name or (prefix == name and number.isdigit()):
            run(["ip", "link", "del", interface])
    for namespace in namespaces(name):
        run(["ip", "netns", "del", namespace])


def namespaces(name: str) -> list[str]:
    """Network namespaces of the environment of this name."""
    found = json.loads(run(["ip", "-json", "netns", "list"]) or "[]")
    return [entry["name"] for entry in found if entry["name"].startswith(f"{name}-")]
