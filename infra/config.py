"""What a stack may choose: StackConfig and its parts, with every default and every check.

The only reader of `pulumi.Config` and of the stack files; inside, there are no dicts of settings.
"""

import ipaddress
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import pulumi
import yaml
from pydantic import Field, ValidationError, model_validator

from infra.accelerators import ACCELERATORS, Vendor
from infra.aws.config import AwsConfig, BudgetConfig
from infra.config_parts import Count, DnsLabel, Part
from infra.environments import ENVIRONMENTS, Environment, EnvironmentFacts
from infra.instances import INSTANCE_TYPES, InstanceType
from infra.names import PROJECT

_STACK_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,14}[a-z0-9]")


class ConfigError(pulumi.RunError):
    """A stack file that cannot be used: one sentence; the engine prints it without a traceback."""


class NodePool(Part):
    """Equal nodes: an EKS node group, or network namespaces in the local environment."""

    instance_type: str
    size: Count = Field(default=1, ge=0, le=50)
    """Nodes at the start; in the cloud the autoscaler owns the number afterwards."""
    min_size: Count = Field(default=0, ge=0, le=50)
    max_size: Count = Field(default=4, ge=1, le=50)
    """Also bounds the quota of the training namespace."""
    cpu_limit: float | None = Field(default=None, strict=True, gt=0, le=256, allow_inf_nan=False)
    """Cores that one local node may use; None for all. Stands for unequal GPUs."""
    link_mbits: Count | Literal["baseline", "unlimited"] = "baseline"
    """Bandwidth of one local node's link in Mbit/s; `baseline` is the instance type's."""
    capacity: Literal["on_demand", "spot"] = "on_demand"
    """How EC2 sells the nodes: spot costs a third and may be taken back at any time."""
    other_instance_types: list[str] = Field(default=[], max_length=10)
    """What EC2 may give instead, of the same vendor and number of GPUs; spot needs some choice."""
    disk_gib: Count = Field(default=150, ge=50, le=16_384)
    """Root disk of one EC2 node; GPU images of several GiB are unpacked on it."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for key, names in (
            ("instance_type", [self.instance_type]),
            ("other_instance_types", self.other_instance_types),
        ):
            for name in names:
                if name not in INSTANCE_TYPES:
                    msg = (
                        f"{key} {name!r} is not in infra/instances.py; "
                        f"use one of {', '.join(INSTANCE_TYPES)}"
                    )
                    raise ValueError(msg)
        self._check_choice()
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

    def _check_choice(self) -> None:
        """One node group's nodes have to look alike to a job and to the autoscaler."""
        names = [self.instance_type, *self.other_instance_types]
        for name in names[1:]:
            other = INSTANCE_TYPES[name]
            if names.count(name) > 1:
                msg = f"other_instance_types has {name!r} twice or as instance_type; remove one"
                raise ValueError(msg)
            if (other.vendor, other.num_gpus) != (self.vendor, self.instance.num_gpus):
                msg = (
                    f"other_instance_types has {name!r}, whose GPUs are not those of "
                    f"{self.instance_type}; name types of the same family and number of GPUs"
                )
                raise ValueError(msg)
            if other.vcpus < self.instance.vcpus:
                msg = (
                    f"other_instance_types has {name!r}, which is smaller than "
                    f"{self.instance_type}; the autoscaler counts with the latter"
                )
                raise ValueError(msg)

    @property
    def instance(self) -> InstanceType:
        """The instance type's row."""
        return INSTANCE_TYPES[self.instance_type]

    @property
    def vendor(self) -> Vendor | None:
        """Whose GPUs the pool's nodes carry; None for a pool without."""
        return self.instance.vendor

    @property
    def needs_own_image(self) -> bool:
        """Whether EKS has no machine image for the pool's nodes."""
        return self.vendor is not None and ACCELERATORS[self.vendor].ami_type is None

    @property
    def link_limit_mbits(self) -> int | None:
        """Bandwidth of one node's link in Mbit/s; None when it is not shaped."""
        if self.link_mbits == "unlimited":
            return None
        if self.link_mbits == "baseline":
            return self.instance.baseline_mbits
        return self.link_mbits


class LocalConfig(Part):
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

    @property
    def dns_address(self) -> ipaddress.IPv4Address:
        """Where CoreDNS answers: a process beside the API server."""
        return self.node_cidr[2]


class StackConfig(Part):
    """One environment, as its stack file chose it."""

    stack: str
    environment: Environment
    node_pools: dict[DnsLabel, NodePool] = Field(min_length=1)
    kubeconfig: Annotated[str, Field(min_length=1)] | None = None
    """File of the cluster to deploy to; None for the one that kubectl would take."""
    device_plugins: bool | None = None
    """Whether to install the vendors' device plugins; None for what the environment needs."""
    local: LocalConfig = LocalConfig()
    aws: AwsConfig | None = None
    """The cloud; only, and always, where the environment is `aws`."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if all(pool.vendor is not None for pool in self.node_pools.values()):
            msg = (
                "node_pools has no pool without GPUs; Volcano and the job's launcher need one, "
                "add for example `system: {instance_type: m6i.large}`"
            )
            raise ValueError(msg)
        if self.environment is Environment.LOCAL:
            self._check_local()
        else:
            self._check_not_local()
        if self.environment is Environment.AWS:
            self._check_aws()
        else:
            self._check_not_aws()
        return self

    def _check_aws(self) -> None:
        if self.aws is None:
            msg = "aws is missing; see Pulumi.example.yaml for its keys"
            raise ValueError(msg)
        if self.kubeconfig is not None:
            msg = "kubeconfig names a cluster, but this stack makes its own; remove it"
            raise ValueError(msg)
        if not _STACK_NAME.fullmatch(self.stack):
            msg = (
                f"the stack's name {self.stack!r} goes into names of AWS; "
                "use at most 16 lower-case letters, digits and hyphens"
            )
            raise ValueError(msg)
        own_image = [name for name, pool in self.node_pools.items() if pool.needs_own_image]
        if own_image and self.aws.amd_image_id is None:
            msg = (
                f"node_pools.{own_image[0]} needs aws.amd_image_id, because EKS has no image with "
                "that vendor's driver; docs/how-to/amd-node-image.md says how one is made"
            )
            raise ValueError(msg)

    def _check_not_aws(self) -> None:
        only = "means something in the environment `aws` only; remove it"
        if self.aws is not None:
            msg = f"aws {only}"
            raise ValueError(msg)
        for name, pool in self.node_pools.items():
            for key in ("capacity", "other_instance_types", "disk_gib"):
                if key in pool.model_fields_set:
                    msg = f"node_pools.{name}.{key} {only}"
                    raise ValueError(msg)

    def _check_local(self) -> None:
        num_nodes = sum(pool.size for pool in self.node_pools.values())
        if num_nodes > 60:
            msg = f"node_pools asks for {num_nodes} local nodes; use at most 60 in all"
            raise ValueError(msg)

    def _check_not_local(self) -> None:
        """A setting that would change nothing is refused, not ignored."""
        only = "means something in the local environment only; remove it"
        if "local" in self.model_fields_set:
            msg = f"local {only}"
            raise ValueError(msg)
        for name, pool in self.node_pools.items():
            if pool.cpu_limit is not None:
                msg = f"node_pools.{name}.cpu_limit {only}"
                raise ValueError(msg)

    @property
    def cloud(self) -> AwsConfig:
        """What `aws` says. Raises ConfigError in other environments, which have none."""
        if self.aws is None:
            msg = (
                f"stack {self.stack} has no `aws`: its environment is {self.environment}, not aws."
            )
            raise ConfigError(msg)
        return self.aws

    @property
    def full_name(self) -> str:
        """What the stack's things are called where names are shared: the project and the stack."""
        return f"{PROJECT}-{self.stack}"

    @property
    def facts(self) -> EnvironmentFacts:
        """The environment's row."""
        return ENVIRONMENTS[self.environment]

    @property
    def dns_address(self) -> ipaddress.IPv4Address | None:
        """The cluster's DNS where it is outside of pods; None where it is the `kube-dns` pods."""
        return None if self.facts.has_dns_pods else self.local.dns_address

    @property
    def vendors(self) -> tuple[Vendor, ...]:
        """Vendors that have a pool, in the table's order."""
        present = {pool.vendor for pool in self.node_pools.values()}
        return tuple(vendor for vendor in Vendor if vendor in present)

    @property
    def vendors_with_plugin(self) -> tuple[Vendor, ...]:
        """Vendors whose device plugin the platform installs."""
        wanted = self.facts.has_devices if self.device_plugins is None else self.device_plugins
        return self.vendors if wanted else ()

    def max_gpus(self, vendor: Vendor) -> int:
        """GPUs of one vendor when all its pools are at their largest."""
        pools = (pool for pool in self.node_pools.values() if pool.vendor is vendor)
        return sum(pool.max_size * pool.instance.num_gpus for pool in pools)

    @property
    def max_vcpus(self) -> int:
        """Of all pools at their largest."""
        return self._at_largest(lambda instance: instance.vcpus)

    @property
    def max_memory_mib(self) -> int:
        """Of all pools at their largest."""
        return self._at_largest(lambda instance: instance.memory_mib)

    @property
    def max_pods(self) -> int:
        """Of all pools at their largest."""
        return self._at_largest(lambda instance: instance.max_pods)

    def _at_largest(self, count: Callable[[InstanceType], int]) -> int:
        return sum(pool.max_size * count(pool.instance) for pool in self.node_pools.values())

    @classmethod
    def load(cls) -> Self:
        """The running program's configuration, as the engine gives it."""
        config = pulumi.Config(PROJECT)
        keys = {**pulumi.runtime.get_config_env(), **pulumi.runtime.config.CONFIG.get()}
        prefix = f"{PROJECT}:"
        given = [key.removeprefix(prefix) for key in keys if key.startswith(prefix)]
        # pulumi.Config.get knows more sources than these two, so every known key is asked for.
        known = [name for name in cls.model_fields if name != "stack"]
        texts = {name: config.get(name) for name in (*known, *given)}
        values = {name: _decoded(text) for name, text in texts.items() if text is not None}
        return cls.parse(pulumi.get_stack(), values)

    @classmethod
    def from_file(cls, path: Path, *, sizes: Mapping[str, int] | None = None) -> Self:
        """The configuration in a stack file, without an engine.

        `sizes` replaces pools' `size`: pool name -> nodes. Raises ConfigError.
        """
        texts = read_stack_file(path, sizes=sizes)
        return cls.parse(stack_name(path), {name: _decoded(text) for name, text in texts.items()})

    @classmethod
    def parse(cls, stack: str, values: Mapping[str, Any]) -> Self:
        """Checks a stack's values as a whole. Raises ConfigError with one sentence."""
        file = f"Pulumi.{stack}.yaml"
        if "stack" in values:  # it is in the file's name
            msg = f"{file}, {PROJECT}:stack: unknown key; valid keys are {_valid_keys(())}."
            raise ConfigError(msg)
        try:
            return cls.model_validate({**values, "stack": stack})
        except ValidationError as error:
            raise ConfigError(_sentence(file, error)) from error


def stack_name(path: Path) -> str:
    """The stack whose file this is."""
    return path.name.removeprefix("Pulumi.").removesuffix(".yaml")


def read_stack_file(path: Path, *, sizes: Mapping[str, int] | None = None) -> dict[str, str]:
    """A stack file's `config:` as the engine gives it to the program: key -> text.

    Keys come without the project's prefix; other projects' keys are left out; lists and mappings
    are JSON. `sizes` replaces pools' `size`. Raises ConfigError.
    """
    config = _read_yaml(path)
    values: dict[str, Any] = {}
    for key, value in config.items():
        namespace, separator, name = str(key).partition(":")
        if not separator:
            msg = f"{path.name}: key {key!r} has no namespace; write `{PROJECT}:{key}`."
            raise ConfigError(msg)
        if namespace == PROJECT:
            values[name] = value
    pools = values.get("node_pools")
    for pool, size in (sizes or {}).items():
        if not isinstance(pools, dict) or not isinstance(pools.get(pool), dict):
            known = ", ".join(map(str, pools)) if isinstance(pools, dict) else "none"
            msg = f"{path.name} has no node pool {pool!r}; its pools are: {known}."
            raise ConfigError(msg)
        pools[pool] = {**pools[pool], "size": size}  # an anchor may stand for several pools
    try:
        return {name: _encoded(value) for name, value in values.items()}
    except (TypeError, ValueError, RecursionError) as error:
        msg = f"{path.name} has a value that JSON cannot hold: {error}; use plain YAML."
        raise ConfigError(msg) from error


def _read_yaml(path: Path) -> dict[Any, Any]:
    """The `config:` mapping of a stack file."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        msg = f"{path} does not exist; name a stack that has a Pulumi.<stack>.yaml."
        raise ConfigError(msg) from error
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}; check the file and its rights."
        raise ConfigError(msg) from error
    # PyYAML lets the errors of its constructors out, for `!!bool x` or a 31st of February.
    except (
        yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError
    ) as error:  # fmt: skip
        msg = f"{path.name} is not YAML: {_one_line(str(error))}."
        raise ConfigError(msg) from error
    config = document.get("config") if isinstance(document, dict) else None
    if not isinstance(config, dict):
        msg = f"{path.name} has no `config:` mapping; see Pulumi.example.yaml for one."
        raise ConfigError(msg)
    return config


def _encoded(value: Any) -> str:
    """One value of a stack file as the engine passes it on."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _decoded(text: str) -> Any:
    """The reverse: lists and mappings are JSON, a scalar is the text itself."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, list | dict) or value is None else text


def _one_line(text: str) -> str:
    """ASCII without line breaks, cut where it gets long."""
    line = " ".join(text.split()).encode("ascii", "backslashreplace").decode()
    return line if len(line) <= 200 else f"{line[:200]}..."


def _sentence(file: str, error: ValidationError) -> str:
    """The first problem as where, what, allowed; the number of all at the end."""
    problems = error.errors(include_url=False)
    first = problems[0]
    path = _one_line(".".join(str(part) for part in first["loc"]))
    where = f"{file}, {PROJECT}:{path}" if path else file
    match first["type"]:
        case "extra_forbidden":
            what = f"unknown key; valid keys are {_valid_keys(first['loc'][:-1])}"
        case "missing":
            what = "is missing; add it"
        case "value_error":
            what = str(first["ctx"]["error"])
        case _:
            message = first["msg"][0].lower() + first["msg"][1:]
            what = f"{message}, got {_one_line(repr(first['input']))}"
    others = f" (the first of {len(problems)} problems)" if len(problems) > 1 else ""
    return f"{where}: {what}{others}."


def _valid_keys(path: tuple[int | str, ...]) -> str:
    """The keys that are valid where `path` leads."""
    match path:
        case ():
            model: type[Part] = StackConfig
        case ("node_pools", *_):
            model = NodePool
        case ("aws", "budget"):
            model = BudgetConfig
        case ("aws",):
            model = AwsConfig
        case _:
            model = LocalConfig
    return ", ".join(sorted(name for name in model.model_fields if name != "stack"))
