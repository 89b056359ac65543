"""EC2 instance types that node pools may use: size, GPUs, network, pods, price.

Figures are AWS's for us-east-1 (July 2026); nothing here is measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from infra.accelerators import ACCELERATORS, Vendor


@dataclass(frozen=True, kw_only=True)
class InstanceType:
    """One row of AWS's instance tables."""

    name: str
    vcpus: int
    memory_mib: int
    num_gpus: int
    gpu_memory_mib: int
    """Of one GPU."""
    baseline_mbits: int
    """Network bandwidth that lasts, in Mbit/s; "up to" figures are bursts."""
    has_efa: bool
    max_pods: int
    """Without prefix delegation (ENIs times addresses)."""
    usd_per_hour: float
    """On demand."""

    @property
    def family(self) -> str:
        """The part of the name before the dot."""
        return self.name.partition(".")[0]

    @property
    def vendor(self) -> Vendor | None:
        """Whose GPUs it carries; None on machines without."""
        for accelerator in ACCELERATORS.values():
            if accelerator.instance_family == self.family:
                return accelerator.vendor
        return None


def _row(  # a table is read by column, so its arguments have no names
    name: str, vcpus: int, memory_gib: int, gpus: int, gpu_gib: int,
    mbits: int, pods: int, usd: float, *, efa: bool = False,
) -> InstanceType:  # fmt: skip
    return InstanceType(
        name=name,
        vcpus=vcpus,
        memory_mib=memory_gib * 1024,
        num_gpus=gpus,
        gpu_memory_mib=gpu_gib * 1024,
        baseline_mbits=mbits,
        has_efa=efa,
        max_pods=pods,
        usd_per_hour=usd,
    )


_ROWS = (
    # name          vCPU  GiB GPUs GiB  Mbit/s pods   USD/h
    _row("g4ad.xlarge", 4, 16, 1, 8, 2_000, 8, 0.37853),
    _row("g4ad.2xlarge", 8, 32, 1, 8, 4_167, 8, 0.54117),
    _row("g4ad.4xlarge", 16, 64, 1, 8, 8_333, 29, 0.867),
    _row("g4ad.8xlarge", 32, 128, 2, 8, 15_000, 58, 1.734),
    _row("g4ad.16xlarge", 64, 256, 4, 8, 25_000, 234, 3.468),
    _row("g4dn.xlarge", 4, 16, 1, 16, 5_000, 29, 0.526),
    _row("g4dn.2xlarge", 8, 32, 1, 16, 10_000, 29, 0.752),
    _row("g4dn.4xlarge", 16, 64, 1, 16, 20_000, 29, 1.204),
    _row("g4dn.8xlarge", 32, 128, 1, 16, 50_000, 58, 2.176, efa=True),
    _row("g4dn.12xlarge", 48, 192, 4, 16, 50_000, 234, 3.912, efa=True),
    _row("g4dn.16xlarge", 64, 256, 1, 16, 50_000, 58, 4.352, efa=True),
    _row("g4dn.metal", 96, 384, 8, 16, 100_000, 737, 7.824, efa=True),
    _row("m6i.large", 2, 8, 0, 0, 781, 29, 0.096),
    _row("m6i.xlarge", 4, 16, 0, 0, 1_562, 58, 0.192),
)

INSTANCE_TYPES: Final[Mapping[str, InstanceType]] = MappingProxyType(
    {row.name: row for row in _ROWS}
)
