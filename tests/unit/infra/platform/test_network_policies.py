import ipaddress
from typing import Any

import pytest

from infra.platform.network_policies import VOLCANO_JOB_LABEL, NetworkPolicies
from tests.conftest import Deploy

OUTSIDE = ipaddress.IPv4Address("10.9.0.2")
JOBS = {"matchExpressions": [{"key": VOLCANO_JOB_LABEL, "operator": "Exists"}]}


def specs(deploy: Deploy, dns_address: ipaddress.IPv4Address | None) -> dict[str, Any]:
    made = deploy(lambda: NetworkPolicies("n", namespace="jobs", dns_address=dns_address))
    found = made.of_type("kubernetes:networking.k8s.io/v1:NetworkPolicy")
    assert {resource.inputs["metadata"]["namespace"] for resource in found} == {"jobs"}
    return {resource.inputs["metadata"]["name"]: resource.inputs["spec"] for resource in found}


def test_every_pod_is_closed_in_both_directions_unless_a_policy_opens_it(deploy: Deploy) -> None:
    assert specs(deploy, OUTSIDE)["default-deny"] == {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
    }


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        (OUTSIDE, {"ipBlock": {"cidr": "10.9.0.2/32"}}),
        (
            None,
            {
                "namespaceSelector": {
                    "matchLabels": {"kubernetes.io/metadata.name": "kube-system"}
                },
                "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
            },
        ),
    ],
)
def test_every_pod_may_ask_the_clusters_dns_and_nothing_else_there(
    deploy: Deploy, address: ipaddress.IPv4Address | None, peer: dict[str, Any]
) -> None:
    ports = [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]
    assert specs(deploy, address)["dns"] == {
        "podSelector": {},
        "policyTypes": ["Egress"],
        "egress": [{"to": [peer], "ports": ports}],
    }


def test_pods_of_jobs_may_reach_pods_of_jobs_on_every_port(deploy: Deploy) -> None:
    assert specs(deploy, OUTSIDE)["jobs-egress"] == {
        "podSelector": JOBS,
        "policyTypes": ["Egress"],
        "egress": [{"to": [{"podSelector": JOBS}]}],
    }


def test_the_way_in_is_opened_by_the_jobs_own_policy_only(deploy: Deploy) -> None:
    assert not [name for name, spec in specs(deploy, OUTSIDE).items() if "ingress" in spec]
