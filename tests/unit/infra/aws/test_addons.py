import json
import re
from typing import Any

import pulumi_aws as aws
import pytest

from infra import versions
from infra.aws.addons import (
    AddonsAfterNodes,
    AddonsBeforeNodes,
    checked_addon_values,
    coredns_values,
    ebs_csi_values,
    volume_policy,
    vpc_cni_values,
)
from infra.node_pools import node_labels
from infra.recording import Recording, Resource
from tests.builders import an_aws_stack
from tests.conftest import Deploy

ADDON = "aws:eks/addon:Addon"
KEY = "arn:aws:kms:us-east-1:123456789012:key/1"


def before_nodes(deploy: Deploy) -> Recording:
    return deploy(lambda: AddonsBeforeNodes("addons", cluster_name="c"))


def after_nodes(deploy: Deploy) -> Recording:
    def program() -> None:
        nodes = aws.eks.NodeGroup(
            "system",
            cluster_name="c",
            node_role_arn="r",
            subnet_ids=[],
            scaling_config={"desired_size": 1, "max_size": 1, "min_size": 1},
        )
        AddonsAfterNodes(
            "addons", an_aws_stack(), cluster_name="c", disks_key_arn=KEY, after=[nodes]
        )

    return deploy(program)


def addons(made: Recording) -> dict[str, Resource]:
    return {addon.inputs["addonName"]: addon for addon in made.of_type(ADDON)}


def values(addon: Resource) -> dict[str, Any]:
    found = json.loads(addon.inputs["configurationValues"])
    assert isinstance(found, dict)
    return found


def versions_of(made: Recording) -> dict[str, str]:
    return {name: addon.inputs["addonVersion"] for name, addon in addons(made).items()}


def test_before_nodes_there_are_network_services_and_the_agent_for_roles(deploy: Deploy) -> None:
    assert versions_of(before_nodes(deploy)) == {
        "eks-pod-identity-agent": versions.EKS_POD_IDENTITY_AGENT,
        "vpc-cni": versions.EKS_VPC_CNI,
        "kube-proxy": versions.EKS_KUBE_PROXY,
    }


def test_after_nodes_there_are_names_and_volumes(deploy: Deploy) -> None:
    assert versions_of(after_nodes(deploy)) == {
        "coredns": versions.EKS_COREDNS,
        "aws-ebs-csi-driver": versions.EKS_EBS_CSI_DRIVER,
    }


@pytest.mark.parametrize("name", [key for key in vars(versions) if key.startswith("EKS_")])
def test_the_version_of_an_addon_is_exact(name: str) -> None:
    assert re.fullmatch(r"v\d+\.\d+\.\d+-eksbuild\.\d+", getattr(versions, name))


def test_the_services_proxy_is_of_the_clusters_minor() -> None:
    assert versions.EKS_KUBE_PROXY.startswith(f"v{versions.KUBERNETES_MINOR}.")


@pytest.mark.parametrize("stage", [before_nodes, after_nodes])
def test_what_the_program_says_wins_over_what_is_there(deploy: Deploy, stage: Any) -> None:
    for addon in addons(stage(deploy)).values():
        assert addon.inputs["resolveConflictsOnCreate"] == "OVERWRITE"
        assert addon.inputs["resolveConflictsOnUpdate"] == "OVERWRITE"


def test_the_agent_for_roles_comes_first(deploy: Deploy) -> None:
    made = addons(before_nodes(deploy))
    for name in ("vpc-cni", "kube-proxy"):
        assert made["eks-pod-identity-agent"].urn in made[name].depends_on


def test_names_and_volumes_wait_for_nodes(deploy: Deploy) -> None:
    made = after_nodes(deploy)
    [nodes] = made.of_type("aws:eks/nodeGroup:NodeGroup")
    for addon in addons(made).values():
        assert nodes.urn in addon.depends_on


@pytest.mark.parametrize(
    ("stage", "addon", "account", "policy"),
    [
        (before_nodes, "vpc-cni", "aws-node", "AmazonEKS_CNI_Policy"),
        (after_nodes, "aws-ebs-csi-driver", "ebs-csi-controller-sa", "AmazonEBSCSIDriverPolicyV2"),
    ],
)
def test_what_calls_aws_has_a_role_of_its_own(
    deploy: Deploy, stage: Any, addon: str, account: str, policy: str
) -> None:
    made = stage(deploy)
    found = addons(made)[addon]
    [association] = found.inputs["podIdentityAssociations"]
    assert association["serviceAccount"] == account
    [role] = made.of_type("aws:iam/role:Role")
    assert role.urn in found.depends_on
    assert json.loads(role.inputs["assumeRolePolicy"])["Statement"][0]["Principal"] == {
        "Service": "pods.eks.amazonaws.com"
    }
    [attached] = made.of_type("aws:iam/rolePolicyAttachment:RolePolicyAttachment")
    assert attached.inputs["policyArn"] == f"arn:aws:iam::aws:policy/{policy}"


@pytest.mark.parametrize("name", ["eks-pod-identity-agent", "kube-proxy"])
def test_what_calls_nothing_has_no_role(deploy: Deploy, name: str) -> None:
    assert "podIdentityAssociations" not in addons(before_nodes(deploy))[name].inputs


def test_volumes_can_be_encrypted_with_the_key_for_disks_and_with_no_other(deploy: Deploy) -> None:
    [policy] = after_nodes(deploy).of_type("aws:iam/rolePolicy:RolePolicy")
    assert policy.inputs["policy"] == volume_policy(KEY)
    use, grant = json.loads(volume_policy(KEY))["Statement"]
    assert use["Resource"] == grant["Resource"] == [KEY]
    assert grant["Action"] == ["kms:CreateGrant"]
    assert grant["Condition"] == {"Bool": {"kms:GrantIsForAWSResource": "true"}}


def test_the_network_enforces_policies_and_gives_addresses_by_prefix(deploy: Deploy) -> None:
    assert values(addons(before_nodes(deploy))["vpc-cni"]) == {
        "enableNetworkPolicy": "true",
        "env": {
            "ENABLE_PREFIX_DELEGATION": "true",
            "WARM_PREFIX_TARGET": "1",
            "NETWORK_POLICY_ENFORCING_MODE": "standard",
        },
        "nodeAgent": {"enablePolicyEventLogs": "false"},
    }


def test_dns_has_two_replicas(deploy: Deploy) -> None:
    found = values(addons(after_nodes(deploy))["coredns"])
    assert found == coredns_values()
    assert found["replicaCount"] == 2


def test_the_volumes_controller_knows_its_region_without_asking(deploy: Deploy) -> None:
    found = values(addons(after_nodes(deploy))["aws-ebs-csi-driver"])
    assert found == ebs_csi_values("us-east-1")
    assert found["controller"]["region"] == "us-east-1"


def test_the_volumes_daemon_is_on_every_node() -> None:
    assert ebs_csi_values("r")["node"] == {"tolerateAllTaints": True}


@pytest.mark.parametrize(
    "selector",
    [coredns_values()["nodeSelector"], ebs_csi_values("r")["controller"]["nodeSelector"]],
    ids=["coredns", "aws-ebs-csi-driver"],
)
def test_what_has_replicas_stays_on_nodes_without_gpus(selector: dict[str, str]) -> None:
    for name, pool in an_aws_stack().node_pools.items():
        fits = selector.items() <= node_labels(name, pool).items()
        assert fits == (pool.vendor is None)


@pytest.mark.parametrize(
    ("wrong", "path", "spelling"),
    [
        ({"enableNetworkPolicy": True}, "enableNetworkPolicy is True", '"true"'),
        ({"env": {"WARM_PREFIX_TARGET": 1}}, "env.WARM_PREFIX_TARGET is 1", '"1"'),
        ({"a": [{"b": None}]}, "a[0].b is None", '"null"'),
    ],
)
def test_the_networks_values_are_strings_or_refused(
    wrong: dict[str, Any], path: str, spelling: str
) -> None:
    with pytest.raises(ValueError, match=r"vpc-cni") as caught:
        checked_addon_values("vpc-cni", {**vpc_cni_values(), **wrong})
    assert str(caught.value) == (
        f"vpc-cni: {path}, but its schema takes strings; write {spelling}."
    )


def test_other_addons_take_numbers_and_switches() -> None:
    assert json.loads(checked_addon_values("coredns", {"replicaCount": 2})) == {"replicaCount": 2}
