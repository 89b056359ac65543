import json
from typing import Any

import pytest

from images.catalog import IMAGES
from infra.aws.registry import KEEP, UNTAGGED_DAYS, Registry, lifecycle_policy, repositories
from infra.recording import Recording
from tests.builders import an_aws_config, an_aws_stack
from tests.conftest import Deploy
from tests.unit.infra.aws.guards import guards

REPOSITORY = "aws:ecr/repository:Repository"
LIFECYCLE = "aws:ecr/lifecyclePolicy:LifecyclePolicy"


def deployed(deploy: Deploy, *, is_protected: bool = False, **choices: Any) -> Recording:
    config = an_aws_stack(aws=an_aws_config(is_protected=is_protected))
    return deploy(lambda: Registry("registry", config, **choices))


def test_every_image_of_ours_that_pods_run_has_a_repository_of_the_stack() -> None:
    assert repositories(an_aws_stack()) == {
        name: f"crossvendor-test/{name}"
        for name, image in IMAGES.items()
        if image.is_published and image.folder != "images/volcano"
    }


def test_no_image_of_somebody_else_has_a_repository() -> None:
    found = repositories(an_aws_stack())
    assert found
    assert not [name for name in found if IMAGES[name].reference.startswith("docker.io/")]


def test_a_repository_keeps_what_a_tag_means_and_looks_at_what_is_pushed(deploy: Deploy) -> None:
    made = deployed(deploy).of_type(REPOSITORY)
    assert {each.inputs["name"] for each in made} == set(repositories(an_aws_stack()).values())
    for each in made:
        assert each.inputs["imageTagMutability"] == "IMMUTABLE"
        assert each.inputs["imageScanningConfiguration"] == {"scanOnPush": True}


def test_a_repository_is_encrypted_with_ecrs_key_or_with_the_given_one(deploy: Deploy) -> None:
    for each in deployed(deploy).of_type(REPOSITORY):
        assert each.inputs["encryptionConfigurations"] == [{"encryptionType": "AES256"}]
    for each in deployed(deploy, key_arn="arn:key").of_type(REPOSITORY):
        assert each.inputs["encryptionConfigurations"] == [
            {"encryptionType": "KMS", "kmsKey": "arn:key"}
        ]


@pytest.mark.parametrize("is_protected", [True, False])
def test_images_go_with_their_repository_only_where_the_stack_is_not_protected(
    deploy: Deploy, *, is_protected: bool
) -> None:
    made = deployed(deploy, is_protected=is_protected).of_type(REPOSITORY)
    assert {each.inputs["forceDelete"] for each in made} == {not is_protected}
    config = an_aws_stack(aws=an_aws_config(is_protected=is_protected))
    found = guards(deploy, lambda: Registry("registry", config))
    assert {found[each.name].is_protected for each in made} == {is_protected}


def test_every_repository_has_the_policy(deploy: Deploy) -> None:
    made = deployed(deploy, keep=5)
    policies = made.of_type(LIFECYCLE)
    assert {each.inputs["repository"] for each in policies} == {
        each.inputs["name"] for each in made.of_type(REPOSITORY)
    }
    for each in policies:
        assert json.loads(each.inputs["policy"]) == lifecycle_policy(keep=5)


def test_what_no_tag_names_is_removed_after_a_week() -> None:
    [untagged, _] = lifecycle_policy(keep=KEEP)["rules"]
    assert untagged["selection"] == {
        "tagStatus": "untagged",
        "countType": "sinceImagePushed",
        "countUnit": "days",
        "countNumber": UNTAGGED_DAYS,
    }


def test_the_newest_tagged_images_are_kept_and_the_untagged_do_not_count() -> None:
    [_, tagged] = lifecycle_policy(keep=12)["rules"]
    assert tagged["selection"]["countType"] == "imageCountMoreThan"
    assert tagged["selection"]["countNumber"] == 12
    assert tagged["selection"]["tagStatus"] == "tagged"
    assert tagged["selection"]["tagPatternList"] == ["*"]


def test_each_rule_has_its_own_priority_and_ecrs_only_action() -> None:
    rules = lifecycle_policy(keep=1)["rules"]
    assert [rule["rulePriority"] for rule in rules] == [1, 2]
    assert [rule["action"] for rule in rules] == [{"type": "expire"}] * 2


def test_a_policy_that_would_remove_everything_is_refused() -> None:
    with pytest.raises(ValueError, match="keep 0 would remove every image; use 1 or more"):
        lifecycle_policy(keep=0)


def test_urls_are_told_by_image(deploy: Deploy) -> None:
    told: dict[str, Any] = {}

    def program() -> None:
        told.update(Registry("registry", an_aws_stack()).repository_urls)

    deploy(program)
    assert set(told) == set(repositories(an_aws_stack()))
