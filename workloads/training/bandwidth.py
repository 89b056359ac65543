"""Bus bandwidth and the share of the link, from sizes and times. Pure; README.md derives them."""


def algorithm_bandwidth(num_bytes: int, seconds: float) -> float:
    """MB/s: one rank's contribution by the time."""
    return num_bytes / seconds / 1e6


def bus_bandwidth(num_bytes: int, num_ranks: int, seconds: float) -> float:
    """MB/s, as nccl-tests define it: comparable between team sizes."""
    return 2 * (num_ranks - 1) / num_ranks * num_bytes / seconds / 1e6


def least_seconds(num_bytes: int, num_nodes: int, link_mbits: float) -> float:
    """The least time in which any all-reduce can pass between nodes with such links."""
    return 2 * (num_nodes - 1) / num_nodes * num_bytes * 8 / (link_mbits * 1e6)


def link_share(
    num_bytes: int, num_nodes: int, link_mbits: float | None, seconds: float
) -> float | None:
    """How much of the link's limit was reached; None where no link is crossed or known."""
    if link_mbits is None or num_nodes < 2:  # one node: nothing is sent
        return None
    return least_seconds(num_bytes, num_nodes, link_mbits) / seconds
