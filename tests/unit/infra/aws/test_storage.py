import json
from fnmatch import fnmatchcase
from typing import Any

import pulumi
import pytest

from infra.aws.storage import (
    ABANDONED_DAYS,
    NONCURRENT_DAYS,
    Storage,
    bucket_name,
    bucket_policy,
    encryption_rule,
    lifecycle_rules,
    training_policy,
)
from infra.config import StackConfig
from infra.names import NAMESPACE_TRAINING, SERVICE_ACCOUNT_TRAINING
from infra.recording import Recording, Resource
from tests.builders import an_aws_config, an_aws_stack
from tests.conftest import Deploy
from tests.unit.infra.aws.guards import guards

NAME = "some-bucket"
BUCKET = f"arn:aws:s3:::{NAME}"
KEY = "arn:aws:kms:us-east-1:123456789012:key/0"
OTHER_KEY = "arn:aws:kms:us-east-1:123456789012:key/1"
ENCRYPTION = "s3:x-amz-server-side-encryption"
KEY_ID = "s3:x-amz-server-side-encryption-aws-kms-key-id"


def made_by(deploy: Deploy, config: StackConfig | None = None) -> dict[str, Resource]:
    return {made.name: made for made in recorded(deploy, config).resources}


def recorded(deploy: Deploy, config: StackConfig | None = None) -> Recording:
    return deploy(lambda: a_storage(config or an_aws_stack()))


def a_storage(config: StackConfig) -> Storage:
    return Storage("storage", config, cluster_name="the-cluster", key_arn=KEY)


def protected(*, is_protected: bool) -> StackConfig:
    return an_aws_stack(aws=an_aws_config(is_protected=is_protected))


# The bucket's name


def test_the_account_is_in_the_buckets_name_which_is_unique_in_the_world() -> None:
    assert bucket_name(an_aws_stack()) == "crossvendor-test-checkpoints-123456789012"


def test_the_longest_name_of_a_stack_gives_a_name_that_s3_takes() -> None:
    name = bucket_name(an_aws_stack(stack="a" * 16))
    assert len(name) <= 63


@pytest.mark.parametrize("stack", ["a" * 40, "Dev", "dev_1", "dev.1"])
def test_a_name_that_s3_refuses_is_refused(stack: str) -> None:
    config = an_aws_stack().model_copy(update={"stack": stack})
    with pytest.raises(ValueError, match=r"is no name of a bucket; use 3 to 63 lower-case"):
        bucket_name(config)


# What the bucket's policy refuses: IAM's evaluation of the operators that it uses


def refuses(action: str, resource: str, context: dict[str, str]) -> bool:
    """Whether the policy denies a request; `context` is what IAM knows about it."""
    statements = json.loads(bucket_policy(NAME, key_arn=KEY))["Statement"]
    assert all(each["Effect"] == "Deny" and each["Principal"] == "*" for each in statements)
    return any(
        any(fnmatchcase(action, pattern) for pattern in each["Action"])
        and any(fnmatchcase(resource, pattern) for pattern in each["Resource"])
        and all(
            is_true(operator, expected, context.get(key))
            for operator, test in each["Condition"].items()
            for key, expected in test.items()
        )
        for each in statements
    )


def is_true(operator: str, expected: str, value: str | None) -> bool:
    match operator:
        case "Null":
            return (value is None) is (expected == "true")
        case "StringNotEquals":
            return value != expected  # true of a missing key as well, as IAM says
        case "Bool":
            return value is not None and value == expected
        case _:
            raise AssertionError(operator)


def is_upload_refused(headers: dict[str, str]) -> bool:
    """`headers` are those about encryption, under IAM's names for them."""
    return refuses("s3:PutObject", f"{BUCKET}/a/b", {"aws:SecureTransport": "true", **headers})


def test_an_upload_without_headers_is_let_through_to_the_buckets_own_encryption() -> None:
    assert not is_upload_refused({})


def test_an_upload_that_names_the_key_is_let_through() -> None:
    assert not is_upload_refused({ENCRYPTION: "aws:kms", KEY_ID: KEY})


@pytest.mark.parametrize(
    "headers",
    [
        {ENCRYPTION: "aws:kms", KEY_ID: OTHER_KEY},
        {KEY_ID: OTHER_KEY},
        {ENCRYPTION: "aws:kms:dsse", KEY_ID: OTHER_KEY},
        {ENCRYPTION: "aws:kms"},
        {ENCRYPTION: "AES256"},
    ],
)
def test_an_upload_under_another_key_is_refused(headers: dict[str, str]) -> None:
    assert is_upload_refused(headers)


@pytest.mark.parametrize("action", ["s3:GetObject", "s3:PutObject", "s3:ListBucket"])
@pytest.mark.parametrize("resource", [BUCKET, f"{BUCKET}/a"])
def test_nothing_travels_in_the_clear(action: str, resource: str) -> None:
    assert refuses(action, resource, {"aws:SecureTransport": "false"})


@pytest.mark.parametrize("action", ["s3:GetObject", "s3:DeleteObject", "s3:ListBucket"])
def test_what_is_no_upload_is_not_asked_about_encryption(action: str) -> None:
    assert not refuses(action, f"{BUCKET}/a", {"aws:SecureTransport": "true"})


# What training pods may do


def statements() -> dict[str, dict[str, Any]]:
    policy = json.loads(training_policy(NAME, key_arn=KEY, region="eu-west-1"))
    return {each["Sid"]: each for each in policy["Statement"]}


def test_training_pods_reach_this_bucket_and_its_key_only() -> None:
    found = statements().values()
    assert {each["Effect"] for each in found} == {"Allow"}
    assert {one for each in found for one in each["Resource"]} == {BUCKET, f"{BUCKET}/*", KEY}
    assert not [action for each in found for action in each["Action"] if "*" in action]


def test_training_pods_read_and_write_objects() -> None:
    allowed = statements()["ReadAndWriteCheckpoints"]
    assert {"s3:GetObject", "s3:PutObject", "s3:DeleteObject"} <= set(allowed["Action"])
    assert allowed["Resource"] == [f"{BUCKET}/*"]


def test_training_pods_list_the_bucket_itself() -> None:
    allowed = statements()["ListCheckpoints"]
    assert "s3:ListBucket" in allowed["Action"]
    assert allowed["Resource"] == [BUCKET]


@pytest.mark.parametrize(
    "action", ["s3:DeleteObjectVersion", "s3:PutBucketVersioning", "s3:PutLifecycleConfiguration"]
)
def test_training_pods_cannot_remove_an_old_version_for_good(action: str) -> None:
    assert action not in [each for found in statements().values() for each in found["Action"]]


def test_training_pods_use_the_key_through_s3_of_the_region_only() -> None:
    allowed = statements()["UseTheKeyThroughS3"]
    assert allowed["Action"] == ["kms:GenerateDataKey", "kms:Decrypt"]
    assert allowed["Resource"] == [KEY]
    assert allowed["Condition"] == {
        "StringEquals": {"kms:ViaService": "s3.eu-west-1.amazonaws.com"}
    }


# What S3 does by itself


def test_everything_is_encrypted_with_the_key_and_few_calls_to_kms() -> None:
    rule = encryption_rule(KEY)
    assert rule["apply_server_side_encryption_by_default"] == {
        "sse_algorithm": "aws:kms",
        "kms_master_key_id": KEY,
    }
    assert rule["bucket_key_enabled"] is True


def test_nobody_brings_a_key_of_their_own() -> None:
    assert encryption_rule(KEY)["blocked_encryption_types"] == ["SSE-C"]


def test_old_versions_and_abandoned_uploads_are_removed_and_nothing_else_is() -> None:
    every_object = {"status": "Enabled", "filter": {}}
    assert lifecycle_rules() == [
        {
            "id": "old-versions",
            **every_object,
            "noncurrent_version_expiration": {"noncurrent_days": NONCURRENT_DAYS},
            "expiration": {"expired_object_delete_marker": True},
        },
        {
            "id": "abandoned-uploads",
            **every_object,
            "abort_incomplete_multipart_upload": {"days_after_initiation": ABANDONED_DAYS},
        },
    ]


# What is made


def test_the_bucket_is_closed_versioned_encrypted_and_its_owners(deploy: Deploy) -> None:
    made = made_by(deploy)
    assert made["storage-checkpoints"].inputs["bucket"] == bucket_name(an_aws_stack())
    assert made["storage-versioning"].inputs["versioningConfiguration"] == {"status": "Enabled"}
    access = made["storage-public-access"].inputs
    for block in (
        "blockPublicAcls",
        "blockPublicPolicy",
        "ignorePublicAcls",
        "restrictPublicBuckets",
    ):
        assert access[block] is True
    assert made["storage-ownership"].inputs["rule"] == {"objectOwnership": "BucketOwnerEnforced"}
    [rule] = made["storage-encryption"].inputs["rules"]
    assert rule["applyServerSideEncryptionByDefault"]["kmsMasterKeyId"] == KEY
    policy = made["storage-policy"].inputs["policy"]
    assert policy == bucket_policy(bucket_name(an_aws_stack()), key_arn=KEY)


def test_every_guard_is_of_the_bucket(deploy: Deploy) -> None:
    made = made_by(deploy)
    of_the_bucket = [name for name in made if "bucket" in made[name].inputs]
    assert len(of_the_bucket) == 7
    assert {made[name].inputs["bucket"] for name in of_the_bucket} == {bucket_name(an_aws_stack())}


def test_guards_that_s3_would_refuse_together_come_after_each_other(deploy: Deploy) -> None:
    made = made_by(deploy)
    for later, earlier in (
        ("storage-public-access", "storage-ownership"),
        ("storage-policy", "storage-public-access"),
        ("storage-lifecycle", "storage-versioning"),
    ):
        assert made[earlier].urn in made[later].depends_on


@pytest.mark.parametrize("is_protected", [True, False])
def test_checkpoints_outlive_a_protected_stack_and_go_with_another(
    deploy: Deploy, *, is_protected: bool
) -> None:
    config = protected(is_protected=is_protected)
    made = made_by(deploy, config)
    assert made["storage-checkpoints"].inputs["forceDestroy"] is not is_protected
    found = guards(deploy, lambda: a_storage(config))
    for name, resource in made.items():
        if "bucket" in resource.inputs:
            assert found[name].is_protected is is_protected
            assert found[name].is_retained is is_protected


def test_the_training_pods_service_account_has_the_role(deploy: Deploy) -> None:
    [association] = recorded(deploy).of_type(
        "aws:eks/podIdentityAssociation:PodIdentityAssociation"
    )
    assert association.inputs["clusterName"] == "the-cluster"
    assert association.inputs["namespace"] == NAMESPACE_TRAINING
    assert association.inputs["serviceAccount"] == SERVICE_ACCOUNT_TRAINING


def test_only_pods_can_take_the_role(deploy: Deploy) -> None:
    [role] = recorded(deploy).of_type("aws:iam/role:Role")
    [statement] = json.loads(role.inputs["assumeRolePolicy"])["Statement"]
    assert statement["Principal"] == {"Service": "pods.eks.amazonaws.com"}


def test_the_role_may_do_what_training_pods_may(deploy: Deploy) -> None:
    [policy] = recorded(deploy).of_type("aws:iam/rolePolicy:RolePolicy")
    assert policy.inputs["policy"] == training_policy(
        bucket_name(an_aws_stack()), key_arn=KEY, region="us-east-1"
    )


def test_the_buckets_name_is_told_once_its_guards_are_there(deploy: Deploy) -> None:
    def program() -> None:
        pulumi.export("bucket", a_storage(an_aws_stack()).bucket)

    assert deploy(program).outputs == {"bucket": bucket_name(an_aws_stack())}
