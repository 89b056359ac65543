"""Which addresses of the VPC every zone gets. Pure; network.py makes subnets of them.

A zone's place follows from its own number, so no other zone, and no order, ever moves a subnet.
"""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Final

_NODES: Final = 20
"""4096 addresses: a node of 110 pods takes seven blocks of 16, which have to be contiguous."""
_PUBLIC: Final = 24
_CONTROL_PLANE: Final = 28
"""EKS asks for 6 free addresses and advises 16 (its network requirements)."""
_LAST_ZONE: Final = 7
"""A /17 has eight /20: the first is cut up for the small subnets, seven are for nodes."""


@dataclass(frozen=True, kw_only=True)
class ZoneAddresses:
    """One zone's ranges."""

    public: IPv4Network
    """A /24 for the NAT gateway."""
    control_plane: IPv4Network
    """A /28 for EKS's network interfaces."""
    nodes: IPv4Network
    """A /20 for nodes and pods."""


def address_plan(vpc: IPv4Network, zone_ids: Iterable[str]) -> dict[str, ZoneAddresses]:
    """Every zone's ranges in a VPC of /16 or /17: zone id -> ranges.

    Raises ValueError for a zone without a place.
    """
    return {zone_id: _zone(vpc, zone_id) for zone_id in zone_ids}


def _zone(vpc: IPv4Network, zone_id: str) -> ZoneAddresses:
    number = int(re.sub(r".*-az", "", zone_id))  # AwsConfig has checked how an id looks
    if not 1 <= number <= _LAST_ZONE:
        msg = (
            f"zone_ids: {zone_id} has no place in {vpc}; "
            f"there is room for the zones az1 to az{_LAST_ZONE}."
        )
        raise ValueError(msg)
    small = _part(vpc, _NODES, 0)
    # Of its sixteen /24, 1 to 7 are the public subnets, and 8 is for the control plane.
    return ZoneAddresses(
        public=_part(small, _PUBLIC, number),
        control_plane=_part(_part(small, _PUBLIC, 8), _CONTROL_PLANE, number),
        nodes=_part(vpc, _NODES, number),
    )


def _part(whole: IPv4Network, prefix_length: int, index: int) -> IPv4Network:
    """The index-th range of that length, counted from 0."""
    size = 2 ** (whole.max_prefixlen - prefix_length)
    return ipaddress.IPv4Network((whole[index * size], prefix_length))
