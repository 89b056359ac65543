"""The platform on the API server: what it makes is accepted strictly, and what it forbids is."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infra.accelerators import ACCELERATORS, Vendor
from infra.names import NAMESPACE_TRAINING
from tests.cluster.conftest import CHECKOUT
from workloads.kubectl import Kubectl, KubectlError

pytestmark = pytest.mark.cluster


def test_the_rendered_stack_is_accepted_with_strict_validation(
    kubectl: Kubectl, tmp_path: Path
) -> None:
    output = tmp_path / "local.yaml"
    subprocess.run(
        [sys.executable, "-m", "infra.render", "manifests", "--stack", "local",
         "--output", str(output)],
        cwd=CHECKOUT,
        check=True,
        timeout=120,
    )  # fmt: skip
    text = output.read_text(encoding="utf-8")
    for kind in ("kind: Queue", "kind: NetworkPolicy", "kind: ResourceQuota", "kind: Deployment"):
        assert kind in text, f"{kind} is missing from the rendered stack"
    kubectl.run(
        "apply", "--server-side", "--dry-run=server", "--validate=strict", "--force-conflicts",
        "--field-manager=crossvendor-test", "-f", str(output),
    )  # fmt: skip


def pod(name: str, **security: object) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE_TRAINING},
        "spec": {
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 1000,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "c",
                    "image": "localhost/crossvendor/launcher:0.1.0",
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                        **security,
                    },
                }
            ],
        },
    }


def dry_run(kubectl: Kubectl, document: dict[str, Any]) -> None:
    kubectl.run("create", "--dry-run=server", "-f", "-", stdin=json.dumps(document))


def test_a_restricted_pod_is_accepted(kubectl: Kubectl) -> None:
    dry_run(kubectl, pod("fine"))


@pytest.mark.parametrize(
    "security", [{"privileged": True, "allowPrivilegeEscalation": True}, {"runAsUser": 0}]
)
def test_a_pod_that_is_not_restricted_is_refused(
    kubectl: Kubectl, security: dict[str, object]
) -> None:
    with pytest.raises(KubectlError, match="violates PodSecurity"):
        dry_run(kubectl, pod("unsafe", **security))


@pytest.mark.parametrize("vendor", Vendor)
def test_more_gpus_than_the_quota_are_refused(kubectl: Kubectl, vendor: Vendor) -> None:
    document = pod("greedy")
    [container] = document["spec"]["containers"]
    resources = {ACCELERATORS[vendor].resource: "1000"}
    container["resources"] = {"requests": resources, "limits": resources}
    with pytest.raises(KubectlError, match="exceeded quota"):
        dry_run(kubectl, document)


def test_a_job_in_an_unknown_queue_is_refused(kubectl: Kubectl) -> None:
    document = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"generateName": "x-", "namespace": NAMESPACE_TRAINING},
        "spec": {
            "queue": "no-such-queue",
            "minAvailable": 1,
            "schedulerName": "volcano",
            "tasks": [{"name": "t", "replicas": 1, "template": {"spec": pod("x")["spec"]}}],
        },
    }
    with pytest.raises(KubectlError, match="no-such-queue"):
        dry_run(kubectl, document)
