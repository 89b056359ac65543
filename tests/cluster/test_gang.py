"""The gang starts whole or not at all, and says why it waits."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from infra.accelerators import ACCELERATORS, Vendor
from infra.names import NAMESPACE_TRAINING
from tests.cluster.conftest import Submitted, held, is_running, remove
from workloads.jobs import allreduce
from workloads.kubectl import Kubectl

pytestmark = pytest.mark.cluster

Submit = Callable[[Mapping[str, Any]], Submitted]


def started(job: Submitted) -> list[str]:
    """Pods that got a node."""
    return [pod["metadata"]["name"] for pod in job.pods() if pod["spec"].get("nodeName")]


def reasons(kubectl: Kubectl, job: Submitted) -> str:
    """What the scheduler says about the job: its group's conditions and its pods'."""
    groups = [
        group
        for group in kubectl.items("podgroups.scheduling.volcano.sh", "-n", NAMESPACE_TRAINING)
        if group["metadata"]["name"].startswith(job.name)
    ]
    conditions = [group.get("status", {}).get("conditions", []) for group in groups]
    pods = [pod["status"].get("conditions", []) for pod in job.pods()]
    return json.dumps([conditions, pods])


@pytest.mark.parametrize("short", Vendor)
def test_with_one_gpu_too_few_no_pod_starts_and_the_reason_is_shown(
    submit: Submit, kubectl: Kubectl, gpus: dict[Vendor, int], short: Vendor
) -> None:
    workers = {vendor: 1 + (gpus[vendor] if vendor is short else 0) for vendor in Vendor}
    job = submit(held(allreduce(workers=workers).to_dict()))
    job.wait("refused by the scheduler", lambda j: "Unschedulable" in reasons(kubectl, j))
    time.sleep(3)  # several rounds of the scheduler
    assert started(job) == []
    assert ACCELERATORS[short].resource in reasons(kubectl, job)
    remove(job)


def test_a_gang_that_waits_starts_whole_when_the_missing_gpu_is_free(
    submit: Submit, kubectl: Kubectl, gpus: dict[Vendor, int]
) -> None:
    first = submit(held(allreduce(workers=gpus).to_dict()))
    num_pods = sum(gpus.values()) + 1
    first.wait("running", lambda job: is_running(job, num_pods))
    second = submit(held(allreduce(workers=gpus).to_dict()))
    second.wait("refused by the scheduler", lambda job: "Unschedulable" in reasons(kubectl, job))
    assert started(second) == []
    remove(first)
    second.wait("running", lambda job: is_running(job, num_pods))
    remove(second)
