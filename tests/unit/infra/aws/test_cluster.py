import ipaddress
import json
from collections.abc import Callable
from typing import Any

import pulumi
import pytest
import yaml

from infra.aws.cluster import Cluster, endpoints, kubeconfig, principal_label, secrets_policy
from infra.recording import Recording, Resource
from infra.versions import KUBERNETES_MINOR
from tests.builders import an_aws_config, an_aws_stack
from tests.conftest import Deploy

CLUSTER = "aws:eks/cluster:Cluster"
KEY = "arn:aws:kms:us-east-1:123456789012:key/secrets"
LOGS_KEY = "arn:aws:kms:us-east-1:123456789012:key/logs"
OFFICE = ipaddress.IPv4Network("198.51.100.0/24")
DEPLOYER = "arn:aws:iam::123456789012:role/deployer"
TOOLING = "arn:aws:iam::123456789012:role/teams/tooling/operator"


def a_cluster(**changes: Any) -> Cluster:
    return Cluster(
        "cluster",
        an_aws_stack(aws=an_aws_config(**changes)),
        control_plane_subnet_ids=["subnet-a", "subnet-b"],
        secrets_key_arn=KEY,
        logs_key_arn=LOGS_KEY,
    )


def deployed(deploy: Deploy, **changes: Any) -> Recording:
    return deploy(lambda: a_cluster(**changes))


def the(made: Recording, type_token: str) -> Resource:
    [found] = made.of_type(type_token)
    return found


def outputs(deploy: Deploy, pick: Callable[[Cluster], Any]) -> Any:
    return deploy(lambda: pulumi.export("it", pick(a_cluster()))).outputs["it"]


def test_the_cluster_is_called_as_its_stack_and_of_the_pinned_minor(deploy: Deploy) -> None:
    inputs = the(deployed(deploy), CLUSTER).inputs
    assert inputs["name"] == "crossvendor-test"
    assert inputs["version"] == KUBERNETES_MINOR
    assert inputs["vpcConfig"]["subnetIds"] == ["subnet-a", "subnet-b"]


def test_extended_support_is_not_paid_for(deploy: Deploy) -> None:
    assert the(deployed(deploy), CLUSTER).inputs["upgradePolicy"] == {"supportType": "STANDARD"}


def test_services_have_the_range_that_the_vpc_keeps_clear_of(deploy: Deploy) -> None:
    assert the(deployed(deploy), CLUSTER).inputs["kubernetesNetworkConfig"] == {
        "ipFamily": "ipv4",
        "serviceIpv4Cidr": "172.20.0.0/16",
    }


def test_eks_installs_nothing_that_is_not_ours(deploy: Deploy) -> None:
    assert the(deployed(deploy), CLUSTER).inputs["bootstrapSelfManagedAddons"] is False


def test_no_traffic_is_shifted_out_of_the_zone_of_the_gpus(deploy: Deploy) -> None:
    assert the(deployed(deploy), CLUSTER).inputs["zonalShiftConfig"] == {"enabled": False}


def test_objects_are_encrypted_with_the_stacks_key(deploy: Deploy) -> None:
    assert the(deployed(deploy), CLUSTER).inputs["encryptionConfig"] == {
        "provider": {"keyArn": KEY},
        "resources": ["secrets"],
    }


def test_the_control_planes_role_has_the_policy_for_it_and_the_key(deploy: Deploy) -> None:
    made = deployed(deploy)
    found = {resource.name: resource for resource in made.resources}
    trusted = json.loads(found["cluster-role"].inputs["assumeRolePolicy"])["Statement"][0]
    assert trusted["Principal"] == {"Service": "eks.amazonaws.com"}
    assert trusted["Action"] == ["sts:AssumeRole"]
    policies = made.of_type("aws:iam/rolePolicyAttachment:RolePolicyAttachment")
    attached = {
        policy.name for policy in policies if found["cluster-role"].urn in policy.depends_on
    }
    assert attached == {"cluster-role-AmazonEKSClusterPolicy"}
    assert found["cluster-role-policy"].inputs["policy"] == secrets_policy(KEY)
    [statement] = json.loads(secrets_policy(KEY))["Statement"]
    assert statement["Resource"] == [KEY]


def test_without_addresses_of_its_own_the_endpoint_is_private(deploy: Deploy) -> None:
    found = the(deployed(deploy), CLUSTER).inputs["vpcConfig"]
    assert found["endpointPrivateAccess"] is True
    assert found["endpointPublicAccess"] is False
    assert "publicAccessCidrs" not in found


def test_the_public_endpoint_answers_the_named_addresses_only(deploy: Deploy) -> None:
    found = the(deployed(deploy, public_access_cidrs=[OFFICE]), CLUSTER).inputs["vpcConfig"]
    assert found["endpointPrivateAccess"] is True
    assert found["endpointPublicAccess"] is True
    assert found["publicAccessCidrs"] == ["198.51.100.0/24"]


@pytest.mark.parametrize("cidrs", [[], [OFFICE]])
def test_there_is_no_public_endpoint_without_addresses(cidrs: list[Any]) -> None:
    found = endpoints(an_aws_config(public_access_cidrs=cidrs))
    assert found["endpoint_public_access"] == bool(found.get("public_access_cidrs"))


def test_access_is_by_entries_and_whoever_made_the_cluster_has_none_for_that(
    deploy: Deploy,
) -> None:
    assert the(deployed(deploy), CLUSTER).inputs["accessConfig"] == {
        "authenticationMode": "API",
        "bootstrapClusterCreatorAdminPermissions": False,
    }


def test_each_administrator_has_an_entry_and_its_rights_after_it(deploy: Deploy) -> None:
    made = deployed(deploy, administrators=[DEPLOYER, TOOLING])
    entries = made.of_type("aws:eks/accessEntry:AccessEntry")
    rights = made.of_type("aws:eks/accessPolicyAssociation:AccessPolicyAssociation")
    assert [entry.inputs["principalArn"] for entry in entries] == [DEPLOYER, TOOLING]
    for entry, right in zip(entries, rights, strict=True):
        assert entry.inputs["type"] == "STANDARD"
        assert "kubernetesGroups" not in entry.inputs
        assert right.inputs["principalArn"] == entry.inputs["principalArn"]
        assert right.inputs["policyArn"].endswith("/AmazonEKSClusterAdminPolicy")
        assert right.inputs["accessScope"] == {"type": "cluster"}
        assert entry.urn in right.depends_on


def test_an_administrators_place_in_the_list_is_not_its_name() -> None:
    assert principal_label(DEPLOYER) == "role-deployer"
    assert principal_label(TOOLING) == "role-operator"
    assert principal_label("arn:aws:iam::123456789012:user/me") == "user-me"


def test_before_kubernetes_there_are_administrators_and_before_nodes_the_addons_too(
    deploy: Deploy,
) -> None:
    def program() -> None:
        cluster = a_cluster(administrators=[DEPLOYER, TOOLING])
        for stage in ("ready_for_kubernetes", "ready_for_nodes"):
            urns = pulumi.Output.all(*[resource.urn for resource in getattr(cluster, stage)])
            pulumi.export(stage, urns)

    made = deploy(program)
    kinds = {
        stage: {resource.type for resource in made.resources if resource.urn in urns}
        for stage, urns in made.outputs.items()
    }
    access = {
        "aws:eks/accessEntry:AccessEntry",
        "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
    }
    assert kinds["ready_for_kubernetes"] == access
    assert kinds["ready_for_nodes"] == {*access, "aws:eks/addon:Addon"}
    for kind in kinds["ready_for_nodes"]:
        assert {resource.urn for resource in made.of_type(kind)} <= {
            *made.outputs["ready_for_nodes"]
        }


@pytest.mark.parametrize(("is_protected", "days"), [(False, 30), (True, 365)])
def test_every_log_goes_into_an_encrypted_group_that_was_there_before(
    deploy: Deploy, is_protected: bool, days: int
) -> None:
    made = deployed(deploy, is_protected=is_protected)
    logs = the(made, "aws:cloudwatch/logGroup:LogGroup")
    assert logs.inputs == {
        "name": "/aws/eks/crossvendor-test/cluster",
        "kmsKeyId": LOGS_KEY,
        "retentionInDays": days,
    }
    cluster = the(made, CLUSTER)
    assert logs.urn in cluster.depends_on
    assert set(cluster.inputs["enabledClusterLogTypes"]) == {
        "api",
        "audit",
        "authenticator",
        "controllerManager",
        "scheduler",
    }


@pytest.mark.parametrize("is_protected", [False, True])
def test_a_protected_cluster_resists_its_deletion_by_us_and_by_others(
    deploy: Deploy, is_protected: bool
) -> None:
    seen: list[bool | None] = []

    def note(args: pulumi.ResourceTransformationArgs) -> None:
        if args.type_ == CLUSTER:
            seen.append(args.opts.protect)

    def program() -> None:
        pulumi.runtime.register_stack_transformation(note)
        a_cluster(is_protected=is_protected)

    assert the(deploy(program), CLUSTER).inputs["deletionProtection"] is is_protected
    assert seen == [is_protected]


def test_a_kubeconfig_has_an_address_and_asks_for_a_token_each_time() -> None:
    found = yaml.safe_load(kubeconfig("c", "https://api", "Q0E=", "eu-west-1"))
    [cluster] = found["clusters"]
    assert cluster["cluster"] == {
        "server": "https://api",
        "certificate-authority-data": "Q0E=",
    }
    [user] = found["users"]
    assert user["user"] == {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "command": "aws",
            "args": ["eks", "get-token", "--region", "eu-west-1", "--cluster-name", "c"],
        }
    }
    [context] = found["contexts"]
    assert context["context"] == {"cluster": cluster["name"], "user": user["name"]}
    assert found["current-context"] == context["name"]


def test_the_kubeconfig_of_a_cluster_is_its_own_and_secret(deploy: Deploy) -> None:
    found = yaml.safe_load(outputs(deploy, lambda cluster: cluster.kubeconfig))
    args = found["users"][0]["user"]["exec"]["args"]
    assert args[-1] == "crossvendor-test"
    assert args[args.index("--region") + 1] == "us-east-1"
    assert outputs(deploy, lambda cluster: pulumi.Output.from_input(cluster.kubeconfig.is_secret()))
