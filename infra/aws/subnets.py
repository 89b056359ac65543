"""Subnets of every zone and the ways out of them: route tables, NAT gateways, default routes."""

from ipaddress import IPv4Network

import pulumi
import pulumi_aws as aws

from infra.aws.addresses import address_plan
from infra.aws.config import ANYWHERE, AwsConfig
from infra.component import Component


def nat_zones(cloud: AwsConfig) -> dict[str, str]:
    """Through which zone's NAT gateway each zone reaches the Internet: zone id -> zone id.

    A protected stack has one in every zone, so that a lost zone takes no other along. Otherwise
    one is enough, where most of the traffic is: an image for GPUs has several GiB.
    """
    if not cloud.nat:
        return {}
    return {zone: zone if cloud.is_protected else cloud.gpu_zone_id for zone in cloud.zone_ids}


class Subnets(Component):
    """Private subnets, and where the stack wants the Internet, what leads there."""

    control_plane_ids: list[pulumi.Output[str]]
    """One per zone."""
    node_ids: dict[str, pulumi.Output[str]]
    """Zone id -> the private subnet of its nodes."""
    route_table_ids: list[pulumi.Output[str]]
    """Of the private subnets, one per zone."""
    ready: list[pulumi.Resource]
    """What has to exist before a packet gets out."""

    def __init__(
        self,
        name: str,
        cloud: AwsConfig,
        *,
        full_name: str,
        vpc_id: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Raises ValueError for a zone that has no place in the VPC."""
        super().__init__("aws:Subnets", name, opts)
        self._name, self._full_name, self._vpc_id = name, full_name, vpc_id
        self.control_plane_ids, self.node_ids, self.ready = [], {}, []
        plan = address_plan(cloud.vpc_cidr, cloud.zone_ids)
        tables: dict[str, aws.ec2.RouteTable] = {}
        for zone, addresses in plan.items():
            tables[zone] = self._route_table(f"private-{zone}")
            # EKS's interfaces answer inside the VPC only; they need no table of their own.
            control_plane = self._subnet("control-plane", zone, addresses.control_plane)
            nodes = self._subnet("nodes", zone, addresses.nodes, role="internal-elb")
            self._associate(f"control-plane-{zone}", control_plane, tables[zone])
            self._associate(f"nodes-{zone}", nodes, tables[zone])
            self.control_plane_ids.append(control_plane.id)
            self.node_ids[zone] = nodes.id
        self.route_table_ids = [table.id for table in tables.values()]
        if cloud.nat:
            public = {zone: addresses.public for zone, addresses in plan.items()}
            gateways = self._nat_gateways(public, set(nat_zones(cloud).values()))
            for zone, through in nat_zones(cloud).items():
                gateway_id = gateways[through].id
                self._default_route(f"private-{zone}", tables[zone], nat_gateway_id=gateway_id)
        self.register_outputs({})

    def _nat_gateways(
        self, public: dict[str, IPv4Network], zones: set[str]
    ) -> dict[str, aws.ec2.NatGateway]:
        """Public subnets in every zone, and gateways in `zones`: zone id -> gateway."""
        internet = aws.ec2.InternetGateway(
            f"{self._name}-internet",
            vpc_id=self._vpc_id,
            tags=self._named("internet"),
            opts=self._opts(),
        )
        table = self._route_table("public")
        self._default_route("public", table, gateway_id=internet.id)
        gateways: dict[str, aws.ec2.NatGateway] = {}
        for zone, cidr in public.items():
            subnet = self._subnet("public", zone, cidr, role="elb")
            self._associate(f"public-{zone}", subnet, table)
            if zone in zones:
                gateways[zone] = self._nat_gateway(zone, subnet, internet)
        return gateways

    def _nat_gateway(
        self, zone: str, subnet: aws.ec2.Subnet, internet: aws.ec2.InternetGateway
    ) -> aws.ec2.NatGateway:
        # After the Internet gateway, so that on the way back AWS finds no public address left
        # when it detaches that.
        after_internet = self._opts(after=[internet])
        address = aws.ec2.Eip(
            f"{self._name}-nat-{zone}",
            domain="vpc",
            tags=self._named(f"nat-{zone}"),
            opts=after_internet,
        )
        return aws.ec2.NatGateway(
            f"{self._name}-nat-{zone}",
            subnet_id=subnet.id,
            allocation_id=address.id,
            tags=self._named(f"nat-{zone}"),
            opts=after_internet,
        )

    def _subnet(
        self, kind: str, zone: str, cidr: IPv4Network, *, role: str | None = None
    ) -> aws.ec2.Subnet:
        """`role` is which load balancers Kubernetes may put there."""
        roles = {} if role is None else {f"kubernetes.io/role/{role}": "1"}
        return aws.ec2.Subnet(
            f"{self._name}-{kind}-{zone}",
            vpc_id=self._vpc_id,
            availability_zone_id=zone,
            cidr_block=str(cidr),
            # Not in public ones either: a NAT gateway brings its own address.
            map_public_ip_on_launch=False,
            tags={**self._named(f"{kind}-{zone}"), **roles},
            opts=self._opts(),
        )

    def _route_table(self, what: str) -> aws.ec2.RouteTable:
        return aws.ec2.RouteTable(
            f"{self._name}-{what}",
            vpc_id=self._vpc_id,
            tags=self._named(what),
            opts=self._opts(),
        )

    def _associate(self, what: str, subnet: aws.ec2.Subnet, table: aws.ec2.RouteTable) -> None:
        made = aws.ec2.RouteTableAssociation(
            f"{self._name}-{what}",
            subnet_id=subnet.id,
            route_table_id=table.id,
            opts=self._opts(),
        )
        self.ready.append(made)

    def _default_route(
        self,
        what: str,
        table: aws.ec2.RouteTable,
        *,
        gateway_id: pulumi.Input[str] | None = None,
        nat_gateway_id: pulumi.Input[str] | None = None,
    ) -> None:
        made = aws.ec2.Route(
            f"{self._name}-{what}",
            route_table_id=table.id,
            destination_cidr_block=str(ANYWHERE),
            gateway_id=gateway_id,
            nat_gateway_id=nat_gateway_id,
            opts=self._opts(),
        )
        self.ready.append(made)

    def _named(self, what: str) -> dict[str, str]:
        """The name that AWS's console shows."""
        return {"Name": f"{self._full_name}-{what}"}
