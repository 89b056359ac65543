"""Valid objects for tests; a test changes the one thing that it is about."""

from pathlib import Path
from typing import Any, Final

import yaml

from infra.accelerators import ACCELERATORS, Vendor
from infra.aws.config import AwsConfig
from infra.config import NodePool, StackConfig
from infra.environments import Environment

CHECKOUT: Final = Path(__file__).parents[1]


def a_gpu_pool(vendor: Vendor, **changes: Any) -> NodePool:
    return NodePool(instance_type=f"{ACCELERATORS[vendor].instance_family}.xlarge", **changes)


def a_stack(**changes: Any) -> StackConfig:
    """A stack, local if nothing else is said, with one pool of each vendor and one without GPUs."""
    pools = {vendor.value: a_gpu_pool(vendor) for vendor in Vendor}
    values: dict[str, Any] = {
        "stack": "test",
        "environment": Environment.LOCAL,
        "node_pools": {"system": NodePool(instance_type="m6i.large"), **pools},
    }
    if changes.get("environment") is Environment.AWS:
        values["aws"] = an_aws_config()
    return StackConfig(**{**values, **changes})


def an_aws_config(**changes: Any) -> AwsConfig:
    values: dict[str, Any] = {
        "account_id": "123456789012",
        "region": "us-east-1",
        "zone_ids": ["use1-az1", "use1-az2"],
        "gpu_zone_id": "use1-az1",
        "administrators": ["arn:aws:iam::123456789012:role/deployer"],
        "amd_image_id": "ami-0123456789abcdef0",
    }
    return AwsConfig(**{**values, **changes})


def an_aws_stack(**changes: Any) -> StackConfig:
    """A stack in the cloud with one pool of each vendor and one without GPUs."""
    return a_stack(environment=Environment.AWS, **changes)


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
