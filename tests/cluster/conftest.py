"""The cluster under test, and jobs on it: one held open to look into, and runs of the check."""

import copy
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import testinfra

from infra.accelerators import ACCELERATORS, Vendor
from infra.names import NAMESPACE_TRAINING
from workloads.jobs import allreduce
from workloads.kubectl import Kubectl

CHECKOUT: Final = Path(__file__).parents[2]
JOB_LABEL: Final = "volcano.sh/job-name"
TASK_LABEL: Final = "volcano.sh/task-spec"
START_SECONDS: Final = 90


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kubeconfig", help="cluster with the platform on it (make up, or your own)")


@pytest.fixture(scope="session")
def kubeconfig(pytestconfig: pytest.Config) -> Path:
    chosen = pytestconfig.getoption("--kubeconfig")
    if not chosen:
        pytest.fail("tests/cluster needs a cluster; run `make test`, or give --kubeconfig FILE")
    return Path(chosen).resolve()


@pytest.fixture(scope="session")
def kubectl(kubeconfig: Path) -> Kubectl:
    return Kubectl(kubeconfig=kubeconfig)


@pytest.fixture(scope="session")
def nodes(kubectl: Kubectl) -> dict[str, dict[str, Any]]:
    """Nodes by name."""
    return {node["metadata"]["name"]: node for node in kubectl.items("nodes")}


@pytest.fixture(scope="session")
def gpus(nodes: dict[str, dict[str, Any]]) -> dict[Vendor, int]:
    """GPUs that the cluster has, by vendor."""
    return {
        vendor: sum(
            int(node["status"]["allocatable"].get(accelerator.resource, 0))
            for node in nodes.values()
        )
        for vendor, accelerator in ACCELERATORS.items()
    }


@dataclass(frozen=True, kw_only=True)
class Submitted:
    """A job that a test created."""

    name: str
    kubectl: Kubectl

    def pods(self, task: str | None = None) -> list[dict[str, Any]]:
        """Its pods, or one task's."""
        selector = f"{JOB_LABEL}={self.name}"
        if task is not None:
            selector += f",{TASK_LABEL}={task}"
        return self.kubectl.items("pods", "-n", NAMESPACE_TRAINING, "-l", selector)

    def phase(self) -> str:
        """The job's phase in Volcano's words."""
        job = self.kubectl.get("vcjob", self.name, "-n", NAMESPACE_TRAINING)
        return str(job.get("status", {}).get("state", {}).get("phase", ""))

    def wait(
        self, what: str, ready: Callable[["Submitted"], bool], *, seconds: float = START_SECONDS
    ) -> None:
        """Poll until `ready`, or fail with what the pods look like."""
        end = time.monotonic() + seconds
        while not ready(self):
            if time.monotonic() > end:
                pods = [(p["metadata"]["name"], p["status"]) for p in self.pods()]
                pytest.fail(f"job {self.name}: not {what} within {seconds} s: {pods}")
            time.sleep(0.3)


def is_running(submitted: Submitted, num_pods: int) -> bool:
    """Whether that many pods run and are ready."""
    ready = [
        pod
        for pod in submitted.pods()
        if all(status["ready"] for status in pod["status"].get("containerStatuses", [{"ready": 0}]))
        and pod["status"]["phase"] == "Running"
    ]
    return len(ready) == num_pods


@pytest.fixture
def submit(kubectl: Kubectl) -> Iterator[Callable[[Mapping[str, Any]], Submitted]]:
    """Create a job; it is deleted at the end of the test, whatever became of it."""
    created: list[Submitted] = []

    def create(manifest: Mapping[str, Any]) -> Submitted:
        created.append(_submitted(kubectl, manifest))
        return created[-1]

    yield create
    for submitted in created:
        remove(submitted)


def _submitted(kubectl: Kubectl, manifest: Mapping[str, Any]) -> Submitted:
    return Submitted(name=kubectl.create(manifest)["metadata"]["name"], kubectl=kubectl)


def remove(submitted: Submitted) -> None:
    """Delete a job and wait until its pods are gone, so that its GPUs are free."""
    submitted.kubectl.run(
        "delete", "vcjob", submitted.name, "-n", NAMESPACE_TRAINING, "--ignore-not-found",
        "--wait=false",
    )  # fmt: skip
    end = time.monotonic() + 60
    while submitted.pods():
        if time.monotonic() > end:
            pytest.fail(f"pods of job {submitted.name} stay after its deletion")
        time.sleep(0.3)


def held(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The same job with a launcher that waits instead of launching, to look into its pods."""
    changed = copy.deepcopy(dict(manifest))
    [launcher] = [task for task in changed["spec"]["tasks"] if task["name"] == "launcher"]
    [container] = launcher["template"]["spec"]["containers"]
    container["command"] = ["sh", "-c", "trap exit TERM; sleep 900 & wait"]
    return changed


@pytest.fixture(scope="module")
def open_job(kubectl: Kubectl) -> Iterator[Submitted]:
    """A running job of one worker per vendor whose launcher waits."""
    workers = dict.fromkeys(Vendor, 1)
    submitted = _submitted(kubectl, held(allreduce(workers=workers).to_dict()))
    try:
        submitted.wait("running", lambda job: is_running(job, len(workers) + 1))
        yield submitted
    finally:
        remove(submitted)


Host = Callable[[str], Any]


@pytest.fixture(scope="module")
def host(open_job: Submitted, kubeconfig: Path) -> Host:
    """Testinfra's host for the first pod of a task of the open job."""

    def connect(task: str) -> Any:
        pod = open_job.pods(task)[0]["metadata"]["name"]
        return testinfra.get_host(
            f"kubectl://{pod}?namespace={NAMESPACE_TRAINING}&kubeconfig={kubeconfig}"
        )

    return connect


TASKS: Final = ("launcher", *(accelerator.task for accelerator in ACCELERATORS.values()))


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of `python -m workloads.run`."""

    exit_status: int
    output: str
    report: Path
    """The page it wrote."""
    events: list[dict[str, Any]]

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Its events of a kind."""
        return [event for event in self.events if event["event"] == kind]


def run_check(kubeconfig: Path, folder: Path, *arguments: str) -> Run:
    """Run the check as a person does, and read what it left."""
    done = subprocess.run(
        [sys.executable, "-m", "workloads.run", "allreduce", "--kubeconfig", str(kubeconfig),
         "--report", str(folder / "report"), "--results", str(folder / "results"), *arguments],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )  # fmt: skip
    lines = [
        line
        for file in sorted((folder / "results").glob("*.jsonl"))
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    return Run(
        exit_status=done.returncode,
        output=done.stdout + done.stderr,
        report=folder / "report" / "index.html",
        events=[json.loads(line) for line in lines],
    )


@pytest.fixture(scope="session")
def check_run(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A quick run of the check on every carrier."""
    return run_check(kubeconfig, tmp_path_factory.mktemp("check"), "--quick")
