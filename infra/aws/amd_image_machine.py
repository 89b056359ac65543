"""The machine that Image Builder builds and tests on: what it may do, and whom it reaches."""

from typing import Final

import pulumi
import pulumi_aws as aws

from infra.accelerators import Accelerator, Vendor
from infra.aws import iam
from infra.aws.config import ANYWHERE
from infra.component import Component
from infra.instances import INSTANCE_TYPES

LOG_PREFIX: Final = "image-builder"
"""Where the logs are in their bucket."""


def smallest_instance_type(vendor: Vendor) -> str:
    """The cheapest machine that has the vendor's GPU: only one with it can test the driver."""
    rows = [row for row in INSTANCE_TYPES.values() if row.vendor is vendor]
    return min(rows, key=lambda row: row.usd_per_hour).name


def may_write_logs(bucket: str) -> str:
    """The policy of an instance whose logs go to a bucket."""
    return iam.document(
        iam.Statement(
            sid="WriteLogs",
            actions=["s3:PutObject"],
            resources=[f"arn:aws:s3:::{bucket}/{LOG_PREFIX}/*"],
        )
    )


class AmdImageMachine(Component):
    """An infrastructure configuration: out by HTTPS, in by nothing, no key pair."""

    configuration_arn: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        full_name: str,
        accelerator: Accelerator,
        vpc_id: pulumi.Input[str],
        subnet_id: pulumi.Input[str],
        log_bucket: pulumi.Input[str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("aws:AmdImageMachine", name, opts)
        group = aws.ec2.SecurityGroup(
            f"{name}-group",
            vpc_id=vpc_id,
            description="Instances of Image Builder: HTTPS out, nothing in",
            tags={"Name": full_name},
            opts=self._opts(),
        )
        https = aws.vpc.SecurityGroupEgressRule(
            f"{name}-https",
            security_group_id=group.id,
            description="Services of AWS and archives of packages",
            cidr_ipv4=str(ANYWHERE),  # none of them has fixed addresses
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
            opts=self._opts(),
        )
        profile = self._profile(name, log_bucket)
        configuration = aws.imagebuilder.InfrastructureConfiguration(
            f"{name}-configuration",
            instance_profile_name=profile.name,
            instance_types=[smallest_instance_type(accelerator.vendor)],
            subnet_id=subnet_id,
            security_group_ids=[group.id],
            instance_metadata_options=(
                aws.imagebuilder.InfrastructureConfigurationInstanceMetadataOptionsArgs(
                    http_tokens="required", http_put_response_hop_limit=1
                )
            ),
            # One that failed costs as much as one that runs; its log stays in CloudWatch.
            terminate_instance_on_failure=True,
            logging=None if log_bucket is None else _logging(log_bucket),
            resource_tags={"Name": f"{full_name}-build"},
            tags={"Name": full_name},
            opts=self._opts(after=[https]),
        )
        self.configuration_arn = configuration.arn
        self.register_outputs({"configuration_arn": self.configuration_arn})

    def _profile(self, name: str, log_bucket: pulumi.Input[str] | None) -> aws.iam.InstanceProfile:
        policy = None
        if log_bucket is not None:
            policy = pulumi.Output.from_input(log_bucket).apply(may_write_logs)
        role = iam.role(
            f"{name}-role",
            service="ec2.amazonaws.com",
            managed=["AmazonSSMManagedInstanceCore", "EC2InstanceProfileForImageBuilder"],
            policy=policy,
            opts=self._opts(),
        )
        return aws.iam.InstanceProfile(f"{name}-profile", role=role.name, opts=self._opts())


def _logging(
    bucket: pulumi.Input[str],
) -> aws.imagebuilder.InfrastructureConfigurationLoggingArgs:
    return aws.imagebuilder.InfrastructureConfigurationLoggingArgs(
        s3_logs=aws.imagebuilder.InfrastructureConfigurationLoggingS3LogsArgs(
            s3_bucket_name=bucket, s3_key_prefix=LOG_PREFIX
        )
    )
