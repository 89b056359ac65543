from pathlib import Path
from typing import Any

import pytest

from infra.accelerators import ACCELERATORS, Vendor
from workloads.jobs import Carrier, Check, allreduce
from workloads.render import to_yaml
from workloads.volcano import VolcanoJob

GOLDEN = Path(__file__).parents[2] / "golden"


def a_job(nvidia: int = 1, amd: int = 1, **changes: Any) -> VolcanoJob:
    return allreduce(workers={Vendor.NVIDIA: nvidia, Vendor.AMD: amd}, **changes)


def the_task(job: VolcanoJob, name: str) -> dict[str, Any]:
    [task] = [task for task in job.to_dict()["spec"]["tasks"] if task["name"] == name]
    return dict(task)


def the_pod(job: VolcanoJob, name: str) -> dict[str, Any]:
    pod: dict[str, Any] = the_task(job, name)["template"]["spec"]
    return pod


def the_environment(job: VolcanoJob, name: str) -> dict[str, str]:
    [container] = the_pod(job, name)["containers"]
    return {entry["name"]: entry.get("value", "") for entry in container["env"]}


@pytest.mark.parametrize(("nvidia", "amd"), [(1, 1), (2, 1)])
def test_the_whole_job_is_the_golden_one(nvidia: int, amd: int) -> None:
    golden = GOLDEN / f"allreduce-{nvidia}-nvidia-{amd}-amd.yaml"
    command = f"python -m workloads.render allreduce --nvidia {nvidia} --amd {amd}"
    assert to_yaml(a_job(nvidia, amd)) == golden.read_text(encoding="utf-8"), (
        f"if the change is meant: {command} --output {golden.relative_to(GOLDEN.parents[1])}"
    )


@pytest.mark.parametrize("vendor", Vendor)
def test_a_worker_asks_for_one_gpu_of_its_vendor_and_tolerates_its_taint(vendor: Vendor) -> None:
    accelerator = ACCELERATORS[vendor]
    pod = the_pod(a_job(), accelerator.task)
    resources = pod["containers"][0]["resources"]
    assert resources["requests"][accelerator.resource] == "1"
    assert resources["limits"][accelerator.resource] == "1"
    assert pod["tolerations"] == [accelerator.taint.toleration]


@pytest.mark.parametrize("vendor", Vendor)
def test_a_worker_runs_only_on_its_vendors_nodes_and_says_whose_they_are(vendor: Vendor) -> None:
    name = ACCELERATORS[vendor].task
    affinity = the_pod(a_job(), name)["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == [
        {
            "matchExpressions": [
                {"key": "crossvendor.dev/vendor", "operator": "In", "values": [vendor.value]}
            ]
        }
    ]
    assert the_environment(a_job(), name)["CROSSVENDOR_VENDOR"] == vendor.value


def test_the_launcher_keeps_off_every_vendors_nodes_and_asks_for_no_gpu() -> None:
    pod = the_pod(a_job(), "launcher")
    affinity = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    [expression] = affinity["nodeSelectorTerms"][0]["matchExpressions"]
    assert expression["operator"] == "NotIn"
    assert set(expression["values"]) == {vendor.value for vendor in Vendor}
    assert set(pod["containers"][0]["resources"]["limits"]) == {"cpu", "memory"}


@pytest.mark.parametrize(("nvidia", "amd"), [(1, 1), (2, 2), (2, 1), (5, 3)])
def test_all_workers_are_the_gang_and_the_launcher_waits_for_them(nvidia: int, amd: int) -> None:
    job = a_job(nvidia, amd)
    assert job.min_available == nvidia + amd
    assert the_task(job, "worker-nvidia")["replicas"] == nvidia
    assert the_task(job, "worker-amd")["replicas"] == amd
    launcher = the_task(job, "launcher")
    assert launcher["replicas"] == 1
    assert launcher["dependsOn"]["name"] == ["worker-nvidia", "worker-amd"]


@pytest.mark.parametrize("vendor", Vendor)
def test_a_vendor_without_workers_has_no_task(vendor: Vendor) -> None:
    numbers = dict.fromkeys(Vendor, 2) | {vendor: 0}
    job = allreduce(workers=numbers)
    names = [task.name for task in job.tasks]
    assert ACCELERATORS[vendor].task not in names
    assert the_environment(job, "launcher")["CROSSVENDOR_TASKS"].split() == names[:-1]


def test_the_launcher_exports_only_what_it_has_and_every_setting_of_the_libraries() -> None:
    environment = the_environment(a_job(link_mbits=1000), "launcher")
    exports = environment["CROSSVENDOR_EXPORT"].split()
    assert set(exports) - environment.keys() == {"PYTHONPATH"}, "the image alone sets that"
    settings = {n for n in environment if n.startswith(("UCC_", "UCX_", "OMPI_MCA_", "GLOO_"))}
    assert settings <= set(exports)
    assert "CROSSVENDOR_LINK_MBITS" in exports


def test_no_setting_of_the_libraries_is_a_workers_own() -> None:
    for accelerator in ACCELERATORS.values():
        names = the_environment(a_job(), accelerator.task)
        assert set(names) == {"CROSSVENDOR_VENDOR", "CROSSVENDOR_POD"}


@pytest.mark.parametrize("vendor", Vendor)
def test_what_one_vendors_hardware_needs_every_rank_gets(vendor: Vendor) -> None:
    environment = the_environment(a_job(), "launcher")
    assert ACCELERATORS[vendor].environment.items() <= environment.items()


def test_an_unknown_link_is_left_out_rather_than_guessed() -> None:
    assert "CROSSVENDOR_LINK_MBITS" not in the_environment(a_job(), "launcher")
    known = the_environment(a_job(link_mbits=2000), "launcher")
    assert known["CROSSVENDOR_LINK_MBITS"] == "2000"


def test_a_failed_launcher_ends_the_job_and_a_finished_one_completes_it() -> None:
    policies = the_task(a_job(), "launcher")["policies"]
    assert {"action": "CompleteJob", "events": ["TaskCompleted"]} in policies
    assert {"action": "TerminateJob", "events": ["PodFailed", "PodEvicted"]} in policies


def test_a_check_is_never_retried() -> None:
    job = a_job()
    policies = [*job.policies, *(policy for task in job.tasks for policy in task.policies)]
    assert not [policy for policy in policies if "Restart" in policy.action]


def test_the_launchers_own_deadlines_come_before_its_pods_and_the_workers_later() -> None:
    check = Check(wait_seconds=10, carrier_seconds=100)
    job = a_job(check=check)
    inside = 10 + len(check.carriers) * 100
    launcher = the_pod(job, "launcher")["activeDeadlineSeconds"]
    assert inside < launcher < the_pod(job, "worker-amd")["activeDeadlineSeconds"]


def test_the_checks_choices_reach_the_ranks_program() -> None:
    check = Check(carriers=(Carrier.GLOO,), max_bytes=1024, quick=True, fault="swap")
    job = a_job(check=check)
    [container] = the_pod(job, "launcher")["containers"]
    assert container["command"][3:] == [
        *("python3", "-m", "training.allreduce_check"),
        *("--max-bytes", "1024", "--quick", "--fault", "swap"),
    ]
    assert the_environment(job, "launcher")["CROSSVENDOR_CARRIERS"] == "gloo"


def test_workers_have_shared_memory_within_their_memory_limit() -> None:
    pod = the_pod(a_job(), "worker-nvidia")
    folders = {mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert folders == {"/home/mpiuser", "/tmp", "/dev/shm"}  # noqa: S108
    [shm] = [volume["emptyDir"] for volume in pod["volumes"] if volume["name"] == "shm"]
    assert shm == {"medium": "Memory", "sizeLimit": "1Gi"}


@pytest.mark.parametrize(("nvidia", "amd"), [(1, 0), (0, 0), (3, -1)])
def test_fewer_than_two_workers_are_refused(nvidia: int, amd: int) -> None:
    with pytest.raises(ValueError, match=f"workers are {nvidia} nvidia, {amd} amd"):
        a_job(nvidia, amd)


def test_a_link_without_bandwidth_is_refused() -> None:
    with pytest.raises(ValueError, match="link_mbits 0 is not positive"):
        a_job(link_mbits=0)


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ({"carriers": ()}, "carriers are none"),
        ({"carriers": (Carrier.MPI, Carrier.MPI)}, "carriers are mpi, mpi"),
        ({"max_bytes": 3}, "max_bytes 3 holds no element"),
        ({"wait_seconds": 0}, "wait_seconds 0 is not positive"),
        ({"carrier_seconds": 0}, "carrier_seconds 0 is not positive"),
    ],
)
def test_a_check_that_checks_nothing_is_refused(choice: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Check(**choice)
