import json
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as kubernetes
import pytest

from infra import versions
from infra.accelerators import ACCELERATORS, Vendor
from infra.aws.autoscaling import (
    CHART,
    GPU_UNNEEDED,
    LABEL_ACCELERATOR,
    NAME,
    NAMESPACE,
    PREFIX,
    TEMPLATE,
    ClusterAutoscaler,
    chart_values,
    check_tags,
    ephemeral_gib,
    group_labels,
    group_tags,
    policy,
    tag_group_behind,
    template_tags,
)
from infra.config import NodePool
from infra.names import LABEL_POOL, LABEL_VENDOR, NO_VENDOR
from infra.recording import Recording
from tests.builders import a_gpu_pool, an_aws_stack
from tests.conftest import Deploy

TAG = "aws:autoscaling/tag:Tag"
RELEASE = "kubernetes:helm.sh/v3:Release"

each_vendor = pytest.mark.parametrize("vendor", Vendor)


def a_pool_without_gpus() -> NodePool:
    return NodePool(instance_type="m6i.large")


@each_vendor
def test_a_gpu_nodes_labels_say_that_it_is_not_ready_before_its_gpu_is(vendor: Vendor) -> None:
    labels = group_labels("gpus", a_gpu_pool(vendor))
    assert labels[LABEL_ACCELERATOR] == vendor.value
    assert ACCELERATORS[vendor].node_labels.items() <= labels.items()


def test_a_node_without_gpus_has_no_gpu_to_wait_for() -> None:
    assert group_labels("system", a_pool_without_gpus()) == {
        LABEL_POOL: "system",
        LABEL_VENDOR: NO_VENDOR,
    }


@each_vendor
def test_the_tags_say_every_label_and_taint_of_a_node(vendor: Vendor) -> None:
    pool = a_gpu_pool(vendor)
    tags = template_tags("gpus", pool)
    for key, value in group_labels("gpus", pool).items():
        assert tags[f"{TEMPLATE}/label/{key}"] == value
    taint = ACCELERATORS[vendor].taint
    assert tags[f"{TEMPLATE}/taint/{taint.key}"] == "present:NoSchedule"


@each_vendor
def test_the_tags_give_a_node_its_own_vendors_gpus_and_none_of_the_others(vendor: Vendor) -> None:
    pool = NodePool(instance_type=f"{ACCELERATORS[vendor].instance_family}.xlarge")
    tags = template_tags("gpus", pool)
    for other in Vendor:
        resource = f"{TEMPLATE}/resources/{ACCELERATORS[other].resource}"
        assert tags[resource] == ("1" if other is vendor else "0")


def test_a_node_without_gpus_offers_no_vendors() -> None:
    tags = template_tags("system", a_pool_without_gpus())
    for accelerator in ACCELERATORS.values():
        assert tags[f"{TEMPLATE}/resources/{accelerator.resource}"] == "0"
    assert not [key for key in tags if "/taint/" in key]


@pytest.mark.parametrize(("disk", "left"), [(20, 17), (50, 44), (150, 134), (155, 138)])
def test_pods_may_ask_for_what_is_left_of_the_disk(disk: int, left: int) -> None:
    assert ephemeral_gib(disk) == left
    if disk >= 50:
        tags = template_tags("p", NodePool(instance_type="m6i.large", disk_gib=disk))
        assert tags[f"{TEMPLATE}/resources/ephemeral-storage"] == f"{left}Gi"


def test_only_gpu_nodes_wait_longer_before_they_go() -> None:
    option = f"{TEMPLATE}/autoscaling-options/scaledownunneededtime"
    assert option not in template_tags("system", a_pool_without_gpus())
    for vendor in Vendor:
        assert template_tags("gpus", a_gpu_pool(vendor))[option] == GPU_UNNEEDED == "30m0s"


def test_a_group_is_enabled_and_owned_by_its_cluster() -> None:
    pool = a_pool_without_gpus()
    tags = group_tags("system", pool, cluster_name="crossvendor-test")
    assert tags == {
        **template_tags("system", pool),
        f"{PREFIX}/crossvendor-test": "owned",
    }
    assert tags[f"{PREFIX}/enabled"] == "true"


@pytest.mark.parametrize(
    ("tags", "sentence"),
    [
        (
            {"k" * 129: "v"},
            "tags: key '" + "k" * 129 + "' has 129 characters; AWS takes at most 128.",
        ),
        ({"k": "v" * 257}, "of k has 257 characters; AWS takes at most 256."),
        ({"k!": "v"}, "tags: key 'k!' has characters that AWS refuses; use letters, digits,"),
        ({"k": "a,b"}, "tags: value 'a,b' of k has characters that AWS refuses;"),
        ({"k": "a\n"}, r"tags: value 'a\n' of k has characters that AWS refuses;"),
        ({"": "v"}, "tags: the key of value 'v' is empty; use at least one character."),
        ({"AWS:k": "v"}, "tags: key 'AWS:k' begins with aws:, which AWS keeps for itself;"),
        ({"k": "aws:v"}, "tags: value 'aws:v' of k begins with aws:,"),
    ],
)
def test_a_tag_that_aws_would_refuse_is_refused(tags: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError, match="tags: ") as refusal:
        check_tags({"fine": "", **tags})
    assert sentence in str(refusal.value)


def test_the_longest_tag_that_aws_takes_is_taken() -> None:
    check_tags({"k" * 128: "v" * 256, "Az09 +-=._:/@": "Az09 +-=._:/@"})


@each_vendor
def test_a_groups_tags_are_checked(vendor: Vendor) -> None:
    with pytest.raises(ValueError, match="has characters that AWS refuses"):
        template_tags("gpus!", a_gpu_pool(vendor))
    with pytest.raises(ValueError, match="has characters that AWS refuses"):
        group_tags("gpus", a_gpu_pool(vendor), cluster_name="a*")


def test_the_group_behind_a_node_group_gets_each_tag_and_its_machines_none(deploy: Deploy) -> None:
    def program() -> None:
        behind = aws.eks.outputs.NodeGroupResourceAutoscalingGroup(name="eks-group-1")
        resource = aws.eks.outputs.NodeGroupResource(autoscaling_groups=[behind])
        tag_group_behind(
            "g",
            pulumi.Output.from_input("").apply(lambda _: [resource]),
            {f"{PREFIX}/enabled": "true", f"{TEMPLATE}/label/a/b": "c"},
            cluster_name=pulumi.Output.from_input("crossvendor-test"),
            opts=pulumi.ResourceOptions(),
        )

    made = {tag.name: tag.inputs for tag in deploy(program).of_type(TAG)}
    assert {inputs["autoscalingGroupName"] for inputs in made.values()} == {"eks-group-1"}
    assert {name: inputs["tag"] for name, inputs in made.items()} == {
        "g-enabled": a_tag(f"{PREFIX}/enabled", "true"),
        "g-label-a-b": a_tag(f"{TEMPLATE}/label/a/b", "c"),
        "g-owner": a_tag(f"{PREFIX}/crossvendor-test", "owned"),
    }


def a_tag(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": value, "propagateAtLaunch": False}


def statements() -> dict[str, dict[str, Any]]:
    text = policy(region="us-east-1", account_id="123456789012", cluster_name="crossvendor-test")
    return {each["Sid"]: each for each in json.loads(text)["Statement"]}


def test_the_autoscaler_changes_groups_of_its_own_cluster_only() -> None:
    writing = statements()["ScaleOwnGroups"]
    assert writing["Action"] == [
        "autoscaling:SetDesiredCapacity",
        "autoscaling:TerminateInstanceInAutoScalingGroup",
    ]
    assert writing["Resource"] == [
        "arn:aws:autoscaling:us-east-1:123456789012:autoScalingGroup:*:autoScalingGroupName/*"
    ]
    assert writing["Condition"] == {
        "StringEquals": {
            "aws:ResourceTag/k8s.io/cluster-autoscaler/enabled": "true",
            "aws:ResourceTag/k8s.io/cluster-autoscaler/crossvendor-test": "owned",
        }
    }


def test_what_is_allowed_everywhere_only_reads() -> None:
    found = statements()
    for each in found.values():
        if each["Resource"] == ["*"]:
            verbs = {action.partition(":")[2] for action in each["Action"]}
            assert all(verb.startswith(("Describe", "Get")) for verb in verbs)
    assert found["ReadNodeGroups"]["Resource"] == [
        "arn:aws:eks:us-east-1:123456789012:nodegroup/crossvendor-test/*"
    ]


def values() -> dict[str, Any]:
    return chart_values(region="us-east-1", cluster_name="crossvendor-test")


def test_the_autoscaler_is_of_kubernetes_own_minor_version() -> None:
    assert values()["image"] == {"tag": f"v{versions.CLUSTER_AUTOSCALER}"}
    assert versions.CLUSTER_AUTOSCALER.startswith(f"{versions.KUBERNETES_MINOR}.")


def test_the_autoscaler_finds_the_clusters_groups_by_their_tags() -> None:
    assert values()["cloudProvider"] == "aws"
    assert values()["awsRegion"] == "us-east-1"
    assert values()["autoDiscovery"] == {"clusterName": "crossvendor-test"}


def test_the_autoscaler_runs_on_nodes_without_gpus() -> None:
    assert values()["nodeSelector"] == {LABEL_VENDOR: NO_VENDOR}
    assert "tolerations" not in values()


def test_the_autoscaler_gives_nodes_time_and_keeps_vendors_apart() -> None:
    assert values()["extraArgs"] == {
        "expander": "least-waste",
        "balance-similar-node-groups": False,
        "skip-nodes-with-system-pods": False,
        "scale-down-unneeded-time": "20m",
        "max-node-provision-time": "20m",
    }


def test_the_autoscalers_container_has_no_rights_on_its_node() -> None:
    assert values()["securityContext"]["runAsNonRoot"] is True
    assert values()["containerSecurityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


@pytest.fixture
def made(deploy: Deploy) -> Recording:
    def program() -> None:
        nodes = kubernetes.core.v1.ConfigMap("nodes")
        ClusterAutoscaler(
            "scaler",
            an_aws_stack(),
            cluster_name=pulumi.Output.from_input("crossvendor-test"),
            after=[nodes],
        )

    return deploy(program)


def test_the_release_is_the_pinned_chart_in_kube_system(made: Recording) -> None:
    [release] = made.of_type(RELEASE)
    assert release.inputs["chart"] == "cluster-autoscaler"
    assert release.inputs["version"] == CHART.version == "9.59.0"
    assert release.inputs["repositoryOpts"] == {"repo": "https://kubernetes.github.io/autoscaler"}
    assert (release.inputs["name"], release.inputs["namespace"]) == (NAME, "kube-system")
    assert release.inputs["values"] == values()


def test_the_pods_have_their_role_before_they_are_made(made: Recording) -> None:
    [release] = made.of_type(RELEASE)
    [association] = made.of_type("aws:eks/podIdentityAssociation:PodIdentityAssociation")
    [allowed] = made.of_type("aws:iam/rolePolicy:RolePolicy")
    assert association.urn in release.depends_on
    assert allowed.urn in association.depends_on
    account = release.inputs["values"]["rbac"]["serviceAccount"]
    assert account == {"create": True, "name": association.inputs["serviceAccount"]}
    assert association.inputs["namespace"] == NAMESPACE
    assert association.inputs["clusterName"] == "crossvendor-test"


def test_the_role_is_for_pods_and_has_one_policy_of_ours(made: Recording) -> None:
    [role] = made.of_type("aws:iam/role:Role")
    [trusted] = json.loads(role.inputs["assumeRolePolicy"])["Statement"]
    assert trusted["Principal"] == {"Service": "pods.eks.amazonaws.com"}
    [allowed] = made.of_type("aws:iam/rolePolicy:RolePolicy")
    assert allowed.inputs["policy"] == policy(
        region="us-east-1", account_id="123456789012", cluster_name="crossvendor-test"
    )
    assert made.of_type("aws:iam/rolePolicyAttachment:RolePolicyAttachment") == []


def test_the_autoscaler_starts_after_what_its_pods_need(made: Recording) -> None:
    [nodes] = made.of_type("kubernetes:core/v1:ConfigMap")
    assert nodes.urn in made.of_type(RELEASE)[0].depends_on
