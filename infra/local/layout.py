"""Where a local environment lives and what its parts are called: pure, from its configuration."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from infra.config import LocalConfig, NodePool, StackConfig

# Addresses in the node range.
_MACHINE = 1
_FIRST_NODE = 10


@dataclass(frozen=True, kw_only=True)
class Node:
    """One node: a network namespace, an address, a range for its pods."""

    name: str
    index: int
    pool_name: str
    pool: NodePool
    address: ipaddress.IPv4Address
    pods: ipaddress.IPv4Network
    namespace: str
    interface: str
    """The machine's end of the node's link."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Names, addresses and folders of one environment."""

    config: LocalConfig
    nodes: tuple[Node, ...]
    cache: Path
    """Toolchain, images and state of every environment of this user; survives `down`."""

    @classmethod
    def of(cls, stack: StackConfig, *, cache: Path) -> "Layout":
        """The layout that a stack's configuration asks for."""
        local = stack.local
        subnets = local.pod_cidr.subnets(new_prefix=24)
        next(subnets)  # .0.0/24 stays free, so that a node's number is in its pods' addresses
        nodes = []
        pools = (
            (name, pool, i) for name, pool in stack.node_pools.items() for i in range(pool.size)
        )
        for index, (pool_name, pool, i) in enumerate(pools, start=1):
            name = f"{pool_name}-{i}"
            node = Node(
                name=name,
                index=index,
                pool_name=pool_name,
                pool=pool,
                address=local.node_cidr.network_address + _FIRST_NODE + index - 1,
                pods=next(subnets),
                namespace=f"{local.name}-{name}",
                interface=f"{local.name}-{index}",
            )
            nodes.append(node)
        return cls(config=local, nodes=tuple(nodes), cache=cache)

    @property
    def name(self) -> str:
        """Prefix of everything that the environment makes on the machine."""
        return self.config.name

    @property
    def bridge(self) -> str:
        """The bridge that joins the nodes."""
        return self.name

    @property
    def control_plane_namespace(self) -> str:
        """Network namespace of etcd, the API server, its controllers and CoreDNS."""
        return f"{self.name}-control-plane"

    @property
    def control_plane_interface(self) -> str:
        """The machine's end of the control plane's link."""
        return f"{self.name}-0"

    @property
    def machine_address(self) -> ipaddress.IPv4Address:
        """This machine on the bridge."""
        return self.config.node_cidr.network_address + _MACHINE

    @property
    def control_plane_address(self) -> ipaddress.IPv4Address:
        """Of the API server (6443) and of CoreDNS (53)."""
        return self.config.dns_address

    @property
    def api_service(self) -> ipaddress.IPv4Address:
        """The API server's service: always the first of the range."""
        return self.config.service_cidr.network_address + 1

    @property
    def state(self) -> Path:
        """Everything that lives as long as the environment."""
        return self.cache / "state" / self.name

    @property
    def run(self) -> Path:
        """Sockets and the lock: short paths, gone after a restart of the machine."""
        return run_folder(self.name)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.state / "kubeconfig"

    @property
    def logs(self) -> Path:
        """One file per process."""
        return self.state / "logs"

    @property
    def cgroup(self) -> str:
        """Parent of the nodes' cgroups."""
        return self.name


def run_folder(name: str) -> Path:
    """Runtime folder of the environment of that name."""
    return Path("/run/crossvendor") / name
