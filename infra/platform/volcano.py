"""Volcano, the gang scheduler: its release and its scheduler's configuration."""

from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes
import yaml

from infra.accelerators import ACCELERATORS
from infra.charts import Chart
from infra.component import Component
from infra.names import LABEL_VENDOR
from infra.platform.releases import release_args

BINPACK_WEIGHT: Final = 10
GPU_WEIGHT: Final = 5
"""GPUs are what is scarce: filling a node's GPUs counts five times its CPUs."""


def scheduler_config() -> dict[str, Any]:
    """The scheduler's actions and plugins.

    There is no `enqueue` action: it holds a gang back before its pods exist, and without pending
    pods no autoscaler adds nodes. `capacity` excludes `proportion`; `reclaim` stays off, so no
    queue takes from another.
    """
    resources = [row.resource for row in ACCELERATORS.values()]
    binpack = {
        "binpack.weight": BINPACK_WEIGHT,
        "binpack.cpu": 1,
        "binpack.memory": 1,
        "binpack.resources": ", ".join(resources),
        **{f"binpack.resources.{resource}": GPU_WEIGHT for resource in resources},
    }
    return {
        "actions": "allocate, backfill",
        "tiers": [
            {
                "plugins": [
                    {"name": "priority"},
                    {"name": "gang", "enablePreemptable": False},
                    {"name": "conformance"},
                ]
            },
            {
                "plugins": [
                    {"name": "drf", "enablePreemptable": False},
                    {"name": "predicates"},
                    {"name": "capacity"},
                    {"name": "nodeorder"},
                    {"name": "binpack", "arguments": binpack},
                ]
            },
        ],
    }


def chart_values(version: str) -> dict[str, Any]:
    """Values of Volcano's chart for one version of Volcano."""
    resources = {
        "requests": {"cpu": "50m", "memory": "64Mi"},
        "limits": {"memory": "1Gi"},
    }
    return {
        "basic": {
            "image_tag_version": f"v{version}",
            # Tags are pinned; the chart's `Always` would need a registry at every start.
            "image_pull_policy": "IfNotPresent",
        },
        "custom": {
            "scheduler_config_override": yaml.safe_dump(scheduler_config(), sort_keys=False),
            "leader_elect_enable": False,  # one replica of each
            "default_affinity": _away_from_gpus(),
            # The chart adds DAC_OVERRIDE, which Pod Security `restricted` forbids and which a
            # process that is not root never gets anyway.
            "default_csc": {"capabilities": {"add": [], "drop": ["ALL"]}},
            "scheduler_resources": resources,
            "controller_resources": resources,
            "admission_resources": resources,
            # With the webhooks' pods gone, a webhook on kube-system would lock the cluster up
            # (github.com/volcano-sh/volcano/issues/4044).
            "webhooks_namespace_selector_expressions": [
                {
                    "key": "kubernetes.io/metadata.name",
                    "operator": "NotIn",
                    "values": ["kube-system"],
                }
            ],
        },
    }


def _away_from_gpus() -> dict[str, Any]:
    """Nodes of no vendor: those that say so and, in clusters of others, those without label."""
    vendors = [vendor.value for vendor in ACCELERATORS]
    term = {"matchExpressions": [{"key": LABEL_VENDOR, "operator": "NotIn", "values": vendors}]}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
        }
    }


class Volcano(Component):
    """Volcano's release; its resource kinds exist when it does."""

    release: kubernetes.helm.v3.Release

    def __init__(
        self,
        name: str,
        chart: Chart,
        *,
        namespace: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("platform:Volcano", name, opts)
        self.release = kubernetes.helm.v3.Release(
            f"{name}-release",
            release_args(
                chart,
                name="volcano",
                namespace=namespace,
                values=chart_values(chart.version),
            ),
            opts=self._opts(),
        )
        self.register_outputs({})
