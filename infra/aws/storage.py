"""Where training keeps its checkpoints: a bucket, and the role with which its pods reach it.

A pod without an API token gets the role all the same: EKS' webhook projects a token of its own into
each pod of an associated service account and asks nothing about automounting
(github.com/aws/amazon-eks-pod-identity-webhook, pkg/handler/handler.go, getPodSpecPatch).
"""

import re
from collections.abc import Sequence
from typing import Final

import pulumi
import pulumi_aws as aws

from infra.aws.iam import POD_IDENTITY, Statement, document, role
from infra.component import Component
from infra.config import StackConfig
from infra.names import NAMESPACE_TRAINING, SERVICE_ACCOUNT_TRAINING

NONCURRENT_DAYS: Final = 30
"""How long a checkpoint that was deleted or written over can be had back."""
ABANDONED_DAYS: Final = 7
"""After which parts of an upload that never ended are removed; a checkpoint takes minutes."""
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
"""S3's rule without its dots, with which a bucket's name fits no TLS certificate."""
_KEY_HEADER: Final = "s3:x-amz-server-side-encryption-aws-kms-key-id"
_ENCRYPTION_HEADER: Final = "s3:x-amz-server-side-encryption"


def bucket_name(config: StackConfig) -> str:
    """The checkpoint bucket; the account makes it unique among everybody's. Raises ValueError."""
    name = f"{config.full_name}-checkpoints-{config.cloud.account_id}"
    if not _BUCKET.fullmatch(name):
        msg = (
            f"stack {config.stack}: {name!r} ({len(name)} characters) is no name of a bucket; "
            "use 3 to 63 lower-case letters, digits and hyphens."
        )
        raise ValueError(msg)
    return name


def bucket_policy(bucket: str, *, key_arn: str) -> str:
    """What nobody may do to the bucket, whatever else they may.

    Uploads without a header about encryption get the bucket's own. A header is compared as it was
    sent, so whoever names the key names its ARN.
    """
    bucket_arn, every_object = _arns(bucket)
    return document(
        Statement(
            sid="NoPlainHttp",
            effect="Deny",
            principal="*",
            actions=["s3:*"],  # whatever the request is, it may not travel in the clear
            resources=[bucket_arn, every_object],
            condition={"Bool": {"aws:SecureTransport": "false"}},
        ),
        # StringNotEquals alone is also true of a header that was not sent, hence the Null tests.
        Statement(
            sid="NoOtherKey",
            effect="Deny",
            principal="*",
            actions=["s3:PutObject"],
            resources=[every_object],
            condition={
                "Null": {_KEY_HEADER: "false"},
                "StringNotEquals": {_KEY_HEADER: key_arn},
            },
        ),
        # `AES256`, or `aws:kms` without a key, which S3 takes for the account's default key.
        Statement(
            sid="NoEncryptionWithoutTheKey",
            effect="Deny",
            principal="*",
            actions=["s3:PutObject"],
            resources=[every_object],
            condition={"Null": {_ENCRYPTION_HEADER: "false", _KEY_HEADER: "true"}},
        ),
    )


def training_policy(bucket: str, *, key_arn: str, region: str) -> str:
    """What training pods may do: use this bucket's objects, and its key through S3 only."""
    bucket_arn, every_object = _arns(bucket)
    return document(
        Statement(
            sid="ListCheckpoints",
            actions=["s3:ListBucket", "s3:ListBucketMultipartUploads"],
            resources=[bucket_arn],
        ),
        # No DeleteObjectVersion: what a job deletes or writes over stays for NONCURRENT_DAYS.
        Statement(
            sid="ReadAndWriteCheckpoints",
            actions=[
                "s3:GetObject",
                "s3:PutObject",
                "s3:DeleteObject",
                "s3:AbortMultipartUpload",
                "s3:ListMultipartUploadParts",
            ],
            resources=[every_object],
        ),
        # Decrypt is for uploads in parts as well: S3 reads them to put them together.
        Statement(
            sid="UseTheKeyThroughS3",
            actions=["kms:GenerateDataKey", "kms:Decrypt"],
            resources=[key_arn],
            condition={"StringEquals": {"kms:ViaService": f"s3.{region}.amazonaws.com"}},
        ),
    )


def _arns(bucket: str) -> tuple[str, str]:
    """The bucket itself, and every object in it."""
    return f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"


def encryption_rule(
    key_arn: pulumi.Input[str],
) -> aws.s3.BucketServerSideEncryptionConfigurationRuleArgsDict:
    """How S3 encrypts what comes without a word about it."""
    return {
        "apply_server_side_encryption_by_default": {
            "sse_algorithm": "aws:kms",
            "kms_master_key_id": key_arn,
        },
        # One data key for many objects: KMS is asked, and paid, a hundredth as often.
        "bucket_key_enabled": True,
        # Keys that senders bring along, and can lose.
        "blocked_encryption_types": ["SSE-C"],
    }


def lifecycle_rules() -> list[aws.s3.BucketLifecycleConfigurationRuleArgsDict]:
    """What S3 removes by itself: nothing that is the newest of its name."""
    return [
        {
            "id": "old-versions",
            "status": "Enabled",
            "filter": {},  # of every object
            "noncurrent_version_expiration": {"noncurrent_days": NONCURRENT_DAYS},
            "expiration": {"expired_object_delete_marker": True},
        },
        {
            "id": "abandoned-uploads",
            "status": "Enabled",
            "filter": {},
            "abort_incomplete_multipart_upload": {"days_after_initiation": ABANDONED_DAYS},
        },
    ]


class Storage(Component):
    """The checkpoint bucket with its guards, and the training pods' way to it."""

    bucket: pulumi.Output[str]
    """Name of the bucket, once it is encrypted, versioned and closed."""
    role_arn: pulumi.Output[str]
    """Of the training pods."""

    def __init__(
        self,
        name: str,
        config: StackConfig,
        *,
        cluster_name: pulumi.Input[str],
        key_arn: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`key_arn` is the data key; its policy lets the account's IAM decide who may use it."""
        super().__init__("aws:Storage", name, opts)
        cloud = config.cloud
        self._name, self._is_protected = name, cloud.is_protected
        bucket = aws.s3.Bucket(
            f"{name}-checkpoints",
            bucket=bucket_name(config),
            force_destroy=not cloud.is_protected,
            opts=self._kept(),
        )
        guards = self._guards(bucket, key_arn)
        training = role(
            f"{name}-training",
            service=POD_IDENTITY,
            policy=pulumi.Output.all(bucket=bucket.bucket, key=key_arn).apply(
                lambda of: training_policy(of["bucket"], key_arn=of["key"], region=cloud.region)
            ),
            opts=self._opts(),
        )
        aws.eks.PodIdentityAssociation(
            f"{name}-training-identity",
            cluster_name=cluster_name,
            namespace=NAMESPACE_TRAINING,
            service_account=SERVICE_ACCOUNT_TRAINING,
            role_arn=training.arn,
            opts=self._opts(),
        )
        self.bucket = pulumi.Output.all(bucket.bucket, *(guard.id for guard in guards)).apply(
            lambda found: str(found[0])
        )
        self.role_arn = training.arn
        self.register_outputs({"bucket": self.bucket, "role_arn": self.role_arn})

    def _guards(
        self, bucket: aws.s3.Bucket, key_arn: pulumi.Input[str]
    ) -> list[pulumi.CustomResource]:
        """What makes the bucket safe to write to."""
        versioning = aws.s3.BucketVersioning(
            f"{self._name}-versioning",
            bucket=bucket.bucket,
            versioning_configuration=aws.s3.BucketVersioningVersioningConfigurationArgs(
                status="Enabled"
            ),
            opts=self._kept(),
        )
        aws.s3.BucketLifecycleConfiguration(
            f"{self._name}-lifecycle",
            bucket=bucket.bucket,
            rules=lifecycle_rules(),
            # Rules about versions are accepted once there are versions.
            opts=self._kept(after=[versioning]),
        )
        encryption = aws.s3.BucketServerSideEncryptionConfiguration(
            f"{self._name}-encryption",
            bucket=bucket.bucket,
            rules=[encryption_rule(key_arn)],
            opts=self._kept(),
        )
        ownership = aws.s3.BucketOwnershipControls(
            f"{self._name}-ownership",
            bucket=bucket.bucket,
            rule=aws.s3.BucketOwnershipControlsRuleArgs(object_ownership="BucketOwnerEnforced"),
            opts=self._kept(),
        )
        access = aws.s3.BucketPublicAccessBlock(
            f"{self._name}-public-access",
            bucket=bucket.bucket,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            # S3 refuses two changes of a bucket's access at the same time.
            opts=self._kept(after=[ownership]),
        )
        policy = aws.s3.BucketPolicy(
            f"{self._name}-policy",
            bucket=bucket.bucket,
            policy=pulumi.Output.all(bucket=bucket.bucket, key=key_arn).apply(
                lambda of: bucket_policy(of["bucket"], key_arn=of["key"])
            ),
            opts=self._kept(after=[access]),
        )
        return [versioning, encryption, ownership, access, policy]

    def _kept(self, *, after: Sequence[pulumi.Resource] = ()) -> pulumi.ResourceOptions:
        """A bucket that outlives its stack keeps its guards."""
        return pulumi.ResourceOptions.merge(
            self._opts(after=after),
            pulumi.ResourceOptions(protect=self._is_protected, retain_on_delete=self._is_protected),
        )
