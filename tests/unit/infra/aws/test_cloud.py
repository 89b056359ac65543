"""The whole program for every stack in the cloud: what all of it has in common, and the order."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from infra.config import StackConfig
from infra.recording import Recording, Resource
from infra.render import run_program
from tests.builders import CHECKOUT
from tests.recordings import ON_ONE_WORKER, recorded

pytestmark = ON_ONE_WORKER

STACKS = ("dev", "staging", "prod")
EACH_STACK = pytest.mark.parametrize("stack", STACKS)

CLUSTER = "aws:eks/cluster:Cluster"
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
ADDON = "aws:eks/addon:Addon"
RELEASE = "kubernetes:helm.sh/v3:Release"


def config_of(stack: str) -> StackConfig:
    return StackConfig.from_file(CHECKOUT / f"Pulumi.{stack}.yaml")


def before(made: Recording, resource: Resource) -> set[str]:
    """URNs of everything that exists before a resource, through any number of steps.

    A component stands for its children, as the engine takes it.
    """
    by_urn = {each.urn: each for each in made.resources}
    found: set[str] = set()
    waiting = list(resource.depends_on)
    while waiting:
        urn = waiting.pop()
        if urn in by_urn and urn not in found:
            found.add(urn)
            waiting += by_urn[urn].depends_on
    return found


def named(made: Recording, type_token: str, **inputs: str) -> Resource:
    [found] = [each for each in made.of_type(type_token) if inputs.items() <= each.inputs.items()]
    return found


@EACH_STACK
def test_two_runs_register_the_same(stack: str) -> None:
    def plain(made: Recording) -> list[tuple[str, str, str]]:
        return [(each.urn, json.dumps(each.inputs), each.provider) for each in made.resources]

    assert plain(run_program(CHECKOUT / f"Pulumi.{stack}.yaml")) == plain(recorded(stack))


@EACH_STACK
def test_nothing_goes_through_a_default_provider(stack: str) -> None:
    made = recorded(stack)
    [account] = made.of_type("pulumi:providers:aws")
    [cluster] = made.of_type("pulumi:providers:kubernetes")
    for each in made.resources:
        if each.type.startswith("aws:"):
            assert each.provider.startswith(account.urn), each.urn
        if each.type.startswith("kubernetes:"):
            assert each.provider.startswith(cluster.urn), each.urn


@EACH_STACK
def test_only_the_stacks_own_account_is_touched(stack: str) -> None:
    [account] = recorded(stack).of_type("pulumi:providers:aws")
    assert json.loads(account.inputs["allowedAccountIds"]) == [config_of(stack).cloud.account_id]
    assert account.inputs["region"] == config_of(stack).cloud.region
    tags = json.loads(account.inputs["defaultTags"])["tags"]
    assert tags["crossvendor:stack"] == stack


@EACH_STACK
def test_nodes_wait_for_their_network_and_the_right_to_join(stack: str) -> None:
    made = recorded(stack)
    needed = [named(made, ADDON, addonName=name) for name in ("vpc-cni", "kube-proxy")]
    needed.append(named(made, ADDON, addonName="eks-pod-identity-agent"))
    needed += made.of_type("aws:ec2/routeTableAssociation:RouteTableAssociation")
    needed += made.of_type("aws:ec2/vpcEndpoint:VpcEndpoint")
    needed += made.of_type("aws:eks/accessEntry:AccessEntry")
    groups = made.of_type(NODE_GROUP)
    assert len(groups) == len(config_of(stack).node_pools)
    for group in groups:
        assert {each.urn for each in needed} <= before(made, group)


@EACH_STACK
def test_what_runs_in_pods_waits_for_nodes_and_dns(stack: str) -> None:
    made = recorded(stack)
    config = config_of(stack)
    [plain] = [
        group
        for group in made.of_type(NODE_GROUP)
        if not config.node_pools[group.inputs["labels"]["crossvendor.dev/pool"]].vendor
    ]
    dns = named(made, ADDON, addonName="coredns")
    assert plain.urn in before(made, dns)
    for release in made.of_type(RELEASE):
        assert {plain.urn, dns.urn} <= before(made, release), release.name


@EACH_STACK
def test_no_addon_and_no_release_waits_for_gpus(stack: str) -> None:
    made = recorded(stack)
    config = config_of(stack)
    gpus = {
        group.urn
        for group in made.of_type(NODE_GROUP)
        if config.node_pools[group.inputs["labels"]["crossvendor.dev/pool"]].vendor
    }
    assert len(gpus) == 2
    for each in (*made.of_type(ADDON), *made.of_type(RELEASE)):
        assert not gpus & before(made, each), each.name


@EACH_STACK
def test_nobody_acts_in_the_cluster_before_the_administrators_may(stack: str) -> None:
    made = recorded(stack)
    entries = {each.urn for each in made.of_type("aws:eks/accessEntry:AccessEntry")}
    assert len(entries) == len(config_of(stack).cloud.administrators)
    [provider] = made.of_type("pulumi:providers:kubernetes")
    assert entries <= before(made, provider)


def policies(made: Recording) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every statement of every policy document in a program, with where it is."""
    for each in made.resources:
        for key, value in each.inputs.items():
            if isinstance(value, str) and value.startswith("{") and '"Statement"' in value:
                for statement in json.loads(value)["Statement"]:
                    yield f"{each.name}.{key}", statement


@EACH_STACK
def test_nobody_may_do_everything_with_everything(stack: str) -> None:
    found = list(policies(recorded(stack)))
    assert len(found) > 10
    for where, statement in found:
        if statement["Effect"] == "Allow" and "Principal" not in statement:
            actions = statement["Action"]
            assert not any(action == "*" or action.endswith(":*") for action in actions), where


@EACH_STACK
def test_nothing_is_reachable_from_the_internet(stack: str) -> None:
    made = recorded(stack)
    for each in made.resources:
        text = json.dumps(each.inputs)
        if "Ingress" in each.type or each.type == "aws:ec2/securityGroup:SecurityGroup":
            assert "0.0.0.0/0" not in text, each.name
        assert 'associatePublicIpAddress": true' not in text, each.name
        assert "keyName" not in each.inputs, each.name
    assert "0.0.0.0/0" not in json.dumps(named(made, CLUSTER).inputs)


def test_outputs_lead_to_the_cluster_and_to_where_images_go() -> None:
    outputs = recorded("dev").outputs["cluster"]
    assert outputs.keys() == {"kubeconfig", "repositories", "bucket"}
    assert "get-token" in outputs["kubeconfig"]
