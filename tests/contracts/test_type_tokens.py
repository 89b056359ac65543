"""Type tokens are in the state of everybody's stacks: a changed one replaces resources."""

import pytest

from tests.recordings import ON_ONE_WORKER, recorded

pytestmark = ON_ONE_WORKER

PLATFORM = {
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


CLOUD = {
    "crossvendor:aws:AddonsAfterNodes",
    "crossvendor:aws:AddonsBeforeNodes",
    "crossvendor:aws:AmdImageMachine",
    "crossvendor:aws:AmdImagePipeline",
    "crossvendor:aws:Budget",
    "crossvendor:aws:Cloud",
    "crossvendor:aws:Cluster",
    "crossvendor:aws:ClusterAutoscaler",
    "crossvendor:aws:Endpoints",
    "crossvendor:aws:FlowLogs",
    "crossvendor:aws:Keys",
    "crossvendor:aws:Network",
    "crossvendor:aws:NodeGroups",
    "crossvendor:aws:Registry",
    "crossvendor:aws:Storage",
    "crossvendor:aws:Subnets",
}


@pytest.mark.parametrize(
    ("stack", "expected"), [("local", PLATFORM), ("dev", PLATFORM | CLOUD)], ids=["local", "dev"]
)
def test_the_components_of_a_stack_keep_their_tokens(stack: str, expected: set[str]) -> None:
    recording = recorded(stack)
    found = {made.type for made in recording.resources if made.type.startswith("crossvendor:")}
    assert found == expected
