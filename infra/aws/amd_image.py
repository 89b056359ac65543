"""The machine image of AMD nodes: EC2 Image Builder makes it from Canonical's image for EKS.

EKS has no image with AMD's driver. What runs inside is in amd_image_document.py; nodes take the
image by its id in the stack file, and docs/how-to/amd-node-image.md says how to get there.
"""

import json
from typing import Any, Final

import pulumi
import pulumi_aws as aws

from infra import versions
from infra.accelerators import ACCELERATORS, Accelerator, Vendor
from infra.aws import iam
from infra.aws.amd_image_document import (
    RENDER_GID,
    VIDEO_GID,
    component_document,
    read_scripts,
    semantic_version,
)
from infra.aws.amd_image_machine import AmdImageMachine
from infra.aws.config import AwsConfig
from infra.component import Component
from infra.config import StackConfig
from infra.names import LABEL_PREFIX, LABEL_VENDOR

ROOT_GIB: Final = 50
"""The image's disk: the least that a pool's `disk_gib` may be, which then only ever grows it."""
ROOT_DEVICE: Final = "/dev/sda1"
KEPT_IMAGES: Final = 3
IN_USE_MONTHS: Final = 3
"""An image that a node was launched from within these is kept besides, however old it is."""
TEST_TIMEOUT_MINUTES: Final = 60  # the shortest that Image Builder takes


def parent_image() -> str:
    """Canonical's image in the words of a recipe."""
    path = f"{versions.KUBERNETES_MINOR}/stable/{versions.UBUNTU_EKS_SERIAL}/amd64/hvm/ebs-gp3"
    return f"ssm:{versions.UBUNTU_EKS_IMAGES}/{path}/ami-id"


def parameter_name(full_name: str) -> str:
    """The Systems Manager parameter that holds the newest image's id.

    Image Builder's own role may write below /imagebuilder/ and nowhere else (managed policy
    AWSServiceRoleForImageBuilder); any other name would need a role with all of its permissions.
    """
    return f"/imagebuilder/{full_name}/amd-image"


def image_tags(full_name: str, accelerator: Accelerator) -> dict[str, str]:
    """Tags of the image; the groups are what pods need as `supplementalGroups`."""
    return {
        "Name": f"{full_name}-amd-node",
        LABEL_VENDOR: accelerator.vendor.value,
        f"{LABEL_PREFIX}/kubernetes": versions.KUBERNETES_MINOR,
        f"{LABEL_PREFIX}/render-gid": str(RENDER_GID),
        f"{LABEL_PREFIX}/video-gid": str(VIDEO_GID),
    }


def recipe_arguments(
    component_arn: pulumi.Input[str], key_arn: pulumi.Input[str] | None, tags: dict[str, str]
) -> dict[str, Any]:
    """Everything of the recipe that may not change under its version."""
    return {
        "parent_image": parent_image(),
        "components": [{"component_arn": component_arn}],
        "block_device_mappings": [_root_disk(key_arn)],
        # It is in Canonical's image, and the one way into a node without SSH.
        "systems_manager_agent": {"uninstall_after_build": False},
        "ami_tags": tags,
    }


def _root_disk(key_arn: pulumi.Input[str] | None) -> dict[str, Any]:
    ebs: dict[str, Any] = {
        "volume_size": ROOT_GIB,
        "volume_type": "gp3",
        "encrypted": "true",  # a text in this API
        "delete_on_termination": "true",
    }
    if key_arn is not None:
        ebs["kms_key_id"] = key_arn
    return {"device_name": ROOT_DEVICE, "ebs": ebs}


def retention() -> aws.imagebuilder.LifecyclePolicyPolicyDetailArgsDict:
    """A lifecycle policy's rule: the newest images stay, and those that nodes came from lately."""
    return {
        "action": {"type": "DELETE", "include_resources": {"amis": True, "snapshots": True}},
        "filter": {"type": "COUNT", "value": KEPT_IMAGES},
        "exclusion_rules": {"amis": {"last_launched": {"unit": "MONTHS", "value": IN_USE_MONTHS}}},
    }


class AmdImagePipeline(Component):
    """The pipeline; `aws imagebuilder start-image-pipeline-execution` runs it."""

    pipeline_arn: pulumi.Output[str]
    parameter_name: str
    """Where the newest image's id is, after the first run."""

    def __init__(
        self,
        name: str,
        config: StackConfig,
        *,
        vpc_id: pulumi.Input[str],
        subnet_id: pulumi.Input[str],
        disks_key_arn: pulumi.Input[str] | None = None,
        log_bucket: pulumi.Input[str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`subnet_id` has a way to the Internet, in a zone with the GPUs' instance types.

        `disks_key_arn` encrypts the image, None with the account's own key; its policy has to let
        IAM decide. `log_bucket` gets the logs besides CloudWatch.
        """
        super().__init__("aws:AmdImagePipeline", name, opts)
        full_name = f"{config.full_name}-amd-node"
        accelerator = ACCELERATORS[Vendor.AMD]
        tags = image_tags(config.full_name, accelerator)
        self.parameter_name = parameter_name(config.full_name)
        recipe = self._recipe(name, full_name, accelerator, tags, disks_key_arn)
        machine = AmdImageMachine(
            f"{name}-machine",
            full_name=full_name,
            accelerator=accelerator,
            vpc_id=vpc_id,
            subnet_id=subnet_id,
            log_bucket=log_bucket,
            opts=self._opts(),
        )
        pipeline = aws.imagebuilder.ImagePipeline(
            f"{name}-pipeline",
            name=full_name,
            image_recipe_arn=recipe.arn,
            infrastructure_configuration_arn=machine.configuration_arn,
            distribution_configuration_arn=self._distribution(
                name, full_name, config.cloud, tags
            ).arn,
            # No schedule: nodes take an image by its id in the stack file, so one that nobody
            # asked for would cost a GPU's hour and be used by none.
            image_tests_configuration=aws.imagebuilder.ImagePipelineImageTestsConfigurationArgs(
                image_tests_enabled=True, timeout_minutes=TEST_TIMEOUT_MINUTES
            ),
            tags={"Name": full_name},
            opts=self._opts(),
        )
        self._retention(name, full_name, recipe)
        self.pipeline_arn = pipeline.arn
        self.register_outputs({"pipeline_arn": self.pipeline_arn})

    def _recipe(
        self,
        name: str,
        full_name: str,
        accelerator: Accelerator,
        tags: dict[str, str],
        key_arn: pulumi.Input[str] | None,
    ) -> aws.imagebuilder.ImageRecipe:
        """Component and recipe are made anew when they change; the pipeline is updated in place."""
        document = component_document(accelerator, read_scripts())
        component = aws.imagebuilder.Component(
            f"{name}-component",
            # No name, so Pulumi makes one up: old components stay, because images refer to them,
            # and going back to an earlier content must not collide with one.
            platform="Linux",
            version=semantic_version(document),
            data=document,
            skip_destroy=True,
            tags={"Name": full_name},
            opts=self._opts(),
        )
        arguments = pulumi.Output.all(component.arn, key_arn)
        return aws.imagebuilder.ImageRecipe(
            f"{name}-recipe",
            name=full_name,  # the lifecycle policy finds images by it
            version=arguments.apply(
                lambda known: semantic_version(
                    json.dumps(recipe_arguments(known[0], known[1], tags))
                )
            ),
            **recipe_arguments(component.arn, key_arn, tags),
            tags={"Name": full_name},
            opts=pulumi.ResourceOptions.merge(
                self._opts(),
                # AWS deletes no recipe that a pipeline still names, so the new one comes first;
                # with a name of ours Pulumi would do it the other way round. The versions differ.
                pulumi.ResourceOptions(delete_before_replace=False),
            ),
        )

    def _distribution(
        self, name: str, full_name: str, cloud: AwsConfig, tags: dict[str, str]
    ) -> aws.imagebuilder.DistributionConfiguration:
        return aws.imagebuilder.DistributionConfiguration(
            f"{name}-distribution",
            distributions=[
                {
                    "region": cloud.region,
                    "ami_distribution_configuration": {
                        "name": f"{full_name}-{{{{ imagebuilder:buildDate }}}}",
                        "description": f"AMD nodes of {full_name}",
                        "ami_tags": tags,
                    },
                    "ssm_parameter_configurations": [
                        {"parameter_name": self.parameter_name, "data_type": "aws:ec2:image"}
                    ],
                }
            ],
            tags={"Name": full_name},
            opts=self._opts(),
        )

    def _retention(self, name: str, full_name: str, recipe: aws.imagebuilder.ImageRecipe) -> None:
        role = iam.role(
            f"{name}-lifecycle",
            service="imagebuilder.amazonaws.com",
            managed=["service-role/EC2ImageBuilderLifecycleExecutionPolicy"],
            opts=self._opts(),
        )
        aws.imagebuilder.LifecyclePolicy(
            f"{name}-retention",
            resource_type="AMI_IMAGE",
            execution_role=role.arn,
            resource_selection=aws.imagebuilder.LifecyclePolicyResourceSelectionArgs(
                recipes=[
                    aws.imagebuilder.LifecyclePolicyResourceSelectionRecipeArgs(
                        name=recipe.name,
                        semantic_version="x.x.x",  # any
                    )
                ]
            ),
            policy_details=[retention()],
            tags={"Name": full_name},
            opts=self._opts(),
        )
