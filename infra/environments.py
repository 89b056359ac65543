"""Where a cluster can come from, and what the platform must know about it: one row each.

A component reads these values; none asks which environment it is in.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from infra import versions
from infra.charts import Chart


class Environment(StrEnum):
    """Who makes the cluster."""

    LOCAL = "local"
    """infra/local, on this machine."""
    AWS = "aws"
    """infra/aws: EKS with a node group per pool."""
    EXISTING = "existing"
    """Somebody else: any cluster that a kubeconfig leads to; only the platform is ours."""


@dataclass(frozen=True, kw_only=True)
class EnvironmentFacts:
    """One environment's row."""

    volcano: Chart
    has_devices: bool
    """Whether its nodes carry GPUs, which need device plugins; local nodes only advertise them."""
    has_dns_pods: bool
    """Whether DNS is the `kube-dns` pods; the local environment's is a process beside the API."""


_RELEASED_VOLCANO: Final = Chart(
    name="volcano",
    version=versions.VOLCANO,
    repository=versions.VOLCANO_CHART_REPOSITORY,
)

ENVIRONMENTS: Final[Mapping[Environment, EnvironmentFacts]] = MappingProxyType(
    {
        Environment.LOCAL: EnvironmentFacts(
            # A link that the local environment puts there: the chart in Volcano's Go module.
            volcano=Chart(name="./build/charts/volcano", version=versions.VOLCANO_LOCAL),
            has_devices=False,
            has_dns_pods=False,
        ),
        Environment.AWS: EnvironmentFacts(
            volcano=_RELEASED_VOLCANO,
            has_devices=True,
            has_dns_pods=True,
        ),
        Environment.EXISTING: EnvironmentFacts(
            volcano=_RELEASED_VOLCANO,
            has_devices=True,
            has_dns_pods=True,
        ),
    }
)
