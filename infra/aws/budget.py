"""The stack's budget: mails while the month's money goes, and then no further GPU node.

Nodes are started by AWSServiceRoleForAutoScaling, and nobody can attach a policy to a
service-linked role, so a budget action cannot take RunInstances from it. What it can take is the
autoscaler's SetDesiredCapacity, the one way by which a job makes a group grow. Nodes that run keep
running, and go when idle: TerminateInstanceInAutoScalingGroup stays allowed.
"""

from typing import Final

import pulumi
import pulumi_aws as aws

from infra.aws.config import AwsConfig, BudgetConfig
from infra.aws.iam import Statement, document, role
from infra.component import Component
from infra.config import StackConfig
from infra.names import LABEL_VENDOR, NO_VENDOR, PROJECT

STACK_TAG: Final = f"{PROJECT}:stack"
"""Tag of everything that costs money, by which the budget finds it; the value is the stack's name.

AWS counts by it from the day on which somebody with the payer's account activates it as a cost
allocation tag (Billing, or `aws ce update-cost-allocation-tags-status`); until then the budget
stays at 0 and nothing is stopped."""
MAIL_AT: Final = (("ACTUAL", 50), ("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100))
"""What is compared with the budget, and at which percentage somebody is told."""
_VENDOR_TAG: Final = f"k8s.io/cluster-autoscaler/node-template/label/{LABEL_VENDOR}"
"""On every Auto Scaling group: what the autoscaler knows about its nodes before there are any."""


def notifications(budget: BudgetConfig) -> list[aws.budgets.BudgetNotificationArgsDict]:
    """Who is told when."""
    return [
        {
            "comparison_operator": "GREATER_THAN",
            "notification_type": kind,
            "threshold": percent,
            "threshold_type": "PERCENTAGE",
            "subscriber_email_addresses": list(budget.emails),
        }
        for kind, percent in MAIL_AT
    ]


def no_more_gpus(cloud: AwsConfig) -> str:
    """Takes from the autoscaler the right to grow a group, unless the group says it has no GPUs.

    A group without the tag counts as one with GPUs: StringNotEquals is true of a missing key.
    """
    return document(
        Statement(
            sid="NoMoreGpuNodes",
            effect="Deny",
            actions=["autoscaling:SetDesiredCapacity"],
            # EKS makes up the groups' names; the condition says which ones are meant.
            resources=[
                f"arn:aws:autoscaling:{cloud.region}:{cloud.account_id}"
                ":autoScalingGroup:*:autoScalingGroupName/*"
            ],
            condition={"StringNotEquals": {f"aws:ResourceTag/{_VENDOR_TAG}": NO_VENDOR}},
        )
    )


def may_stop(cloud: AwsConfig, *, role_name: str, policy_arn: str) -> str:
    """What AWS Budgets may do: put this one policy on the autoscaler's role, and take it off."""
    return document(
        Statement(
            sid="StopAndResume",
            actions=["iam:AttachRolePolicy", "iam:DetachRolePolicy"],
            resources=[f"arn:aws:iam::{cloud.account_id}:role/{role_name}"],
            condition={"ArnEquals": {"iam:PolicyARN": policy_arn}},
        )
    )


class Budget(Component):
    """The month's money of one stack. AWS looks at it up to three times a day, not at once.

    After a stop, `aws budgets execute-budget-action` with REVERSE_BUDGET_ACTION lets the autoscaler
    go on, and with RESET_BUDGET_ACTION afterwards the budget can stop it again. Before
    `pulumi destroy` it has to be reversed as well: IAM deletes no policy that is attached.
    """

    def __init__(
        self,
        name: str,
        config: StackConfig,
        *,
        autoscaler_role_name: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`autoscaler_role_name` is a role without a path. Raises ValueError without a budget."""
        super().__init__("aws:Budget", name, opts)
        cloud = config.cloud
        budget = cloud.budget
        if budget is None:
            msg = f"stack {config.stack}: aws.budget is missing; make a budget only where it is."
            raise ValueError(msg)
        month = aws.budgets.Budget(
            f"{name}-month",
            name=config.full_name,  # it is in the mails, and in the commands above
            budget_type="COST",
            time_unit="MONTHLY",
            limit_amount=str(budget.usd_per_month),
            limit_unit="USD",
            cost_filters=[{"name": "TagKeyValue", "values": [f"user:{STACK_TAG}${config.stack}"]}],
            # What is used counts, whether or not somebody's credits pay for it.
            cost_types={"include_credit": False, "include_refund": False},
            notifications=notifications(budget),
            opts=self._opts(),
        )
        stop = aws.iam.Policy(
            f"{name}-no-more-gpus",
            description=f"Attached by the budget of {config.full_name}: no further GPU node",
            policy=no_more_gpus(cloud),
            opts=self._opts(),
        )
        # The trust asks for no source account: all that the role can do is this stop, and whether
        # AWS Budgets names the account when it takes a role is not written anywhere.
        executor = role(
            f"{name}-executor",
            service="budgets.amazonaws.com",
            policy=pulumi.Output.all(role=autoscaler_role_name, policy=stop.arn).apply(
                lambda of: may_stop(cloud, role_name=of["role"], policy_arn=of["policy"])
            ),
            opts=self._opts(),
        )
        aws.budgets.BudgetAction(
            f"{name}-stop",
            budget_name=month.name,
            action_type="APPLY_IAM_POLICY",
            approval_model="AUTOMATIC",
            notification_type="ACTUAL",
            action_threshold={
                "action_threshold_type": "PERCENTAGE",
                "action_threshold_value": budget.stop_at_percent,
            },
            definition={
                "iam_action_definition": {
                    "policy_arn": stop.arn,
                    "roles": [autoscaler_role_name],
                }
            },
            execution_role_arn=executor.arn,
            subscribers=[
                {"address": email, "subscription_type": "EMAIL"} for email in budget.emails
            ],
            opts=self._opts(),
        )
        self.register_outputs({})
