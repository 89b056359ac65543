"""Valid objects for tests; a test changes the one thing that it is about."""

from pathlib import Path
from typing import Any, Final

import yaml

from infra.accelerators import ACCELERATORS, Vendor
from infra.config import NodePool, StackConfig
from infra.environments import Environment

CHECKOUT: Final = Path(__file__).parents[1]


def a_gpu_pool(vendor: Vendor, **changes: Any) -> NodePool:
    return NodePool(instance_type=f"{ACCELERATORS[vendor].instance_family}.xlarge", **changes)


def a_stack(**changes: Any) -> StackConfig:
    """A local stack with one pool of each vendor and one without GPUs."""
    pools = {vendor.value: a_gpu_pool(vendor) for vendor in Vendor}
    values: dict[str, Any] = {
        "stack": "test",
        "environment": Environment.LOCAL,
        "node_pools": {"system": NodePool(instance_type="m6i.large"), **pools},
    }
    return StackConfig(**{**values, **changes})


def a_stack_file(folder: Path, **changes: Any) -> Path:
    """A stack file on disk; a change to None leaves the key out."""
    values: dict[str, Any] = {
        "environment": "local",
        "node_pools": {
            "system": {"instance_type": "m6i.large"},
            "nvidia": {"instance_type": "g4dn.xlarge"},
        },
    }
    config = {f"crossvendor:{key}": value for key, value in {**values, **changes}.items()}
    file = folder / "Pulumi.test.yaml"
    document = {"config": {key: value for key, value in config.items() if value is not None}}
    file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return file
