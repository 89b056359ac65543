"""The gang starts whole or not at all, and says why it waits."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from infra.accelerators import ACCELERATORS, Vendor
from infra.names import NAMESPACE_TRAINING
from tests.cluster.conftest import TASK_LABEL, Submitted, held, is_running, remove
from workloads.jobs import allreduce
from workloads.kubectl import Kubectl

pytestmark = pytest.mark.cluster

Submit = Callable[[Mapping[str, Any]], Submitted]


def started(job: Submitted) -> list[str]:
    """Pods that got a node."""
    return [pod["metadata"]["name"] for pod in job.pods() if pod["spec"].get("nodeName")]


def group_reasons(kubectl: Kubectl, job: Submitted) -> set[str]:
    """Why the scheduler holds the job's gang back, in its words."""
    groups = kubectl.items("podgroups.scheduling.volcano.sh", "-n", NAMESPACE_TRAINING)
    return {
        condition["reason"]
        for group in groups
        if group["metadata"]["name"].startswith(f"{job.name}-")
        for condition in group.get("status", {}).get("conditions", [])
        if condition["type"] == "Unschedulable" and condition["status"] == "True"
    }


def blocked_tasks(job: Submitted) -> set[str]:
    """Tasks of the pods for which there is no node."""
    return {
        pod["metadata"]["labels"][TASK_LABEL]
        for pod in job.pods()
        for condition in pod["status"].get("conditions", [])
        if condition["type"] == "PodScheduled" and condition["reason"] == "Unschedulable"
    }


def stays_without_a_node(job: Submitted, seconds: float) -> None:
    """Look again and again, through several rounds of the scheduler."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert started(job) == []
        time.sleep(0.3)


@pytest.mark.parametrize("short", Vendor)
def test_with_one_gpu_too_few_no_pod_starts_and_the_reason_is_shown(
    submit: Submit, kubectl: Kubectl, gpus: dict[Vendor, int], short: Vendor
) -> None:
    workers = {vendor: 1 + (gpus[vendor] if vendor is short else 0) for vendor in Vendor}
    job = submit(held(allreduce(workers=workers).to_dict()))
    task = ACCELERATORS[short].task
    job.wait("held back", lambda j: "NotEnoughResources" in group_reasons(kubectl, j))
    job.wait(f"blocked at {task}", lambda j: blocked_tasks(j) == {task})
    stays_without_a_node(job, 4)


def test_a_gang_that_waits_starts_whole_when_the_gpus_are_free(
    submit: Submit, gpus: dict[Vendor, int]
) -> None:
    first = submit(held(allreduce(workers=gpus).to_dict()))
    num_pods = sum(gpus.values()) + 1
    first.wait("running", lambda job: is_running(job, num_pods))
    second = submit(held(allreduce(workers=gpus).to_dict()))
    stays_without_a_node(second, 5)
    remove(first)
    second.wait("running", lambda job: is_running(job, num_pods))
