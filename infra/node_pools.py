"""What every node of a pool carries: labels, taints and extended resources.

Pure; the EKS node groups and the local environment's nodes both take them from here.
"""

from infra.accelerators import ACCELERATORS, Taint
from infra.config import NodePool
from infra.names import LABEL_POOL, LABEL_VENDOR, NO_VENDOR


def node_labels(pool_name: str, pool: NodePool) -> dict[str, str]:
    """Labels of the pool's nodes; `LABEL_VENDOR` is on every node, so selectors can say `none`."""
    if pool.vendor is None:
        return {LABEL_POOL: pool_name, LABEL_VENDOR: NO_VENDOR}
    return {LABEL_POOL: pool_name, **ACCELERATORS[pool.vendor].node_labels}


def node_taints(pool: NodePool) -> list[Taint]:
    """Taints of the pool's nodes: none where there is no GPU to keep free."""
    if pool.vendor is None:
        return []
    return [ACCELERATORS[pool.vendor].taint]


def node_resources(pool: NodePool) -> dict[str, int]:
    """Extended resources that one node advertises: resource name -> count."""
    if pool.vendor is None:
        return {}
    return {ACCELERATORS[pool.vendor].resource: pool.instance.num_gpus}
