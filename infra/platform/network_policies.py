"""Who may talk to whom in the training namespace: the pods of one job to each other, and DNS.

Traffic inside a job needs every port in both directions: UCX, PRRTE and PyTorch's store listen on
ephemeral ones. A policy cannot say "the same job as mine", so the way out is opened here for all
jobs' pods together, and the way in per job by the policy that Volcano's `svc` plugin makes.
"""

import ipaddress
from typing import Final

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.meta.v1 import LabelSelectorArgs, LabelSelectorRequirementArgs
from pulumi_kubernetes.networking.v1 import (
    IPBlockArgs,
    NetworkPolicyEgressRuleArgs,
    NetworkPolicyPeerArgs,
    NetworkPolicyPortArgs,
    NetworkPolicySpecArgs,
)

from infra.component import Component

VOLCANO_JOB_LABEL: Final = "volcano.sh/job-name"
"""Volcano puts it on every pod of a job."""


def job_pods() -> LabelSelectorArgs:
    """Selects the pods of all Volcano jobs."""
    is_set = LabelSelectorRequirementArgs(key=VOLCANO_JOB_LABEL, operator="Exists")
    return LabelSelectorArgs(match_expressions=[is_set])


def dns_peer(address: ipaddress.IPv4Address | None) -> NetworkPolicyPeerArgs:
    """Where DNS answers: one address outside of pods, or the `kube-dns` pods."""
    if address is not None:
        return NetworkPolicyPeerArgs(ip_block=IPBlockArgs(cidr=f"{address}/32"))
    return NetworkPolicyPeerArgs(
        namespace_selector=LabelSelectorArgs(
            match_labels={"kubernetes.io/metadata.name": "kube-system"}
        ),
        pod_selector=LabelSelectorArgs(match_labels={"k8s-app": "kube-dns"}),
    )


def policies(dns_address: ipaddress.IPv4Address | None) -> dict[str, NetworkPolicySpecArgs]:
    """The policies by name; together they forbid what none of them allows."""
    dns = NetworkPolicyEgressRuleArgs(
        to=[dns_peer(dns_address)],
        ports=[NetworkPolicyPortArgs(protocol=protocol, port=53) for protocol in ("UDP", "TCP")],
    )
    jobs = NetworkPolicyEgressRuleArgs(to=[NetworkPolicyPeerArgs(pod_selector=job_pods())])
    every_pod = LabelSelectorArgs()
    return {
        "default-deny": NetworkPolicySpecArgs(
            pod_selector=every_pod, policy_types=["Ingress", "Egress"]
        ),
        "dns": NetworkPolicySpecArgs(pod_selector=every_pod, policy_types=["Egress"], egress=[dns]),
        "jobs-egress": NetworkPolicySpecArgs(
            pod_selector=job_pods(), policy_types=["Egress"], egress=[jobs]
        ),
    }


class NetworkPolicies(Component):
    """The training namespace's policies."""

    def __init__(
        self,
        name: str,
        *,
        namespace: pulumi.Input[str],
        dns_address: ipaddress.IPv4Address | None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("platform:NetworkPolicies", name, opts)
        for policy, spec in policies(dns_address).items():
            kubernetes.networking.v1.NetworkPolicy(
                f"{name}-{policy}",
                metadata=kubernetes.meta.v1.ObjectMetaArgs(name=policy, namespace=namespace),
                spec=spec,
                opts=self._opts(),
            )
        self.register_outputs({})
