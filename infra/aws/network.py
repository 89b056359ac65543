"""The VPC: who may talk to whom in it, and what has to be there before a node.

Its subnets and routes are in subnets.py, the ways to AWS's services in endpoints.py.
"""

import pulumi
import pulumi_aws as aws

from infra.aws.config import ANYWHERE
from infra.aws.endpoints import Endpoints
from infra.aws.flow_logs import FlowLogs
from infra.aws.subnets import Subnets
from infra.component import Component
from infra.config import StackConfig


class Network(Component):
    """One VPC with private nodes in every zone; the GPUs are in one of them."""

    vpc_id: pulumi.Output[str]
    control_plane_subnet_ids: list[pulumi.Output[str]]
    """For EKS's network interfaces, one per zone."""
    node_subnet_ids: dict[str, pulumi.Output[str]]
    """Zone id -> its private subnet."""
    gpu_subnet_id: pulumi.Output[str]
    node_security_group_id: pulumi.Output[str]
    """Lets nodes of all pools talk on all ports; goes beside EKS's cluster security group."""
    endpoints: list[pulumi.Resource]
    """What has to exist before a node can join: routes, endpoints, rules."""

    def __init__(
        self,
        name: str,
        config: StackConfig,
        *,
        logs_key_arn: pulumi.Input[str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`logs_key_arn` is the KMS key of the flow logs."""
        super().__init__("aws:Network", name, opts)
        cloud, full_name = config.cloud, config.full_name
        vpc = aws.ec2.Vpc(
            f"{name}-vpc",
            cidr_block=str(cloud.vpc_cidr),
            enable_dns_support=True,
            # EKS's private endpoint and the interface endpoints are found by name.
            enable_dns_hostnames=True,
            tags={"Name": full_name},
            opts=self._opts(),
        )
        self.vpc_id = vpc.id
        # AWS puts whatever names no group into this one, and opens it; the provider takes every
        # rule away that is not written here.
        aws.ec2.DefaultSecurityGroup(
            f"{name}-default",
            vpc_id=vpc.id,
            tags={"Name": f"{full_name}-default-closed"},
            opts=self._opts(),
        )
        FlowLogs(
            f"{name}-flow-logs",
            cloud,
            full_name=full_name,
            vpc_id=vpc.id,
            key_arn=logs_key_arn,
            opts=self._opts(),
        )
        subnets = Subnets(
            f"{name}-subnets", cloud, full_name=full_name, vpc_id=vpc.id, opts=self._opts()
        )
        self.control_plane_subnet_ids = subnets.control_plane_ids
        self.node_subnet_ids = subnets.node_ids
        self.gpu_subnet_id = subnets.node_ids[cloud.gpu_zone_id]
        endpoints = Endpoints(
            f"{name}-endpoints",
            cloud,
            full_name=full_name,
            vpc_id=vpc.id,
            subnet_ids=list(subnets.node_ids.values()),
            route_table_ids=subnets.route_table_ids,
            opts=self._opts(),
        )
        group = aws.ec2.SecurityGroup(
            f"{name}-nodes",
            vpc_id=vpc.id,
            description="Nodes of all pools, to each other",
            tags={"Name": f"{full_name}-nodes"},
            opts=self._opts(),
        )
        self.node_security_group_id = group.id
        self.endpoints = [*subnets.ready, *endpoints.ready, *self._node_rules(name, group)]
        self.register_outputs({"vpc_id": self.vpc_id})

    def _node_rules(self, name: str, group: aws.ec2.SecurityGroup) -> list[pulumi.Resource]:
        """Nodes are open to nodes, because jobs pick their ports as they like; to nobody else."""
        return [
            aws.vpc.SecurityGroupIngressRule(
                f"{name}-nodes-from-nodes",
                security_group_id=group.id,
                referenced_security_group_id=group.id,
                ip_protocol="-1",
                description="All traffic between nodes",
                opts=self._opts(),
            ),
            aws.vpc.SecurityGroupEgressRule(
                f"{name}-nodes-to-anywhere",
                security_group_id=group.id,
                # Registries and AWS's services have no fixed addresses; routes are the limit.
                cidr_ipv4=str(ANYWHERE),
                ip_protocol="-1",
                description="Wherever a route leads",
                opts=self._opts(),
            ),
        ]
