import json
from collections.abc import Mapping
from typing import Any

import pytest

from infra.accelerators import ACCELERATORS, Vendor
from infra.aws.amd_image_machine import (
    AmdImageMachine,
    may_write_logs,
    smallest_instance_type,
)
from infra.instances import INSTANCE_TYPES
from infra.recording import Resource
from tests.conftest import Deploy

CONFIGURATION = "m-configuration"


def machine(deploy: Deploy, **changes: Any) -> Mapping[str, Resource]:
    arguments = {"vpc_id": "vpc-1", "subnet_id": "subnet-1", **changes}
    recording = deploy(
        lambda: AmdImageMachine(
            "m", full_name="crossvendor-test", accelerator=ACCELERATORS[Vendor.AMD], **arguments
        )
    )
    return {resource.name: resource for resource in recording.resources}


@pytest.mark.parametrize("vendor", Vendor)
def test_the_machine_has_the_vendors_gpu_and_nothing_more(vendor: Vendor) -> None:
    name = smallest_instance_type(vendor)
    assert INSTANCE_TYPES[name].vendor is vendor
    assert name == f"{ACCELERATORS[vendor].instance_family}.xlarge"


def test_the_machine_is_where_it_was_told_to_be(deploy: Deploy) -> None:
    made = machine(deploy)
    inputs = made[CONFIGURATION].inputs
    assert inputs["instanceTypes"] == ["g4ad.xlarge"]
    assert inputs["subnetId"] == "subnet-1"
    assert inputs["securityGroupIds"] == ["m-group-id"]
    assert made["m-group"].inputs["vpcId"] == "vpc-1"


def test_a_machine_that_failed_is_ended(deploy: Deploy) -> None:
    assert machine(deploy)[CONFIGURATION].inputs["terminateInstanceOnFailure"] is True


def test_credentials_are_given_for_a_token_and_on_the_machine_only(deploy: Deploy) -> None:
    assert machine(deploy)[CONFIGURATION].inputs["instanceMetadataOptions"] == {
        "httpTokens": "required",
        "httpPutResponseHopLimit": 1,
    }


def test_nobody_reaches_the_machine(deploy: Deploy) -> None:
    made = machine(deploy)
    assert "ingress" not in made["m-group"].inputs
    assert not [each for each in made.values() if "Ingress" in each.type]
    assert "keyPair" not in made[CONFIGURATION].inputs


def test_the_machine_reaches_https_and_nothing_else(deploy: Deploy) -> None:
    made = machine(deploy)
    assert "egress" not in made["m-group"].inputs
    [rule] = [each for each in made.values() if "EgressRule" in each.type]
    ports = (rule.inputs["ipProtocol"], rule.inputs["fromPort"], rule.inputs["toPort"])
    assert ports == ("tcp", 443, 443)


def test_the_way_out_is_there_before_a_build_can_start(deploy: Deploy) -> None:
    made = machine(deploy)
    assert made["m-https"].urn in made[CONFIGURATION].depends_on


def test_the_machine_may_do_what_image_builder_and_systems_manager_need(deploy: Deploy) -> None:
    made = machine(deploy)
    attached = [each for each in made.values() if each.type.endswith(":RolePolicyAttachment")]
    assert {each.inputs["policyArn"] for each in attached} == {
        "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore",
        "arn:aws:iam::aws:policy/EC2InstanceProfileForImageBuilder",
    }
    assert "ec2.amazonaws.com" in made["m-role"].inputs["assumeRolePolicy"]
    assert not [each for each in made.values() if each.type.endswith(":RolePolicy")]


def test_without_a_bucket_logs_go_to_cloudwatch_only(deploy: Deploy) -> None:
    assert "logging" not in machine(deploy)[CONFIGURATION].inputs


def test_logs_go_to_a_bucket_that_the_machine_may_write_them_to(deploy: Deploy) -> None:
    made = machine(deploy, log_bucket="logs")
    assert made[CONFIGURATION].inputs["logging"] == {
        "s3Logs": {"s3BucketName": "logs", "s3KeyPrefix": "image-builder"}
    }
    assert made["m-role-policy"].inputs["policy"] == may_write_logs("logs")


def test_the_machine_may_write_logs_and_read_none() -> None:
    [statement] = json.loads(may_write_logs("logs"))["Statement"]
    assert statement["Action"] == ["s3:PutObject"]
    assert statement["Resource"] == ["arn:aws:s3:::logs/image-builder/*"]
