import base64
import json
import re
from collections.abc import Callable
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from infra.accelerators import ACCELERATORS, Vendor
from infra.aws.autoscaling import group_labels, group_tags, template_tags
from infra.aws.config import MAX_PODS
from infra.aws.node_groups import NODE_POLICIES, NodeGroups, ami_type, user_data
from infra.aws.user_data import node_config
from infra.config import NodePool, StackConfig
from infra.instances import InstanceType
from infra.recording import Recording
from infra.versions import KUBERNETES_MINOR
from tests.builders import a_gpu_pool, an_aws_config, an_aws_stack
from tests.conftest import Deploy
from workloads.jobs import ROLE_LAUNCHER, allreduce
from workloads.volcano import Resources

GROUP: Final = "aws:eks/nodeGroup:NodeGroup"
TEMPLATE: Final = "aws:ec2/launchTemplate:LaunchTemplate"
TAG: Final = "aws:autoscaling/tag:Tag"
ATTACHMENT: Final = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
PLACEMENT: Final = "aws:ec2/placementGroup:PlacementGroup"

CLUSTER: Final = {
    "cluster_name": "crossvendor-test",
    "endpoint": "https://example.eks.amazonaws.com",
    "certificate_authority": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==",
}

each_vendor = pytest.mark.parametrize("vendor", Vendor)
each_pool = pytest.mark.parametrize("pool_name", ["system", *(vendor.value for vendor in Vendor)])
own_images = pytest.mark.parametrize(
    "vendor", [vendor for vendor in Vendor if ACCELERATORS[vendor].ami_type is None]
)

Made = Callable[..., Recording]


def program_of(config: StackConfig) -> NodeGroups:
    return NodeGroups(
        "nodes",
        config,
        cluster_name=pulumi.Output.from_input(CLUSTER["cluster_name"]),
        endpoint=pulumi.Output.from_input(CLUSTER["endpoint"]),
        certificate_authority=pulumi.Output.from_input(CLUSTER["certificate_authority"]),
        security_group_ids=["sg-cluster", "sg-nodes"],
        node_subnet_ids=["subnet-a", "subnet-b"],
        gpu_subnet_id="subnet-gpu",
        disks_key_arn="arn:key",
        tags={"stack": "test"},
        after=[kubernetes.core.v1.ConfigMap("add-on")],
    )


@pytest.fixture
def made(deploy: Deploy) -> Made:
    def run(**changes: Any) -> Recording:
        return deploy(lambda: program_of(an_aws_stack(**changes)))

    return run


def inputs(recording: Recording, kind: str, pool_name: str) -> dict[str, Any]:
    [resource] = [each for each in recording.of_type(kind) if each.name == f"nodes-{pool_name}"]
    return resource.inputs


def test_every_pool_has_a_template_and_a_group(made: Made) -> None:
    recording = made()
    names = [f"nodes-{pool_name}" for pool_name in an_aws_stack().node_pools]
    assert [each.name for each in recording.of_type(TEMPLATE)] == names
    assert [each.name for each in recording.of_type(GROUP)] == names


def test_groups_are_found_by_their_pools(deploy: Deploy) -> None:
    found: list[set[str]] = []
    deploy(lambda: found.append(set(program_of(an_aws_stack()).groups)))
    assert found == [set(an_aws_stack().node_pools)]


@each_pool
def test_a_group_has_the_pools_sizes_types_labels_and_taints(made: Made, pool_name: str) -> None:
    group = inputs(made(), GROUP, pool_name)
    pool = an_aws_stack().node_pools[pool_name]
    assert group["scalingConfig"] == {"desiredSize": 1, "minSize": 0, "maxSize": 4}
    assert group["instanceTypes"] == [pool.instance_type]
    assert group["capacityType"] == "ON_DEMAND"
    assert group["labels"] == group_labels(pool_name, pool)
    taints = [] if pool.vendor is None else [ACCELERATORS[pool.vendor].taint.for_eks()]
    assert group["taints"] == taints


@each_vendor
def test_a_pool_on_spot_takes_what_else_it_names(made: Made, vendor: Vendor) -> None:
    other = f"{ACCELERATORS[vendor].instance_family}.2xlarge"
    pool = a_gpu_pool(vendor, capacity="spot", other_instance_types=[other])
    pools = {"system": NodePool(instance_type="m6i.large"), "gpus": pool}
    group = inputs(made(node_pools=pools), GROUP, "gpus")
    assert group["instanceTypes"] == [pool.instance_type, other]
    assert group["capacityType"] == "SPOT"


def test_the_autoscaler_and_not_the_program_owns_the_number_of_nodes(deploy: Deploy) -> None:
    ignored: dict[str, list[str]] = {}

    def program() -> None:
        pulumi.runtime.register_stack_transformation(
            lambda args: ignored.update({args.type_: args.opts.ignore_changes or []})
        )
        program_of(an_aws_stack())

    deploy(program)
    assert ignored[GROUP] == ["scalingConfig.desiredSize"]
    assert [kind for kind, keys in ignored.items() if keys] == [GROUP]


@each_vendor
def test_gpus_are_in_one_subnet(made: Made, vendor: Vendor) -> None:
    assert inputs(made(), GROUP, vendor.value)["subnetIds"] == ["subnet-gpu"]


def test_nodes_without_gpus_are_in_every_zone(made: Made) -> None:
    assert inputs(made(), GROUP, "system")["subnetIds"] == ["subnet-a", "subnet-b"]


@each_vendor
def test_a_group_has_eks_image_in_our_version_or_the_templates_image(
    made: Made, vendor: Vendor
) -> None:
    recording = made()
    group = inputs(recording, GROUP, vendor.value)
    template = inputs(recording, TEMPLATE, vendor.value)
    [device] = template["blockDeviceMappings"]
    family = ACCELERATORS[vendor].ami_type
    assert "releaseVersion" not in group
    if family is None:
        assert template["imageId"] == "ami-0123456789abcdef0"
        assert not group.keys() & {"amiType", "version"}
        assert device["deviceName"] == "/dev/sda1"
    else:
        assert "imageId" not in template
        assert (group["amiType"], group["version"]) == (family, KUBERNETES_MINOR)
        assert device["deviceName"] == "/dev/xvda"


def test_nodes_without_gpus_have_eks_standard_image(made: Made) -> None:
    assert ami_type(NodePool(instance_type="m6i.large")) == "AL2023_x86_64_STANDARD"
    assert inputs(made(), GROUP, "system")["amiType"] == "AL2023_x86_64_STANDARD"


@each_pool
def test_a_nodes_disk_is_large_encrypted_with_our_key_and_goes_with_it(
    made: Made, pool_name: str
) -> None:
    [device] = inputs(made(), TEMPLATE, pool_name)["blockDeviceMappings"]
    assert device["ebs"] == {
        "volumeSize": 150,
        "volumeType": "gp3",
        "encrypted": "true",
        "kmsKeyId": "arn:key",
        "deleteOnTermination": "true",
    }


@each_pool
def test_pods_cannot_ask_for_their_nodes_role(made: Made, pool_name: str) -> None:
    assert inputs(made(), TEMPLATE, pool_name)["metadataOptions"] == {
        "httpEndpoint": "enabled",
        "httpTokens": "required",
        "httpPutResponseHopLimit": 1,
    }


@each_pool
def test_a_node_has_no_public_address_and_both_security_groups(made: Made, pool_name: str) -> None:
    template = inputs(made(), TEMPLATE, pool_name)
    assert template["networkInterfaces"] == [
        {
            "deviceIndex": 0,
            "associatePublicIpAddress": "false",
            "deleteOnTermination": "true",
            "securityGroups": ["sg-cluster", "sg-nodes"],
        }
    ]
    assert "vpcSecurityGroupIds" not in template  # EC2 takes them in one place only


@each_pool
def test_nobody_gets_onto_a_node_by_ssh(made: Made, pool_name: str) -> None:
    recording = made()
    assert "keyName" not in inputs(recording, TEMPLATE, pool_name)
    assert "remoteAccess" not in inputs(recording, GROUP, pool_name)


@each_pool
def test_what_eks_takes_in_the_group_is_not_in_the_template(made: Made, pool_name: str) -> None:
    recording = made()
    refused = {"instanceType", "iamInstanceProfile", "instanceMarketOptions", "hibernationOptions"}
    assert not refused & inputs(recording, TEMPLATE, pool_name).keys()
    assert "diskSize" not in inputs(recording, GROUP, pool_name)


@each_pool
def test_machines_and_disks_carry_the_stacks_tags_and_a_name(made: Made, pool_name: str) -> None:
    tags = {"stack": "test", "Name": f"crossvendor-test-{pool_name}"}
    assert inputs(made(), TEMPLATE, pool_name)["tagSpecifications"] == [
        {"resourceType": "instance", "tags": tags},
        {"resourceType": "volume", "tags": tags},
    ]


@each_pool
def test_a_group_starts_from_its_template(made: Made, pool_name: str) -> None:
    template = inputs(made(), GROUP, pool_name)["launchTemplate"]
    assert template["id"] == f"nodes-{pool_name}-id"
    assert "version" in template  # its number is known to AWS alone


@each_pool
def test_nodes_are_replaced_one_by_one_and_repaired(made: Made, pool_name: str) -> None:
    group = inputs(made(), GROUP, pool_name)
    assert group["updateConfig"] == {"maxUnavailable": 1}
    assert group["nodeRepairConfig"] == {"enabled": True}
    assert "nodeGroupName" not in group  # a fixed name would forbid a replacement beside it


def text_of(recording: Recording, pool_name: str) -> str:
    return base64.b64decode(inputs(recording, TEMPLATE, pool_name)["userData"]).decode()


@each_pool
def test_a_node_starts_as_its_image_wants_it(made: Made, pool_name: str) -> None:
    pool = an_aws_stack().node_pools[pool_name]
    text = text_of(made(), pool_name)
    assert text == base64.b64decode(user_data(pool_name, pool, **CLUSTER)).decode()
    assert (text == node_config()) == (not pool.needs_own_image)


@own_images
def test_a_node_of_our_own_image_brings_its_labels_and_taints(made: Made, vendor: Vendor) -> None:
    text = text_of(made(), vendor.value)
    for key, value in group_labels(vendor.value, a_gpu_pool(vendor)).items():
        assert f"{key}={value}" in text
    taint = ACCELERATORS[vendor].taint
    assert f"--register-with-taints={taint.key}={taint.value}:{taint.effect}" in text
    assert f"[ -c {ACCELERATORS[vendor].device_file} ]" in text


def test_gpus_share_a_placement_group_only_if_the_stack_wants_it(made: Made) -> None:
    without = made()
    assert without.of_type(PLACEMENT) == []
    assert all("placement" not in each.inputs for each in without.of_type(TEMPLATE))
    recording = made(aws=an_aws_config(placement_group=True))
    [group] = recording.of_type(PLACEMENT)
    assert group.inputs["strategy"] == "cluster"
    for vendor in Vendor:
        assert "placement" in inputs(recording, TEMPLATE, vendor.value)
    assert "placement" not in inputs(recording, TEMPLATE, "system")


def test_a_stack_without_gpus_has_no_placement_group(made: Made) -> None:
    pools = {"system": NodePool(instance_type="m6i.large")}
    recording = made(aws=an_aws_config(placement_group=True), node_pools=pools)
    assert recording.of_type(PLACEMENT) == []


@each_pool
def test_the_autoscaler_finds_its_tags_on_the_group_and_on_the_one_behind(
    made: Made, pool_name: str
) -> None:
    recording = made()
    pool = an_aws_stack().node_pools[pool_name]
    tags = group_tags(pool_name, pool, cluster_name="crossvendor-test")
    assert inputs(recording, GROUP, pool_name)["tags"] == tags
    assert len(tags) == len(template_tags(pool_name, pool)) + 1
    behind = [
        each.inputs["tag"]
        for each in recording.of_type(TAG)
        if each.name.startswith(f"nodes-{pool_name}-")
    ]
    assert {tag["key"]: tag["value"] for tag in behind} == tags


def test_the_nodes_role_is_for_ec2_and_has_three_policies_of_aws(made: Made) -> None:
    recording = made()
    [role] = recording.of_type("aws:iam/role:Role")
    [trusted] = json.loads(role.inputs["assumeRolePolicy"])["Statement"]
    assert trusted["Principal"] == {"Service": "ec2.amazonaws.com"}
    attached = [each.inputs["policyArn"] for each in recording.of_type(ATTACHMENT)]
    assert attached == [
        "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy",
        "arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly",
        "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore",
    ]
    assert recording.of_type("aws:iam/rolePolicy:RolePolicy") == []


def test_pods_that_manage_addresses_and_volumes_do_not_borrow_the_nodes_role() -> None:
    assert not [name for name in NODE_POLICIES if "CNI" in name or "EBS" in name]


@each_pool
def test_a_group_waits_for_its_roles_policies_and_for_what_nodes_need(
    made: Made, pool_name: str
) -> None:
    recording = made()
    [group] = [each for each in recording.of_type(GROUP) if each.name == f"nodes-{pool_name}"]
    [add_on] = recording.of_type("kubernetes:core/v1:ConfigMap")
    assert add_on.urn in group.depends_on
    assert {each.urn for each in recording.of_type(ATTACHMENT)} <= group.depends_on


# What one node has to carry. CPU in thousandths of a core, memory in MiB, as the charts of these
# DaemonSets request it: aws/amazon-vpc-cni-k8s (two containers, memory not requested),
# kubernetes-sigs/aws-ebs-csi-driver (driver, registrar, liveness probe), EKS' kube-proxy; the
# identity agent's and both device plugins' charts request nothing.
ON_EVERY_NODE: Final = {
    "aws-node": (50, 0),
    "kube-proxy": (100, 0),
    "eks-pod-identity-agent": (0, 0),
    "ebs-csi-node": (30, 104),
}
ON_GPU_NODES: Final = {"device plugin": (0, 0)}


def allocatable(instance: InstanceType) -> tuple[int, int]:
    """CPU and memory that a node of the type has for pods, at least.

    EKS reserves 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the
    rest, and 11 MiB for each pod that the addresses of its interfaces allow, whatever the kubelet
    is told, and 255 MiB; the kubelet evicts at 100 MiB (awslabs/amazon-eks-ami,
    nodeadm/internal/kubelet/config.go; Ubuntu's bootstrap.sh does the same). The machine itself
    shows up to 7.5 % less memory than is sold (aws/karpenter-provider-aws,
    vm-memory-overhead-percent).
    """
    cores = [60, 10, 5, 5, *[2.5] * instance.vcpus][: instance.vcpus]
    cpu = instance.vcpus * 1000 - sum(cores)
    memory = instance.memory_mib * 0.925 - (11 * instance.max_pods + 255) - 100
    return int(cpu), int(memory)


def requests(resources: Resources) -> tuple[int, int]:
    """CPU and memory that a pod requests."""
    cpu = re.fullmatch(r"(\d+)(m?)", resources.cpu)
    memory = re.fullmatch(r"(\d+)(Mi|Gi)", resources.memory)
    assert cpu is not None
    assert memory is not None
    return (
        int(cpu[1]) * (1 if cpu[2] else 1000),
        int(memory[1]) * (1 if memory[2] == "Mi" else 1024),
    )


@each_vendor
def test_a_gpu_node_of_the_smallest_type_has_what_the_estimate_says(vendor: Vendor) -> None:
    cpu, memory = allocatable(a_gpu_pool(vendor).instance)
    assert cpu == 3920
    assert 14 * 1024 < memory < 14.5 * 1024


@each_pool
def test_a_node_has_room_for_its_daemon_sets_and_a_pod_of_the_job(pool_name: str) -> None:
    pool = an_aws_stack().node_pools[pool_name]
    daemons = [*ON_EVERY_NODE.values(), *(ON_GPU_NODES.values() if pool.vendor else ())]
    job = allreduce(workers=dict.fromkeys(Vendor, 1))
    name = ROLE_LAUNCHER if pool.vendor is None else ACCELERATORS[pool.vendor].task
    [task] = [task for task in job.tasks if task.name == name]
    pods = [*daemons, requests(task.container.resources)]
    cpu, memory = allocatable(pool.instance)
    assert len(pods) <= MAX_PODS
    assert sum(pod[0] for pod in pods) <= cpu
    assert sum(pod[1] for pod in pods) <= memory
