"""Type tokens are in the state of everybody's stacks: a changed one replaces resources."""

from infra.render import run_program
from tests.builders import CHECKOUT

COMPONENTS = {
    "crossvendor:platform:DevicePlugins",
    "crossvendor:platform:Namespaces",
    "crossvendor:platform:NetworkPolicies",
    "crossvendor:platform:Platform",
    "crossvendor:platform:Priorities",
    "crossvendor:platform:Queues",
    "crossvendor:platform:Quotas",
    "crossvendor:platform:ServiceAccounts",
    "crossvendor:platform:Volcano",
}


def test_the_components_of_a_stack_keep_their_tokens() -> None:
    recording = run_program(CHECKOUT / "Pulumi.local.yaml")
    found = {made.type for made in recording.resources if made.type.startswith("crossvendor:")}
    assert found == COMPONENTS
