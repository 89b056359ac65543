"""Where things are in the picture of the cluster: pools, nodes, the job's pods, links.

Geometry only, in SVG user units; picture.svg.jinja draws it.
"""

from dataclasses import dataclass
from typing import Final

from infra.accelerators import ACCELERATORS, Vendor
from workloads.report import figures
from workloads.report.judgement import COMPLETED
from workloads.report.record import Node, Pod, Record

CARD_WIDTH: Final = 262
CARD_HEAD: Final = 82
POD_HEIGHT: Final = 40
GAP: Final = 20
MARGIN: Final = 14
POOL_HEAD: Final = 30
LINK_LENGTH: Final = 46
BUS_HEIGHT: Final = 30
MAX_COLUMNS: Final = 4
"""Nodes side by side; more go to further rows, or the text would be too small to read."""


@dataclass(frozen=True, kw_only=True)
class PodBox:
    """One pod inside its node."""

    y: float
    name: str
    detail: str
    state: str
    """`good`, `bad` or `open`: how it ended."""


@dataclass(frozen=True, kw_only=True)
class NodeCard:
    """One node with the job's pods on it, and its link down to the network."""

    x: float
    y: float
    height: float
    name: str
    machine: str
    gpus: str
    link: str
    is_slowest: bool
    vendor: Vendor | None
    tone: int
    """Index of the vendor's color; 0 for nodes without accelerator."""
    pods: tuple[PodBox, ...]


@dataclass(frozen=True, kw_only=True)
class Row:
    """Nodes side by side and the network below them."""

    cards: tuple[NodeCard, ...]
    bus_y: float


@dataclass(frozen=True, kw_only=True)
class Picture:
    """The whole drawing."""

    width: float
    height: float
    rows: tuple[Row, ...]
    homeless: tuple[str, ...]
    """Pods that never came to a node."""


def picture(record: Record) -> Picture:
    """The cluster with the job's pods where they ran; nodes without any are drawn too."""
    nodes = sorted(record.nodes, key=lambda node: (_tone(node), node.pool, node.name))
    limits = [node.link_mbits for node in nodes if node.vendor and node.link_mbits is not None]
    slowest = min(limits, default=None)
    rows: list[Row] = []
    y = float(MARGIN)
    for start in range(0, len(nodes), MAX_COLUMNS):
        chosen = nodes[start : start + MAX_COLUMNS]
        most = max(len(_pods_on(record, node)) for node in chosen)
        height = CARD_HEAD + max(1, most) * (POD_HEIGHT + 8) + 8
        cards = tuple(
            _card(
                record, node, x=MARGIN + i * (CARD_WIDTH + GAP), y=y, height=height, slowest=slowest
            )
            for i, node in enumerate(chosen)
        )
        bus_y = y + height + LINK_LENGTH
        rows.append(Row(cards=cards, bus_y=bus_y))
        y = bus_y + BUS_HEIGHT + GAP
    columns = min(max(1, len(nodes)), MAX_COLUMNS)
    return Picture(
        width=2 * MARGIN + columns * CARD_WIDTH + (columns - 1) * GAP,
        height=y - GAP + MARGIN if rows else 2 * MARGIN,
        rows=tuple(rows),
        homeless=tuple(pod.name for pod in record.pods if record.node(pod.node) is None),
    )


def _card(
    record: Record, node: Node, *, x: float, y: float, height: float, slowest: int | None
) -> NodeCard:
    pods = tuple(
        PodBox(
            y=CARD_HEAD + i * (POD_HEIGHT + 8),
            name=pod.name.removeprefix(f"{record.request.job}-"),
            detail=_detail(pod),
            state=pod_state(record, pod),
        )
        for i, pod in enumerate(_pods_on(record, node))
    )
    return NodeCard(
        x=x,
        y=y,
        height=height,
        name=node.name,
        machine=", ".join(part for part in (node.instance_type, f"pool {node.pool}") if part),
        gpus=_gpus(node),
        link=figures.link(node.link_mbits) if node.link_mbits is not None else "not limited",
        is_slowest=node.vendor is not None and node.link_mbits is not None
        and node.link_mbits == slowest,
        vendor=node.vendor,
        tone=_tone(node),
        pods=pods,
    )  # fmt: skip


def _pods_on(record: Record, node: Node) -> list[Pod]:
    return [pod for pod in record.pods if pod.node == node.name]


def _tone(node: Node) -> int:
    """Index of the vendor's color."""
    return 0 if node.vendor is None else 1 + list(Vendor).index(node.vendor)


def _gpus(node: Node) -> str:
    gpus = [f"{count} x {name}" for name, count in node.gpus.items()]
    if node.vendor and gpus:
        gpus[0] += f" ({ACCELERATORS[node.vendor].gpu})"
    return ", ".join(gpus) if gpus else "no GPU"


def _detail(pod: Pod) -> str:
    ran = ""
    if pod.started is not None and pod.finished is not None:
        ran = f", ran {figures.duration(pod.finished - pod.started)}"
    return f"{pod.phase}{ran}"


def pod_state(record: Record, pod: Pod) -> str:
    """How a pod ended; one that is ended together with a completed job ended well."""
    if pod.phase == "Succeeded" or (record.phase == COMPLETED and pod.phase == "Running"):
        return "good"
    if pod.phase == "Failed":
        # A worker that is told to stop when its job completes exits by a signal.
        ended_with_job = record.phase == COMPLETED and pod.exit_code in (None, 137, 143)
        return "good" if ended_with_job else "bad"
    return "open"
