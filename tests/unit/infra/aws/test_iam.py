import json
from typing import Any

import pulumi
import pulumi_aws as aws

from infra.aws.iam import POD_IDENTITY, Statement, document, role, trust
from tests.conftest import Deploy


def test_a_document_says_what_is_allowed_on_what() -> None:
    statement = Statement(sid="Read", actions=["s3:GetObject"], resources=["arn:aws:s3:::b/*"])
    assert json.loads(document(statement)) == {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "Read",
                "Effect": "Allow",
                "Action": ["s3:GetObject"],
                "Resource": ["arn:aws:s3:::b/*"],
            }
        ],
    }


def test_a_statement_can_have_a_condition_a_principal_and_the_opposite_effect() -> None:
    found = Statement(
        sid="TlsOnly",
        actions=["s3:*"],
        principal="*",
        effect="Deny",
        condition={"Bool": {"aws:SecureTransport": "false"}},
    ).to_dict()
    assert found["Principal"] == "*"
    assert found["Effect"] == "Deny"
    assert found["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def trusted(text: str) -> dict[str, Any]:
    [statement] = json.loads(text)["Statement"]
    assert isinstance(statement, dict)
    return statement


def test_pods_hand_on_who_they_are() -> None:
    assert trusted(trust(POD_IDENTITY))["Action"] == ["sts:AssumeRole", "sts:TagSession"]
    assert trusted(trust("ec2.amazonaws.com"))["Action"] == ["sts:AssumeRole"]


def test_a_service_can_be_bound_to_one_account() -> None:
    found = trusted(trust("eks.amazonaws.com", account_id="123456789012"))
    assert found["Condition"] == {"StringEquals": {"aws:SourceAccount": "123456789012"}}


def test_a_role_has_its_policies_below_it(deploy: Deploy) -> None:
    def program() -> None:
        role(
            "node",
            service="ec2.amazonaws.com",
            managed=["AmazonEKSWorkerNodePolicy", "service-role/Other"],
            policy=document(Statement(sid="A", actions=["a:B"], resources=["c"])),
            opts=pulumi.ResourceOptions(),
        )

    made = {resource.name: resource for resource in deploy(program).resources}
    assert set(made) == {"node", "node-AmazonEKSWorkerNodePolicy", "node-Other", "node-policy"}
    attached = made["node-Other"]
    assert attached.inputs["policyArn"] == "arn:aws:iam::aws:policy/service-role/Other"
    assert all(made["node"].urn in made[name].depends_on for name in made if name != "node")


def test_who_takes_a_role_waits_for_its_rights(deploy: Deploy) -> None:
    def program() -> None:
        taken = role(
            "pods",
            service=POD_IDENTITY,
            managed=["AmazonEKS_CNI_Policy"],
            policy=document(Statement(sid="A", actions=["a:B"], resources=["c"])),
            opts=pulumi.ResourceOptions(),
        )
        aws.eks.PodIdentityAssociation(
            "user", cluster_name="c", namespace="n", service_account="s", role_arn=taken.arn
        )

    made = {resource.name: resource for resource in deploy(program).resources}
    for name in ("pods-AmazonEKS_CNI_Policy", "pods-policy"):
        assert made[name].urn in made["user"].depends_on
