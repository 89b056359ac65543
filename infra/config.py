"""What a stack may choose: StackConfig and its parts, with every default and every check.

The only reader of `pulumi.Config` and of the stack files; inside, there are no dicts of settings.
"""

import ipaddress
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pulumi
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from infra.accelerators import Vendor
from infra.instances import INSTANCE_TYPES, InstanceType
from infra.names import PROJECT


class ConfigError(pulumi.RunError):
    """A stack file that cannot be used: one sentence; the engine prints it without a traceback."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


DnsLabel = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,18}[a-z0-9])?$")]
"""A pool's or the environment's name; short, because node and interface names are built from it."""


class NodePool(_Part):
    """Equal nodes: an EKS node group, or network namespaces in the local environment."""

    instance_type: str
    size: int = Field(default=1, ge=0, le=50)
    """Nodes at the start; in the cloud the autoscaler owns the number afterwards."""
    min_size: int = Field(default=0, ge=0, le=50)
    max_size: int = Field(default=4, ge=1, le=50)
    """Also bounds the quota of the training namespace."""
    cpu_limit: float | None = Field(default=None, gt=0, le=256)
    """Cores that one local node may use; None for all. Stands for unequal GPUs."""
    link_mbits: int | Literal["baseline", "unlimited"] = "baseline"
    """Bandwidth of one local node's link in Mbit/s; `baseline` is the instance type's."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.instance_type not in INSTANCE_TYPES:
            msg = (
                f"instance_type {self.instance_type!r} is not in infra/instances.py; "
                f"use one of {', '.join(INSTANCE_TYPES)}"
            )
            raise ValueError(msg)
        if not self.min_size <= self.size <= self.max_size:
            msg = (
                f"size {self.size} is not between min_size {self.min_size} and "
                f"max_size {self.max_size}; change one of the three"
            )
            raise ValueError(msg)
        if isinstance(self.link_mbits, int) and not 1 <= self.link_mbits <= 400_000:
            msg = (
                f"link_mbits {self.link_mbits} is out of range; use 1 to 400000, "
                "'baseline' or 'unlimited'"
            )
            raise ValueError(msg)
        return self

    @property
    def instance(self) -> InstanceType:
        """The instance type's row."""
        return INSTANCE_TYPES[self.instance_type]

    @property
    def vendor(self) -> Vendor | None:
        """Whose GPUs the pool's nodes carry; None for a pool without."""
        return self.instance.vendor

    @property
    def link_limit_mbits(self) -> int | None:
        """Bandwidth of one node's link in Mbit/s; None when it is not shaped."""
        if self.link_mbits == "unlimited":
            return None
        if self.link_mbits == "baseline":
            return self.instance.baseline_mbits
        return self.link_mbits


class LocalConfig(_Part):
    """The local environment: where it lives on this machine."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9]{0,10}$")] = PROJECT
    """Prefix of its namespaces, interfaces, cgroups and folders; two names can run side by side.

    At most 11 characters: an interface name has 15, and `-` and a node's number follow."""
    node_cidr: ipaddress.IPv4Network = ipaddress.IPv4Network("10.200.0.0/24")
    """The bridge; .1 is this machine, .2 the control plane, .10 and up the nodes."""
    pod_cidr: ipaddress.IPv4Network = ipaddress.IPv4Network("10.244.0.0/16")
    """One /24 per node."""
    service_cidr: ipaddress.IPv4Network = ipaddress.IPv4Network("10.96.0.0/16")

    @model_validator(mode="after")
    def _check(self) -> Self:
        ranges = {
            "node_cidr": self.node_cidr,
            "pod_cidr": self.pod_cidr,
            "service_cidr": self.service_cidr,
        }
        for key, longest in (("node_cidr", 24), ("pod_cidr", 18), ("service_cidr", 24)):
            if ranges[key].prefixlen > longest:
                msg = f"{key} {ranges[key]} is too small; use a /{longest} or larger"
                raise ValueError(msg)
        names = list(ranges)
        for i, a in enumerate(names):
            for b in names[i + 1 :]:
                if ranges[a].overlaps(ranges[b]):
                    msg = f"{a} {ranges[a]} overlaps {b} {ranges[b]}; choose separate ranges"
                    raise ValueError(msg)
        return self


class StackConfig(_Part):
    """One environment, as its stack file chose it."""

    stack: str
    environment: Literal["local", "aws"]
    node_pools: dict[DnsLabel, NodePool] = Field(min_length=1)
    local: LocalConfig = LocalConfig()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if all(pool.vendor is not None for pool in self.node_pools.values()):
            msg = (
                "node_pools has no pool without GPUs; Volcano and the job's launcher need one, "
                "add for example `system: {instance_type: m6i.large}`"
            )
            raise ValueError(msg)
        num_local_nodes = sum(pool.size for pool in self.node_pools.values())
        if self.environment == "local" and num_local_nodes > 60:
            msg = f"node_pools asks for {num_local_nodes} local nodes; use at most 60 in all"
            raise ValueError(msg)
        return self

    @property
    def vendors(self) -> tuple[Vendor, ...]:
        """Vendors that have a pool, in the table's order."""
        present = {pool.vendor for pool in self.node_pools.values()}
        return tuple(vendor for vendor in Vendor if vendor in present)

    def max_gpus(self, vendor: Vendor) -> int:
        """GPUs of one vendor when all its pools are at their largest."""
        pools = (pool for pool in self.node_pools.values() if pool.vendor is vendor)
        return sum(pool.max_size * pool.instance.num_gpus for pool in pools)

    @classmethod
    def load(cls) -> Self:
        """The running program's configuration, as the engine gives it."""
        config = pulumi.Config()
        values: dict[str, Any] = {}
        for key in cls.model_fields.keys() - {"stack"}:
            text = config.get(key)
            if text is not None:
                values[key] = _decoded(text)
        return cls.parse(pulumi.get_stack(), values)

    @classmethod
    def from_file(cls, path: Path, *, sizes: Mapping[str, int] | None = None) -> Self:
        """The configuration in a stack file, without an engine.

        `sizes` replaces pools' `size`: pool name -> nodes. Raises ConfigError.
        """
        stack = path.name.removeprefix("Pulumi.").removesuffix(".yaml")
        values = read_stack_file(path)
        pools = values.get("node_pools")
        for pool, size in (sizes or {}).items():
            if not isinstance(pools, dict) or not isinstance(pools.get(pool), dict):
                known = ", ".join(pools) if isinstance(pools, dict) else "none"
                msg = f"{path.name} has no node pool {pool!r}; its pools are: {known}."
                raise ConfigError(msg)
            pools[pool]["size"] = size
        return cls.parse(stack, values)

    @classmethod
    def parse(cls, stack: str, values: Mapping[str, Any]) -> Self:
        """Checks a stack's values as a whole. Raises ConfigError with one sentence."""
        try:
            return cls.model_validate({**values, "stack": stack})
        except ValidationError as error:
            raise ConfigError(_sentence(f"Pulumi.{stack}.yaml", error)) from error


def read_stack_file(path: Path) -> dict[str, Any]:
    """A stack file's `config:`, keys without the project's prefix. Raises ConfigError."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        msg = f"{path} does not exist; name a stack that has a Pulumi.<stack>.yaml."
        raise ConfigError(msg) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        msg = f"{path.name} is not YAML: {reason}."
        raise ConfigError(msg) from error
    config = document.get("config") if isinstance(document, dict) else None
    if not isinstance(config, dict):
        msg = f"{path.name} has no `config:` mapping; see Pulumi.local.yaml for one."
        raise ConfigError(msg)
    values: dict[str, Any] = {}
    for key, value in config.items():
        namespace, separator, name = str(key).partition(":")
        if not separator:
            msg = f"{path.name}: key {key!r} has no namespace; write `{PROJECT}:{key}`."
            raise ConfigError(msg)
        if namespace == PROJECT:
            values[name] = value
    return values


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _sentence(file: str, error: ValidationError) -> str:
    """The first problem as where, what, allowed; the number of others at the end."""
    problems = error.errors(include_url=False)
    first = problems[0]
    path = ".".join(str(part) for part in first["loc"])
    where = f"{file}, {PROJECT}:{path}" if path else file
    match first["type"]:
        case "extra_forbidden":
            valid = ", ".join(sorted(_fields_at(first["loc"][:-1])))
            what = f"unknown key; valid keys are {valid}"
        case "missing":
            what = "is missing; add it"
        case "value_error":
            what = str(first["ctx"]["error"])
        case _:
            message = first["msg"][0].lower() + first["msg"][1:]
            what = f"{message}, got {first['input']!r}"
    others = f" ({len(problems) - 1} more problems)" if len(problems) > 1 else ""
    return f"{where}: {what}.{others}"


def _fields_at(path: tuple[int | str, ...]) -> list[str]:
    """Names of the keys that are valid where `path` leads."""
    match path:
        case ():
            model: type[_Part] = StackConfig
        case ("node_pools", *_):
            model = NodePool
        case _:
            model = LocalConfig
    return [name for name in model.model_fields if name != "stack"]
