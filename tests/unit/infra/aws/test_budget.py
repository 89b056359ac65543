import json
from typing import Any

import pytest

from infra.aws.budget import STACK_TAG, Budget, may_stop, no_more_gpus, notifications
from infra.aws.config import BudgetConfig
from infra.config import StackConfig
from infra.names import LABEL_VENDOR, NO_VENDOR
from infra.node_pools import node_labels
from infra.recording import Resource
from tests.builders import an_aws_config, an_aws_stack
from tests.conftest import Deploy

EMAILS = ["one@example.com", "two@example.com"]
MONEY = BudgetConfig(usd_per_month=300, emails=EMAILS, stop_at_percent=130)
VENDOR_OF_A_GROUP = f"aws:ResourceTag/k8s.io/cluster-autoscaler/node-template/label/{LABEL_VENDOR}"


def a_config() -> StackConfig:
    return an_aws_stack(aws=an_aws_config(budget=MONEY))


def made_by(deploy: Deploy, config: StackConfig) -> dict[str, Resource]:
    made = deploy(lambda: Budget("budget", config, autoscaler_role_name="the-autoscaler"))
    return {resource.name: resource for resource in made.resources}


def the_statement(policy: str) -> dict[str, Any]:
    [statement] = json.loads(policy)["Statement"]
    assert isinstance(statement, dict)
    return statement


# Who is told when


def test_somebody_is_told_at_half_at_four_fifths_at_all_and_when_all_is_foreseen() -> None:
    told = [(each["notification_type"], each["threshold"]) for each in notifications(MONEY)]
    assert told == [("ACTUAL", 50), ("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100)]
    for each in notifications(MONEY):
        assert each["comparison_operator"] == "GREATER_THAN"
        assert each["threshold_type"] == "PERCENTAGE"
        assert each.get("subscriber_email_addresses") == EMAILS


def test_the_budget_is_the_months_and_counts_what_has_the_stacks_tag(deploy: Deploy) -> None:
    month = made_by(deploy, a_config())["budget-month"].inputs
    assert (month["limitAmount"], month["limitUnit"], month["timeUnit"]) == (
        "300",
        "USD",
        "MONTHLY",
    )
    assert month["budgetType"] == "COST"
    assert month["costFilters"] == [{"name": "TagKeyValue", "values": [f"user:{STACK_TAG}$test"]}]
    assert len(month["notifications"]) == 4


def test_what_credits_pay_for_counts_as_well(deploy: Deploy) -> None:
    month = made_by(deploy, a_config())["budget-month"].inputs
    assert month["costTypes"] == {"includeCredit": False, "includeRefund": False}


def test_the_budgets_name_is_one_that_aws_takes(deploy: Deploy) -> None:
    name = made_by(deploy, a_config())["budget-month"].inputs["name"]
    assert name == "crossvendor-test"
    assert not {":", "\\"} & set(name)


# What stops


def is_denied(action: str, tags: dict[str, str]) -> bool:
    """IAM's answer about a group of the account with these tags, from the one statement."""
    statement = the_statement(no_more_gpus(an_aws_config()))
    assert statement["Effect"] == "Deny"
    [(operator, test)] = statement["Condition"].items()
    [(key, allowed)] = test.items()
    assert operator == "StringNotEquals"  # true of a tag that is not there
    assert key == VENDOR_OF_A_GROUP
    return action in statement["Action"] and tags.get(LABEL_VENDOR) != allowed


@pytest.mark.parametrize("pool_name", a_config().node_pools)
def test_the_autoscaler_grows_groups_without_gpus_only(pool_name: str) -> None:
    pool = a_config().node_pools[pool_name]
    denied = is_denied("autoscaling:SetDesiredCapacity", node_labels(pool_name, pool))
    assert denied is (pool.vendor is not None)


def test_a_group_that_does_not_say_what_it_is_does_not_grow() -> None:
    assert is_denied("autoscaling:SetDesiredCapacity", {})
    assert not is_denied("autoscaling:SetDesiredCapacity", {LABEL_VENDOR: NO_VENDOR})


def test_idle_nodes_still_go() -> None:
    assert not is_denied("autoscaling:TerminateInstanceInAutoScalingGroup", {})


def test_groups_of_other_regions_and_accounts_are_not_meant() -> None:
    [resource] = the_statement(no_more_gpus(an_aws_config()))["Resource"]
    assert resource.startswith("arn:aws:autoscaling:us-east-1:123456789012:autoScalingGroup:")


def test_the_stop_is_automatic_and_at_the_stacks_percentage_of_what_was_spent(
    deploy: Deploy,
) -> None:
    made = made_by(deploy, a_config())
    stop = made["budget-stop"].inputs
    assert stop["budgetName"] == made["budget-month"].inputs["name"]
    assert (stop["actionType"], stop["approvalModel"]) == ("APPLY_IAM_POLICY", "AUTOMATIC")
    assert stop["notificationType"] == "ACTUAL"
    assert stop["actionThreshold"] == {
        "actionThresholdType": "PERCENTAGE",
        "actionThresholdValue": 130,
    }
    assert stop["subscribers"] == [
        {"address": email, "subscriptionType": "EMAIL"} for email in EMAILS
    ]


def test_the_stop_is_put_on_the_autoscalers_role(deploy: Deploy) -> None:
    made = made_by(deploy, a_config())
    action = made["budget-stop"]
    assert action.inputs["definition"]["iamActionDefinition"]["roles"] == ["the-autoscaler"]
    assert made["budget-no-more-gpus"].urn in action.depends_on
    assert made["budget-no-more-gpus"].inputs["policy"] == no_more_gpus(an_aws_config())


def test_no_policy_is_attached_before_the_money_is_gone(deploy: Deploy) -> None:
    made = made_by(deploy, a_config()).values()
    assert not [each for each in made if each.type.endswith(":RolePolicyAttachment")]


def test_aws_budgets_may_put_one_policy_on_one_role_and_nothing_else() -> None:
    statement = the_statement(
        may_stop(an_aws_config(), role_name="the-autoscaler", policy_arn="arn:stop")
    )
    assert statement["Effect"] == "Allow"
    assert statement["Action"] == ["iam:AttachRolePolicy", "iam:DetachRolePolicy"]
    assert statement["Resource"] == ["arn:aws:iam::123456789012:role/the-autoscaler"]
    assert statement["Condition"] == {"ArnEquals": {"iam:PolicyARN": "arn:stop"}}


def test_the_executors_role_is_for_aws_budgets(deploy: Deploy) -> None:
    made = made_by(deploy, a_config())
    trusted = the_statement(made["budget-executor"].inputs["assumeRolePolicy"])
    assert trusted["Principal"] == {"Service": "budgets.amazonaws.com"}
    allowed = the_statement(made["budget-executor-policy"].inputs["policy"])
    assert allowed["Resource"] == ["arn:aws:iam::123456789012:role/the-autoscaler"]


def test_a_stack_without_a_budget_gets_none(deploy: Deploy) -> None:
    with pytest.raises(ValueError, match=r"stack test: aws\.budget is missing"):
        made_by(deploy, an_aws_stack())
