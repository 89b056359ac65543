import json
from collections.abc import Mapping
from typing import Any

import pulumi
import pytest

from infra import versions
from infra.accelerators import ACCELERATORS, Vendor
from infra.aws.amd_image import (
    AmdImagePipeline,
    image_tags,
    parameter_name,
    parent_image,
    recipe_arguments,
    retention,
)
from infra.aws.amd_image_document import component_document, read_scripts, semantic_version
from infra.config import NodePool
from infra.recording import Resource
from tests.builders import an_aws_stack
from tests.conftest import Deploy

ROW = ACCELERATORS[Vendor.AMD]
DOCUMENT = component_document(ROW, read_scripts())


def pipeline(deploy: Deploy, **changes: Any) -> Mapping[str, Resource]:
    arguments = {"vpc_id": "vpc-1", "subnet_id": "subnet-1", **changes}
    recording = deploy(lambda: AmdImagePipeline("amd", an_aws_stack(), **arguments))
    return {resource.name: resource for resource in recording.resources}


@pytest.fixture
def aws_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resources get ARNs, as AWS gives them: without, what refers to one is recorded as nothing."""

    def new_resource(
        _self: object, args: pulumi.runtime.MockResourceArgs
    ) -> tuple[str | None, dict[str, Any]]:
        return f"{args.name}-id", {"arn": f"arn:{args.name}", **args.inputs}

    monkeypatch.setattr("infra.recording._NoProvider.new_resource", new_resource)


def recipe_version(deploy: Deploy, **changes: Any) -> str:
    version = pipeline(deploy, **changes)["amd-recipe"].inputs["version"]
    assert isinstance(version, str)
    return version


def test_the_parent_is_canonicals_image_of_the_clusters_minor() -> None:
    assert parent_image() == (
        "ssm:/aws/service/canonical/ubuntu/eks/24.04/"
        f"{versions.KUBERNETES_MINOR}/stable/{versions.UBUNTU_EKS_SERIAL}"
        "/amd64/hvm/ebs-gp3/ami-id"
    )


def test_a_serial_pins_the_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "UBUNTU_EKS_SERIAL", "20250804")
    assert "/stable/20250804/amd64/" in parent_image()


def test_the_component_is_the_document_under_a_version_that_follows_it(deploy: Deploy) -> None:
    inputs = pipeline(deploy)["amd-component"].inputs
    assert inputs["data"] == DOCUMENT
    assert inputs["version"] == semantic_version(DOCUMENT)
    assert inputs["platform"] == "Linux"


def test_an_old_component_stays_and_never_collides_with_a_new_one(deploy: Deploy) -> None:
    inputs = pipeline(deploy)["amd-component"].inputs
    assert inputs["skipDestroy"] is True
    assert "name" not in inputs


def test_the_recipe_takes_the_parent_and_the_component(deploy: Deploy) -> None:
    made = pipeline(deploy)
    assert made["amd-recipe"].inputs["parentImage"] == parent_image()
    assert made["amd-component"].urn in made["amd-recipe"].depends_on
    assert made["amd-recipe"].inputs["systemsManagerAgent"] == {"uninstallAfterBuild": False}


def test_the_root_disk_is_encrypted_and_no_larger_than_any_nodes(deploy: Deploy) -> None:
    [disk] = pipeline(deploy)["amd-recipe"].inputs["blockDeviceMappings"]
    assert disk == {
        "deviceName": "/dev/sda1",
        "ebs": {
            "volumeSize": 50,
            "volumeType": "gp3",
            "encrypted": "true",
            "deleteOnTermination": "true",
        },
    }
    NodePool(instance_type="g4ad.xlarge", disk_gib=disk["ebs"]["volumeSize"])


def test_a_key_of_ours_encrypts_the_root_disk(deploy: Deploy) -> None:
    [disk] = pipeline(deploy, disks_key_arn="arn:key")["amd-recipe"].inputs["blockDeviceMappings"]
    assert disk["ebs"]["kmsKeyId"] == "arn:key"


def test_the_recipes_version_follows_all_that_may_not_change_under_it(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = recipe_version(deploy)
    assert recipe_version(deploy) == first
    with_key = recipe_version(deploy, disks_key_arn="arn:key")
    monkeypatch.setattr(versions, "UBUNTU_EKS_SERIAL", "20250804")
    pinned = recipe_version(deploy)
    assert len({first, with_key, pinned}) == 3


def test_the_recipes_version_follows_the_component() -> None:
    found = {
        semantic_version(json.dumps(recipe_arguments(arn, None, {}))) for arn in ("arn:a", "arn:b")
    }
    assert len(found) == 2


def test_a_new_recipe_is_there_before_the_old_one_goes(deploy: Deploy) -> None:
    options: dict[str, bool | None] = {}

    def program() -> None:
        pulumi.runtime.register_stack_transformation(
            lambda args: options.update({args.name: args.opts.delete_before_replace})
        )
        AmdImagePipeline("amd", an_aws_stack(), vpc_id="vpc-1", subnet_id="subnet-1")

    deploy(program)
    assert options["amd-recipe"] is False


def test_the_pipeline_has_a_name_of_ours_and_waits_to_be_started(deploy: Deploy) -> None:
    found = pipeline(deploy)["amd-pipeline"]
    assert found.inputs["name"] == "crossvendor-test-amd-node"
    assert "schedule" not in found.inputs


@pytest.mark.usefixtures("aws_answers")
def test_the_parts_are_joined(deploy: Deploy) -> None:
    made = pipeline(deploy)
    found = made["amd-pipeline"].inputs
    assert found["imageRecipeArn"] == "arn:amd-recipe"
    assert found["infrastructureConfigurationArn"] == "arn:amd-machine-configuration"
    assert found["distributionConfigurationArn"] == "arn:amd-distribution"
    assert made["amd-recipe"].inputs["components"] == [{"componentArn": "arn:amd-component"}]
    assert made["amd-retention"].inputs["executionRole"] == "arn:amd-lifecycle"


def test_an_image_is_tested_on_an_instance_of_its_own(deploy: Deploy) -> None:
    assert pipeline(deploy)["amd-pipeline"].inputs["imageTestsConfiguration"] == {
        "imageTestsEnabled": True,
        "timeoutMinutes": 60,
    }


def test_image_builder_works_with_its_own_role(deploy: Deploy) -> None:
    assert "executionRole" not in pipeline(deploy)["amd-pipeline"].inputs
    assert parameter_name("crossvendor-test").startswith("/imagebuilder/")


def test_an_image_stays_in_its_region_and_account(deploy: Deploy) -> None:
    [found] = pipeline(deploy)["amd-distribution"].inputs["distributions"]
    assert found["region"] == "us-east-1"
    image = found["amiDistributionConfiguration"]
    assert image.keys() == {"name", "description", "amiTags"}
    assert image["name"] == "crossvendor-test-amd-node-{{ imagebuilder:buildDate }}"


def test_the_newest_images_id_is_in_a_parameter_of_that_type(deploy: Deploy) -> None:
    [found] = pipeline(deploy)["amd-distribution"].inputs["distributions"]
    assert found["ssmParameterConfigurations"] == [
        {"parameterName": parameter_name("crossvendor-test"), "dataType": "aws:ec2:image"}
    ]


def test_the_image_says_which_groups_pods_need(deploy: Deploy) -> None:
    tags = image_tags("crossvendor-test", ROW)
    assert tags["crossvendor.dev/render-gid"] == "500"
    assert tags["crossvendor.dev/video-gid"] == "44"
    made = pipeline(deploy)
    [found] = made["amd-distribution"].inputs["distributions"]
    assert found["amiDistributionConfiguration"]["amiTags"] == tags
    assert made["amd-recipe"].inputs["amiTags"] == tags


def test_old_images_go_with_their_snapshots_and_three_stay() -> None:
    rule = retention()
    assert rule["action"] == {
        "type": "DELETE",
        "include_resources": {"amis": True, "snapshots": True},
    }
    assert rule["filter"] == {"type": "COUNT", "value": 3}


def test_an_image_that_nodes_come_from_stays(deploy: Deploy) -> None:
    [rule] = pipeline(deploy)["amd-retention"].inputs["policyDetails"]
    assert rule["exclusionRules"] == {"amis": {"lastLaunched": {"unit": "MONTHS", "value": 3}}}


def test_images_of_all_the_recipes_versions_are_counted(deploy: Deploy) -> None:
    made = pipeline(deploy)
    assert made["amd-retention"].inputs["resourceType"] == "AMI_IMAGE"
    assert made["amd-retention"].inputs["resourceSelection"] == {
        "recipes": [{"name": "crossvendor-test-amd-node", "semanticVersion": "x.x.x"}]
    }
    assert made["amd-recipe"].inputs["name"] == "crossvendor-test-amd-node"


def test_only_image_builder_may_remove_images(deploy: Deploy) -> None:
    made = pipeline(deploy)
    policy = json.loads(made["amd-lifecycle"].inputs["assumeRolePolicy"])
    assert policy["Statement"][0]["Principal"] == {"Service": "imagebuilder.amazonaws.com"}
    attached = made["amd-lifecycle-EC2ImageBuilderLifecycleExecutionPolicy"].inputs["policyArn"]
    assert attached.endswith(":policy/service-role/EC2ImageBuilderLifecycleExecutionPolicy")


def test_every_name_begins_with_the_components(deploy: Deploy) -> None:
    assert all(name == "amd" or name.startswith("amd-") for name in pipeline(deploy))
