"""AwsConfig: what a stack may choose about the cloud, with every default and every check."""

import ipaddress
import re
from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from infra.aws.zones import CONTROL_PLANE_REFUSES, ZONES_WITH_BOTH
from infra.config_parts import Count, Part, Switch

SERVICE_CIDR: Final = ipaddress.IPv4Network("172.20.0.0/16")
"""Of Kubernetes' services; EKS takes it where the VPC does not overlap it."""
MAX_PODS: Final = 110
"""Per node, with prefix delegation; without it g4ad.xlarge has room for 8 (its addresses)."""
ANYWHERE: Final = ipaddress.IPv4Network("0.0.0.0/0")
NOT_PUBLIC: Final = tuple(
    ipaddress.IPv4Network(text)
    for text in (
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
    )
)
"""Addresses that no packet from the Internet carries."""

RoleArn = Annotated[str, Field(pattern=r"^arn:aws:iam::\d{12}:(role|user)/[A-Za-z0-9_+=,.@/-]+$")]
Region = Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z]+)+-\d$")]
ZoneId = Annotated[str, Field(pattern=r"^[a-z]{2,5}\d-az\d$")]
Email = Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$")]


class BudgetConfig(Part):
    """When somebody is told about the money, and when new GPUs are refused."""

    usd_per_month: Count = Field(ge=1, le=1_000_000)
    emails: list[Email] = Field(min_length=1, max_length=10)
    stop_at_percent: Count = Field(default=120, ge=100, le=1000)
    """Of the month's budget: from there on no GPU node is started."""


class AwsConfig(Part):
    """One account's region, and how the cluster sits in it."""

    account_id: Annotated[str, Field(pattern=r"^\d{12}$")]
    """Twelve digits in quotes. Any other account is refused before anything is made."""
    region: Region
    zone_ids: list[ZoneId] = Field(min_length=2, max_length=4)
    """Zones of the control plane and of pools without GPUs, by id: `use1-az1`."""
    gpu_zone_id: ZoneId
    """The one zone of all GPU pools: traffic between zones costs more than the machines."""
    vpc_cidr: ipaddress.IPv4Network = ipaddress.IPv4Network("10.64.0.0/16")
    administrators: list[RoleArn] = Field(min_length=1, max_length=20)
    """Roles or users that administer the cluster; the one that runs `pulumi up` is among them."""
    public_access_cidrs: list[ipaddress.IPv4Network] = Field(default=[], max_length=40)
    """From where the API server's public endpoint answers; empty: there is none."""
    nat: Switch = True
    """Whether nodes reach the Internet. Without it, `interface_endpoints` has to be true."""
    interface_endpoints: Switch = False
    """Whether AWS's own services are reached inside the VPC; costs per hour, zone and service."""
    placement_group: Switch = False
    """Whether GPU nodes share a cluster placement group: faster, and harder to get."""
    is_protected: Switch = False
    """Whether data and cluster resist deletion; for stacks that people depend on."""
    amd_image_id: Annotated[str, Field(pattern=r"^ami-[0-9a-f]{8}([0-9a-f]{9})?$")] | None = None
    """Image of AMD nodes, which the image pipeline makes: EKS has none with AMD's driver."""
    budget: BudgetConfig | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_zones()
        self._check_vpc()
        self._check_access()
        return self

    def _check_zones(self) -> None:
        if len(set(self.zone_ids)) != len(self.zone_ids):
            msg = f"zone_ids {', '.join(self.zone_ids)} has one twice; name different zones"
            raise ValueError(msg)
        if self.gpu_zone_id not in self.zone_ids:
            msg = (
                f"gpu_zone_id {self.gpu_zone_id!r} is not in zone_ids; "
                f"use one of {', '.join(self.zone_ids)}"
            )
            raise ValueError(msg)
        for zone in self.zone_ids:
            if zone in CONTROL_PLANE_REFUSES:
                msg = f"zone_ids has {zone}, where EKS puts no control plane; use another zone"
                raise ValueError(msg)
        known = ZONES_WITH_BOTH.get(self.region)
        if known is not None and self.gpu_zone_id not in known:
            msg = (
                f"gpu_zone_id {self.gpu_zone_id!r} does not offer the GPUs of both vendors; "
                f"in {self.region} use one of {', '.join(known)}"
            )
            raise ValueError(msg)
        prefixes = {re.sub(r"-az\d$", "", zone) for zone in self.zone_ids}
        if len(prefixes) != 1 or (known and not known[0].startswith(f"{min(prefixes)}-")):
            msg = (
                f"zone_ids {', '.join(self.zone_ids)} are not all of {self.region}; "
                "see `aws ec2 describe-availability-zones` for its ids"
            )
            raise ValueError(msg)

    def _check_vpc(self) -> None:
        # AWS takes /16 to /28; node subnets of /20 for up to four zones need a /17 at least.
        if not 16 <= self.vpc_cidr.prefixlen <= 17:
            msg = f"vpc_cidr {self.vpc_cidr} is not a /16 or /17; nodes take prefixes of addresses"
            raise ValueError(msg)
        if not self.vpc_cidr.is_private:
            msg = f"vpc_cidr {self.vpc_cidr} is not private; use one of RFC 1918, 10.64.0.0/16 say"
            raise ValueError(msg)
        if self.vpc_cidr.overlaps(SERVICE_CIDR):
            msg = f"vpc_cidr {self.vpc_cidr} overlaps the services' {SERVICE_CIDR}; choose another"
            raise ValueError(msg)
        if self.vpc_cidr.overlaps(ipaddress.IPv4Network("172.17.0.0/16")):
            msg = f"vpc_cidr {self.vpc_cidr} overlaps 172.17.0.0/16, which EKS' images may use"
            raise ValueError(msg)

    def _check_access(self) -> None:
        if ANYWHERE in self.public_access_cidrs:
            msg = "public_access_cidrs has 0.0.0.0/0, which is everybody; name your own addresses"
            raise ValueError(msg)
        for cidr in self.public_access_cidrs:
            if any(cidr.overlaps(other) for other in NOT_PUBLIC):
                msg = (
                    f"public_access_cidrs has {cidr}, which is not a public address; "
                    "name the addresses that the Internet sees"
                )
                raise ValueError(msg)
        for arn in self.administrators:
            if arn.split(":")[4] != self.account_id:
                msg = (
                    f"administrators has {arn}, which is not of account {self.account_id}; "
                    "name roles of that account"
                )
                raise ValueError(msg)
        if len(set(self.administrators)) != len(self.administrators):
            msg = "administrators names somebody twice; EKS takes one access entry for each"
            raise ValueError(msg)
        if not self.nat and not self.interface_endpoints:
            msg = "nat is false and interface_endpoints is false, so no node could join; set one"
            raise ValueError(msg)
