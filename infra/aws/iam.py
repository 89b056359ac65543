"""IAM documents and roles: built as data, so that tests and a linter can read them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pulumi
import pulumi_aws as aws

POD_IDENTITY: Final = "pods.eks.amazonaws.com"
"""Who takes a role on behalf of a pod."""
_VERSION: Final = "2012-10-17"


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One permission; `sid` says what it is for. `*` as the resource needs a reason beside it."""

    sid: str
    actions: Sequence[str]
    resources: Sequence[str] = ("*",)
    condition: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    principal: Mapping[str, str] | str | None = None
    """For policies on a resource only."""
    effect: str = "Allow"

    def to_dict(self) -> dict[str, Any]:
        """In IAM's spelling."""
        found: dict[str, Any] = {
            "Sid": self.sid,
            "Effect": self.effect,
            "Action": list(self.actions),
            "Resource": list(self.resources),
        }
        if self.principal is not None:
            found["Principal"] = self.principal
        if self.condition:
            found["Condition"] = {key: dict(test) for key, test in self.condition.items()}
        return found


def document(*statements: Statement) -> str:
    """A policy document as JSON."""
    found = {"Version": _VERSION, "Statement": [each.to_dict() for each in statements]}
    return json.dumps(found, indent=1)


def trust(service: str, *, account_id: str | None = None) -> str:
    """Who may take a role: an AWS service, or with POD_IDENTITY the pods that are associated.

    With `account_id` only on behalf of that account, where the service says for whom it acts.
    """
    actions = ["sts:AssumeRole"]
    if service == POD_IDENTITY:
        actions.append("sts:TagSession")  # it hands on the pod's namespace and name as tags
    statement: dict[str, Any] = {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": actions,
    }
    if account_id is not None:
        statement["Condition"] = {"StringEquals": {"aws:SourceAccount": account_id}}
    return json.dumps({"Version": _VERSION, "Statement": [statement]}, indent=1)


@dataclass(frozen=True, kw_only=True)
class Role:
    """A role with its policies."""

    name: pulumi.Output[str]
    arn: pulumi.Output[str]
    """Known once the policies are there: who takes the role waits for its rights, and goes first.

    `depends_on` the role alone leaves them out: Pulumi follows components to their children only.
    """


def role(
    name: str,
    *,
    service: str,
    managed: Sequence[str] = (),
    policy: pulumi.Input[str] | None = None,
    opts: pulumi.ResourceOptions,
) -> Role:
    """A role for a service, with AWS's own policies by name and at most one of ours.

    `managed` are the parts after `arn:aws:iam::aws:policy/`. The policies are children of the role.
    """
    made = aws.iam.Role(name, assume_role_policy=trust(service), opts=opts)
    below = pulumi.ResourceOptions(parent=made)
    policies: list[pulumi.CustomResource] = [
        aws.iam.RolePolicyAttachment(
            f"{name}-{each.rpartition('/')[2]}",
            role=made.name,
            policy_arn=f"arn:aws:iam::aws:policy/{each}",
            opts=below,
        )
        for each in managed
    ]
    if policy is not None:
        policies.append(
            aws.iam.RolePolicy(f"{name}-policy", role=made.name, policy=policy, opts=below)
        )
    arns = pulumi.Output.all(made.arn, *[each.id for each in policies])
    return Role(name=made.name, arn=arns.apply(lambda found: str(found[0])))
