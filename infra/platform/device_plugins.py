"""Device plugins: each vendor's own, on that vendor's nodes."""

from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from infra.accelerators import ACCELERATORS, Accelerator, Vendor
from infra.component import Component
from infra.names import LABEL_VENDOR
from infra.platform.releases import release_args


def plugin_values(accelerator: Accelerator) -> dict[str, Any]:
    """Values of the vendor's chart: our nodes by our label, through our taint."""
    plugin = accelerator.device_plugin
    selector = {
        **plugin.values.get(plugin.node_selector, {}),
        LABEL_VENDOR: accelerator.vendor.value,
    }
    return {
        **plugin.values,
        plugin.node_selector: selector,
        # A list replaces the chart's, so its first entry is repeated.
        "tolerations": [
            {"key": "CriticalAddonsOnly", "operator": "Exists"},
            accelerator.taint.toleration,
        ],
    }


class DevicePlugins(Component):
    """One release per vendor, or none where nodes carry no devices."""

    def __init__(
        self,
        name: str,
        vendors: Sequence[Vendor],
        *,
        namespace: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("platform:DevicePlugins", name, opts)
        for vendor in vendors:
            accelerator = ACCELERATORS[vendor]
            kubernetes.helm.v3.Release(
                f"{name}-{vendor}",
                release_args(
                    accelerator.device_plugin.chart,
                    name=f"device-plugin-{vendor}",
                    namespace=namespace,
                    values=plugin_values(accelerator),
                    waits=False,  # there may be no node of this vendor yet
                ),
                opts=self._opts(),
            )
        self.register_outputs({})
