"""Accelerator vendors: the one table that names, labels, taints, images and quotas are read from.

To add a vendor, add one entry to ACCELERATORS and one Dockerfile. Nothing else in this repository
may spell a vendor's resource name, label, taint or image.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from infra import versions
from infra.charts import Chart
from infra.names import LABEL_VENDOR


class Vendor(StrEnum):
    """Who made the hardware; the software on it is a `Stack`."""

    NVIDIA = "nvidia"
    AMD = "amd"


class Stack(StrEnum):
    """Which software an image is built for; the hardware's maker is a `Vendor`."""

    CUDA = "cuda"
    ROCM = "rocm"
    CPU = "cpu"


@dataclass(frozen=True, kw_only=True)
class Taint:
    """A node taint in Kubernetes' spelling; EKS spells the effect differently."""

    key: str
    value: str
    effect: str = "NoSchedule"

    def for_kubernetes(self) -> dict[str, str]:
        """The entry of `Node.spec.taints`."""
        return {"key": self.key, "value": self.value, "effect": self.effect}

    def for_eks(self) -> dict[str, str]:
        """The entry of an EKS node group's `taints`, whose effects are upper case."""
        effects = {
            "NoSchedule": "NO_SCHEDULE",
            "NoExecute": "NO_EXECUTE",
            "PreferNoSchedule": "PREFER_NO_SCHEDULE",
        }
        return {"key": self.key, "value": self.value, "effect": effects[self.effect]}

    @property
    def toleration(self) -> dict[str, str]:
        """The toleration that a pod needs to run on such a node."""
        return {"key": self.key, "operator": "Exists", "effect": self.effect}


@dataclass(frozen=True, kw_only=True)
class DevicePlugin:
    """The vendor's own chart that makes kubelets advertise its GPUs."""

    chart: Chart
    node_selector: str
    """The chart's value that holds its pods' node selector."""
    values: Mapping[str, Any]
    """What the chart needs besides; a None in it removes a default."""


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """One vendor's row."""

    vendor: Vendor
    gpu: str
    """Product name of the GPU on the supported instance types."""
    architecture: str
    """Code generation target: compute capability or gfx name."""
    stack: Stack
    resource: str
    """Extended resource that its device plugin advertises and pods request."""
    instance_family: str
    ami_type: str | None
    """EKS's image family; None where EKS has none and the launch template names our own image."""
    device_file: str | None
    """What a node of our own image waits for before it joins; None where EKS's image sees to it."""
    device_plugin: DevicePlugin
    extra_node_labels: Mapping[str, str]
    """Labels that the vendor's own charts select nodes by."""
    environment: Mapping[str, str]
    """Settings that this hardware needs; harmless on the others, so every rank gets all of them."""

    @property
    def node_labels(self) -> dict[str, str]:
        """Labels of every node of this vendor, in the cloud and in the local environment."""
        return {LABEL_VENDOR: self.vendor.value, **self.extra_node_labels}

    @property
    def taint(self) -> Taint:
        """Keeps pods that do not ask for this vendor off its nodes."""
        return Taint(key=self.resource, value="present")

    @property
    def quota_key(self) -> str:
        """The key of a ResourceQuota; extended resources are limited by requests only."""
        return f"requests.{self.resource}"

    @property
    def task(self) -> str:
        """Name of the vendor's task in a job, and of its image in images/catalog.py."""
        return f"worker-{self.vendor}"


ACCELERATORS: Final[Mapping[Vendor, Accelerator]] = MappingProxyType(
    {
        accelerator.vendor: accelerator
        for accelerator in (
            Accelerator(
                vendor=Vendor.NVIDIA,
                gpu="T4",
                architecture="sm_75",
                stack=Stack.CUDA,
                resource="nvidia.com/gpu",
                instance_family="g4dn",
                ami_type="AL2023_x86_64_NVIDIA",
                device_file=None,
                device_plugin=DevicePlugin(
                    chart=Chart(
                        name="nvidia-device-plugin",
                        version=versions.NVIDIA_DEVICE_PLUGIN_CHART,
                        repository=versions.NVIDIA_DEVICE_PLUGIN_REPOSITORY,
                    ),
                    node_selector="nodeSelector",
                    values=MappingProxyType({}),
                ),
                # The device plugin's chart requires this label where NFD is not installed.
                extra_node_labels=MappingProxyType({"nvidia.com/gpu.present": "true"}),
                environment=MappingProxyType({}),
            ),
            Accelerator(
                vendor=Vendor.AMD,
                gpu="Radeon Pro V520",
                architecture="gfx1011",
                stack=Stack.ROCM,
                resource="amd.com/gpu",
                instance_family="g4ad",
                ami_type=None,
                device_file="/dev/kfd",
                device_plugin=DevicePlugin(
                    chart=Chart(
                        name="amd-gpu",
                        version=versions.AMD_DEVICE_PLUGIN_CHART,
                        repository=versions.AMD_DEVICE_PLUGIN_REPOSITORY,
                    ),
                    node_selector="node_selector",
                    values=MappingProxyType(
                        {
                            "node_selector_enabled": True,
                            # The V520 is a display controller (PCI class 0380), so the label that
                            # the chart selects by never appears; maps merge, hence the removal.
                            "node_selector": {
                                "feature.node.kubernetes.io/pci-0300_1002.present": None
                            },
                        }
                    ),
                ),
                extra_node_labels=MappingProxyType({}),
                # The V520 on g4ad has no Large BAR: any CPU copy through the BAR crashes the rank
                # (github.com/openucx/ucc/issues/1043).
                environment=MappingProxyType(
                    {
                        "UCX_ROCM_COPY_D2H_THRESH": "0",
                        "UCX_ROCM_COPY_H2D_THRESH": "0",
                        "UCC_EC_ROCM_REDUCE_HOST_LIMIT": "0",
                        "UCC_EC_ROCM_COPY_HOST_LIMIT": "0",
                        "OMPI_MCA_mpi_accelerator_rocm_memcpyD2H_limit": "0",
                        "OMPI_MCA_mpi_accelerator_rocm_memcpyH2D_limit": "0",
                    }
                ),
            ),
        )
    }
)
