"""The ways from the VPC to AWS's own services that do not lead through the Internet."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import pulumi
import pulumi_aws as aws

from infra.aws.config import AwsConfig
from infra.component import Component

INTERFACE_SERVICES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ec2": "nodes ask for their own name, the CNI for addresses, the CSI driver for volumes",
        "ecr.api": "the kubelet asks for a registry password",
        "ecr.dkr": "images; their layers come from S3",
        "eks": "nodes look their cluster up, the autoscaler node groups that never had a node",
        "eks-auth": "the Pod Identity agent fetches pods' credentials",
        "sts": "who am I, and roles that are taken without Pod Identity",
        "logs": "whatever ships logs of nodes and pods to CloudWatch",
        "autoscaling": "the cluster autoscaler",
    }
)
"""AWS service -> who asks it (EKS's page on private clusters lists them).

Not here: elasticloadbalancing, because nothing makes load balancers (the quota has none either);
ssm, because no node needs it to join, and the image pipeline, which does, needs the Internet for
its packages anyway; kms, because EBS, S3 and EKS call it themselves.
"""


def service_name(region: str, service: str) -> str:
    """What PrivateLink calls a service."""
    return f"com.amazonaws.{region}.{service}"


class Endpoints(Component):
    """S3's gateway always; the other services' interfaces where the stack wants them."""

    ready: list[pulumi.Resource]
    """What has to exist before the services can be reached."""

    def __init__(
        self,
        name: str,
        cloud: AwsConfig,
        *,
        full_name: str,
        vpc_id: pulumi.Input[str],
        subnet_ids: Sequence[pulumi.Input[str]],
        route_table_ids: Sequence[pulumi.Input[str]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("aws:Endpoints", name, opts)
        self.ready = [
            # Free of charge. Its policy stays open: layers of images come from buckets of AWS's
            # own, whose names are not ours to list; who may read our bucket, its policy says.
            aws.ec2.VpcEndpoint(
                f"{name}-s3",
                vpc_id=vpc_id,
                service_name=service_name(cloud.region, "s3"),
                vpc_endpoint_type="Gateway",
                route_table_ids=route_table_ids,
                tags={"Name": f"{full_name}-s3"},
                opts=self._opts(),
            )
        ]
        if cloud.interface_endpoints:
            self.ready += self._interfaces(name, cloud, full_name, vpc_id, subnet_ids)
        self.register_outputs({})

    def _interfaces(
        self,
        name: str,
        cloud: AwsConfig,
        full_name: str,
        vpc_id: pulumi.Input[str],
        subnet_ids: Sequence[pulumi.Input[str]],
    ) -> list[pulumi.Resource]:
        group = aws.ec2.SecurityGroup(
            f"{name}-group",
            vpc_id=vpc_id,
            description="Interface endpoints: HTTPS from the VPC, nothing out",
            tags={"Name": f"{full_name}-endpoints"},
            opts=self._opts(),
        )
        rule = aws.vpc.SecurityGroupIngressRule(
            f"{name}-https",
            security_group_id=group.id,
            description="HTTPS from the VPC",
            cidr_ipv4=str(cloud.vpc_cidr),
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
            opts=self._opts(),
        )
        made = [
            aws.ec2.VpcEndpoint(
                f"{name}-{service.replace('.', '-')}",
                vpc_id=vpc_id,
                service_name=service_name(cloud.region, service),
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                subnet_ids=subnet_ids,
                security_group_ids=[group.id],
                tags={"Name": f"{full_name}-{service}"},
                opts=self._opts(),
            )
            for service in INTERFACE_SERVICES
        ]
        return [rule, *made]
