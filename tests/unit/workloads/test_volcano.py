from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from workloads.volcano import (
    Action,
    Container,
    Event,
    NodeLabel,
    Operator,
    Policy,
    Resources,
    Scratch,
    Task,
    VolcanoJob,
)


def a_container(**changes: Any) -> Container:
    values: dict[str, Any] = {
        "name": "main",
        "image": "registry/image:1",
        "command": ("run", "it"),
        "resources": Resources(cpu="1", cpu_limit="2", memory="1Gi", memory_limit="2Gi"),
        **changes,
    }
    return Container(**values)


def a_task(**changes: Any) -> Task:
    values: dict[str, Any] = {
        "name": "work",
        "replicas": 2,
        "container": a_container(),
        "node": NodeLabel(key="kind", operator=Operator.IN, values=("fast",)),
        "deadline_seconds": 60,
        **changes,
    }
    return Task(**values)


def a_job(**changes: Any) -> VolcanoJob:
    values: dict[str, Any] = {
        "generate_name": "try-",
        "namespace": "space",
        "queue": "line",
        "service_account": "account",
        "priority_class": "class",
        "tasks": (a_task(),),
        "min_available": 2,
        "ttl_seconds": 10,
        **changes,
    }
    return VolcanoJob(**values)


def a_policy(**changes: Any) -> Policy:
    values: dict[str, Any] = {
        "action": Action.RESTART_JOB,
        "events": (Event.POD_FAILED,),
        **changes,
    }
    return Policy(**values)


def the_pod(job: VolcanoJob) -> dict[str, Any]:
    pod: dict[str, Any] = job.to_dict()["spec"]["tasks"][0]["template"]["spec"]
    return pod


def test_a_job_says_where_it_runs_and_how_many_pods_start_together() -> None:
    body = a_job(labels={"a": "b"}).to_dict()
    assert (body["apiVersion"], body["kind"]) == ("batch.volcano.sh/v1alpha1", "Job")
    assert body["metadata"] == {
        "generateName": "try-",
        "namespace": "space",
        "labels": {"a": "b"},
    }
    spec = body["spec"]
    assert (spec["schedulerName"], spec["queue"]) == ("volcano", "line")
    assert (spec["minAvailable"], spec["priorityClassName"]) == (2, "class")


def test_pods_carry_the_labels_of_the_job_and_of_their_task() -> None:
    job = a_job(labels={"job": "j"}, tasks=(a_task(labels={"role": "r"}),))
    labels = job.to_dict()["spec"]["tasks"][0]["template"]["metadata"]["labels"]
    assert labels == {"job": "j", "role": "r"}


def test_every_pod_meets_pod_security_restricted_and_has_no_token() -> None:
    pod = the_pod(a_job())
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 1000
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    [container] = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def test_a_device_is_requested_and_limited_in_the_same_number() -> None:
    resources = Resources(
        cpu="1", cpu_limit="2", memory="1Gi", memory_limit="2Gi", devices={"a.example/gpu": 3}
    ).to_dict()
    assert resources["requests"]["a.example/gpu"] == resources["limits"]["a.example/gpu"] == "3"


def test_a_memory_folder_is_a_sized_tmpfs_that_the_container_mounts() -> None:
    folder = Scratch(name="shm", path="/dev/shm", size="1Gi", in_memory=True)  # noqa: S108
    pod = the_pod(a_job(tasks=(a_task(container=a_container(scratch=(folder,))),)))
    assert pod["volumes"] == [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]
    assert pod["containers"][0]["volumeMounts"] == [{"name": "shm", "mountPath": "/dev/shm"}]  # noqa: S108


def test_a_variable_may_come_from_the_pod_itself() -> None:
    container = a_container(environment={"A": "1"}, pod_fields={"POD": "metadata.name"}).to_dict()
    assert container["env"] == [
        {"name": "A", "value": "1"},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]


def test_a_container_with_a_ready_port_is_probed_there() -> None:
    container = a_container(ready_port=2222).to_dict()
    assert container["readinessProbe"]["tcpSocket"] == {"port": 2222}
    assert container["ports"] == [{"name": "ready", "containerPort": 2222}]


def test_a_dependent_task_waits_for_all_that_it_names() -> None:
    after = a_task(name="after", replicas=1, depends_on=("work",))
    body = a_job(tasks=(a_task(), after)).to_dict()["spec"]["tasks"][1]
    assert body["dependsOn"] == {"name": ["work"], "iteration": "all"}


def test_a_policy_is_spelled_as_volcano_reads_it() -> None:
    assert a_policy(delay_seconds=30).to_dict() == {
        "action": "RestartJob",
        "events": ["PodFailed"],
        "timeout": "30s",
    }
    assert a_policy(events=(), exit_code=3).to_dict() == {"action": "RestartJob", "exitCode": 3}


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: a_policy(events=()), "give either events or an exit code"),
        (lambda: a_policy(exit_code=3), "give either events or an exit code"),
        (lambda: a_policy(events=(), exit_code=0), "exit code 0 is no failure"),
        (lambda: a_policy(events=(Event.UNKNOWN, Event.UNKNOWN)), "name each once"),
        (lambda: a_policy(delay_seconds=-1), "is negative"),
        (lambda: a_policy(events=(Event.POD_PENDING,)), "does nothing without a delay"),
        (lambda: a_container(name="Main"), "not a DNS label"),
        (lambda: a_container(environment={"A": "1"}, pod_fields={"A": "x"}), "A is set both"),
        (
            lambda: a_container(
                scratch=(
                    Scratch(name="a", path="/x", size="1Mi"),
                    Scratch(name="b", path="/x", size="1Mi"),
                )
            ),
            "mount each path once",
        ),
        (lambda: a_task(name="worker_nvidia"), "'worker_nvidia' is not a DNS label"),
        (lambda: a_task(replicas=0), "replicas 0 is less than 1"),
        (lambda: a_task(deadline_seconds=0), "deadline_seconds 0 is not positive"),
        (
            lambda: a_task(policies=(a_policy(), a_policy(action=Action.ABORT_JOB))),
            "PodFailed is in more than one policy",
        ),
        (
            lambda: a_task(policies=(a_policy(), a_policy(events=(Event.ANY,)))),
            r"event \* stands beside",
        ),
        (lambda: a_job(generate_name="Try_"), "no start of a DNS label"),
        (lambda: a_job(tasks=()), "has no tasks"),
        (lambda: a_job(tasks=(a_task(), a_task())), "name each task once"),
        (lambda: a_job(max_retry=0), "max_retry 0 is less than 1"),
        (lambda: a_job(ttl_seconds=-1), "ttl_seconds -1 is negative"),
        (lambda: a_job(min_available=3), "min_available 3 is not between 1 and the 2 pods"),
        (lambda: a_job(min_available=0), "min_available 0 is not between 1"),
        (
            lambda: a_job(tasks=(a_task(depends_on=("other",)),)),
            "task work depends on other; it may depend on tasks before it: none",
        ),
        (
            lambda: a_job(
                policies=(a_policy(events=(), exit_code=3), a_policy(events=(), exit_code=3))
            ),
            "3 is in more than one policy",
        ),
    ],
)
def test_what_volcano_would_refuse_is_refused_in_one_sentence(
    make: Callable[[], object], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason) as error:
        make()
    assert str(error.value).endswith(".")
    assert "\n" not in str(error.value)


def test_a_gang_that_counts_a_task_which_waits_for_it_is_refused() -> None:
    after = a_task(name="after", replicas=1, depends_on=("work",))
    assert a_job(tasks=(a_task(), after), min_available=2).min_available == 2
    with pytest.raises(ValueError, match="the 2 pods that depend on no other task"):
        a_job(tasks=(a_task(), after), min_available=3)


def test_a_pod_name_may_have_63_characters_and_no_more() -> None:
    # <generate_name><5 characters>-work-1
    longest = 63 - 5 - len("-work-1")
    assert a_job(generate_name="a" * longest)
    with pytest.raises(ValueError, match="pod names of task work have 64 characters"):
        a_job(generate_name="a" * (longest + 1))


def test_the_index_of_the_last_pod_counts_for_the_length_of_its_name() -> None:
    job = a_job(generate_name="a" * (63 - 5 - len("-work-9")), tasks=(a_task(replicas=10),))
    assert job.tasks[0].replicas == 10
    with pytest.raises(ValueError, match="64 characters"):
        replace(job, tasks=(a_task(replicas=11),))


@pytest.mark.parametrize(("resource", "number"), [("gpu", 1), ("a.example/gpu", 0)])
def test_only_a_positive_number_of_an_extended_resource_can_be_asked_for(
    resource: str, number: int
) -> None:
    with pytest.raises(ValueError, match=f"{number} of device '{resource}'"):
        Resources(
            cpu="1", cpu_limit="1", memory="1Gi", memory_limit="1Gi", devices={resource: number}
        )
