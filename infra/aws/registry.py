"""The registry: one ECR repository per image that we build and pods run.

Names, life and guards of the repositories; what is pushed to them is images/build.py's business.
"""

import json
from typing import Any, Final

import pulumi
import pulumi_aws as aws

from images.catalog import references
from infra.component import Component
from infra.config import StackConfig
from infra.names import PROJECT

OURS: Final = f"localhost/{PROJECT}/"
"""Where the references of our own images begin; the others name the registry they come from."""
UNTAGGED_DAYS: Final = 7
"""How long a push stays that no tag names: a failed one, or a part that nothing is made of."""
KEEP: Final = 30
"""Tagged images per repository; a release pushes one."""


def repositories(config: StackConfig) -> dict[str, str]:
    """Image name -> repository name of every image that is ours and runs in pods."""
    ours = [name for name, reference in references().items() if reference.startswith(OURS)]
    return {name: f"{config.full_name}/{name}" for name in ours}


def lifecycle_policy(*, keep: int) -> dict[str, Any]:
    """What ECR removes by itself: what no tag names after a week, and all but the newest `keep`."""
    if keep < 1:
        msg = f"keep {keep} would remove every image; use 1 or more"
        raise ValueError(msg)
    return {
        "rules": [
            {
                "rulePriority": 1,
                "description": f"remove what has had no tag for {UNTAGGED_DAYS} days",
                "selection": {
                    "tagStatus": "untagged",
                    "countType": "sinceImagePushed",
                    "countUnit": "days",
                    "countNumber": UNTAGGED_DAYS,
                },
                "action": {"type": "expire"},
            },
            {
                "rulePriority": 2,
                "description": f"keep the newest {keep} tagged images",
                "selection": {
                    # `any` would count the untagged ones as well, which rule 1 lets stay a week.
                    "tagStatus": "tagged",
                    "tagPatternList": ["*"],
                    "countType": "imageCountMoreThan",
                    "countNumber": keep,
                },
                "action": {"type": "expire"},
            },
        ]
    }


class Registry(Component):
    """The repositories; the node role's policy lets nodes pull from them."""

    repository_urls: dict[str, pulumi.Output[str]]
    """Image name -> URL without a tag."""

    def __init__(
        self,
        name: str,
        config: StackConfig,
        *,
        key_arn: pulumi.Input[str] | None = None,
        keep: int = KEEP,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`key_arn` encrypts with that KMS key, None with ECR's own; a change makes them anew."""
        super().__init__("aws:Registry", name, opts)
        policy = json.dumps(lifecycle_policy(keep=keep), indent=1)
        is_protected = config.cloud.is_protected
        self.repository_urls = {}
        for image, repository_name in repositories(config).items():
            repository = self._repository(
                f"{name}-{image}",
                repository_name,
                key_arn=key_arn,
                is_protected=is_protected,
            )
            aws.ecr.LifecyclePolicy(
                f"{name}-{image}-lifecycle",
                repository=repository.name,
                policy=policy,
                opts=self._opts(),
            )
            self.repository_urls[image] = repository.repository_url
        self.register_outputs({"repository_urls": self.repository_urls})

    def _repository(
        self,
        name: str,
        repository_name: str,
        *,
        key_arn: pulumi.Input[str] | None,
        is_protected: bool,
    ) -> aws.ecr.Repository:
        encryption = aws.ecr.RepositoryEncryptionConfigurationArgs(
            encryption_type="AES256" if key_arn is None else "KMS", kms_key=key_arn
        )
        return aws.ecr.Repository(
            name,
            name=repository_name,
            image_tag_mutability="IMMUTABLE",
            image_scanning_configuration=aws.ecr.RepositoryImageScanningConfigurationArgs(
                scan_on_push=True
            ),
            encryption_configurations=[encryption],
            force_delete=not is_protected,
            opts=pulumi.ResourceOptions.merge(
                self._opts(), pulumi.ResourceOptions(protect=is_protected)
            ),
        )
