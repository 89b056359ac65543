"""Availability zones that offer both GPU families, by zone id; letters differ per account.

Figures are a public catalogue's (2026, undated): a region that is not here may offer them as well,
and `aws ec2 describe-instance-type-offerings --location-type availability-zone-id` tells.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

ZONES_WITH_BOTH: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "us-east-1": ("use1-az1", "use1-az2", "use1-az4", "use1-az6"),
        "us-east-2": ("use2-az1", "use2-az2", "use2-az3"),
        "us-west-2": ("usw2-az1", "usw2-az2", "usw2-az3"),
        "ca-central-1": ("cac1-az1", "cac1-az2"),
        "eu-west-1": ("euw1-az1", "euw1-az2", "euw1-az3"),
        "eu-west-2": ("euw2-az1", "euw2-az2"),
        "eu-central-1": ("euc1-az2", "euc1-az3"),
        "ap-northeast-1": ("apne1-az1", "apne1-az2", "apne1-az4"),
    }
)
"""Region -> zones in which both g4dn and g4ad are offered."""

CONTROL_PLANE_REFUSES: Final = ("use1-az3", "usw1-az2", "cac1-az3")
"""EKS puts no control plane there (its network requirements name them)."""
