import json
from typing import Any

import pulumi
import pytest

from infra.aws.keys import Keys, Purpose, key_policy
from infra.recording import Resource
from tests.builders import an_aws_config, an_aws_stack
from tests.conftest import Deploy

ACCOUNT = "123456789012"
KEY = "aws:kms/key:Key"


def statements(purpose: Purpose, **changes: Any) -> dict[str, dict[str, Any]]:
    found = json.loads(key_policy(purpose, an_aws_config(**changes)))["Statement"]
    return {statement["Sid"]: statement for statement in found}


def keys(deploy: Deploy, **changes: Any) -> dict[str, Resource]:
    config = an_aws_stack(aws=an_aws_config(**changes))
    return {key.name: key for key in deploy(lambda: Keys("keys", config)).of_type(KEY)}


@pytest.mark.parametrize("purpose", Purpose)
def test_the_account_stays_in_charge_of_every_key(purpose: Purpose) -> None:
    found = statements(purpose)["AccountDecides"]
    assert found["Principal"] == {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}
    assert found["Action"] == ["kms:*"]


@pytest.mark.parametrize("purpose", [Purpose.SECRETS, Purpose.DATA])
def test_a_key_that_services_use_as_their_callers_names_no_service(purpose: Purpose) -> None:
    assert statements(purpose).keys() == {"AccountDecides"}


@pytest.mark.parametrize("purpose", Purpose)
def test_whoever_is_not_named_is_bound_to_the_account_and_to_a_role(purpose: Purpose) -> None:
    for statement in statements(purpose).values():
        if "*" in statement["Principal"].values():
            assert statement["Condition"]["StringEquals"] == {"kms:CallerAccount": ACCOUNT}
            for arn in statement["Condition"]["ArnEquals"]["aws:PrincipalArn"]:
                assert arn.startswith(f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/")


def test_no_principal_of_a_policy_has_to_be_made_first() -> None:
    for purpose in Purpose:
        for statement in statements(purpose).values():
            assert not any(":role/" in text for text in statement["Principal"].values())


@pytest.mark.parametrize(
    "role",
    [
        "autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling",
        "spot.amazonaws.com/AWSServiceRoleForEC2Spot",
    ],
)
def test_scaling_groups_and_spot_can_start_instances_with_encrypted_disks(role: str) -> None:
    found = statements(Purpose.DISKS)
    arn = f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/{role}"
    for sid in ("InstancesUse", "InstancesGrant"):
        assert arn in found[sid]["Condition"]["ArnEquals"]["aws:PrincipalArn"]
    assert "kms:GenerateDataKey*" in found["InstancesUse"]["Action"]


def test_grants_go_to_services_of_aws_only() -> None:
    found = statements(Purpose.DISKS)
    assert found["InstancesGrant"]["Action"] == ["kms:CreateGrant"]
    assert found["InstancesGrant"]["Condition"]["Bool"] == {"kms:GrantIsForAWSResource": "true"}
    assert "kms:CreateGrant" not in found["InstancesUse"]["Action"]


def test_logs_are_encrypted_for_log_groups_of_this_account_and_region_only() -> None:
    found = statements(
        Purpose.LOGS, region="eu-west-1", zone_ids=["euw1-az1", "euw1-az2"], gpu_zone_id="euw1-az1"
    )["LogGroupsUse"]
    assert found["Principal"] == {"Service": "logs.eu-west-1.amazonaws.com"}
    assert found["Condition"] == {
        "ArnLike": {
            "kms:EncryptionContext:aws:logs:arn": f"arn:aws:logs:eu-west-1:{ACCOUNT}:log-group:*"
        }
    }


def test_every_purpose_has_a_key_that_rotates(deploy: Deploy) -> None:
    made = keys(deploy)
    assert made.keys() == {"keys-secrets", "keys-disks", "keys-logs", "keys-data"}
    for purpose in Purpose:
        inputs = made[f"keys-{purpose}"].inputs
        assert inputs["enableKeyRotation"] is True
        assert inputs["policy"] == key_policy(purpose, an_aws_config())


@pytest.mark.parametrize(("is_protected", "days"), [(False, 7), (True, 30)])
def test_a_deleted_key_can_be_taken_back_for_days(
    deploy: Deploy, is_protected: bool, days: int
) -> None:
    for key in keys(deploy, is_protected=is_protected).values():
        assert key.inputs["deletionWindowInDays"] == days


def test_every_key_has_an_alias_of_the_stack(deploy: Deploy) -> None:
    made = deploy(lambda: Keys("keys", an_aws_stack()))
    aliases = {alias.inputs["name"]: alias for alias in made.of_type("aws:kms/alias:Alias")}
    assert aliases.keys() == {f"alias/crossvendor-test-{purpose}" for purpose in Purpose}
    for key in made.of_type(KEY):
        purpose = key.name.removeprefix("keys-")
        assert key.urn in aliases[f"alias/crossvendor-test-{purpose}"].depends_on


@pytest.mark.parametrize("is_protected", [False, True])
def test_a_protected_stack_keeps_its_keys_and_the_datas_even_when_it_goes(
    deploy: Deploy, is_protected: bool
) -> None:
    seen: dict[str, tuple[bool | None, bool | None]] = {}

    def note(args: pulumi.ResourceTransformationArgs) -> None:
        if args.type_ == KEY:
            seen[args.name] = (args.opts.protect, args.opts.retain_on_delete)

    def program() -> None:
        pulumi.runtime.register_stack_transformation(note)
        Keys("keys", an_aws_stack(aws=an_aws_config(is_protected=is_protected)))

    deploy(program)
    assert len(seen) == len(Purpose)
    for name, (protect, retain) in seen.items():
        assert protect is is_protected
        assert retain is (is_protected and name == "keys-data")
