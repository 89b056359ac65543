"""The main job's result: complete, right, stated by every rank; and a wrong one is found."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from infra.accelerators import ACCELERATORS, Vendor
from infra.names import NAMESPACE_TRAINING
from tests.cluster.conftest import CHECKOUT, Run, Submitted, remove, run_check
from workloads.jobs import Carrier, Check, allreduce
from workloads.kubectl import Kubectl

pytestmark = pytest.mark.cluster


def test_the_check_passes(check_run: Run) -> None:
    assert check_run.exit_status == 0, check_run.output
    assert "PASS" in check_run.output


@pytest.mark.parametrize("carrier", Carrier)
def test_every_case_of_every_carrier_is_right(check_run: Run, carrier: Carrier) -> None:
    cases = [case for case in check_run.of("case") if case["carrier"] == carrier]
    assert cases
    assert [case for case in cases if not case["correct"] or case["num_wrong_elements"]] == []
    world = [case for case in cases if case["team"] == "world"]
    assert {case["in_place"] for case in world} == {True, False}
    assert {"sum", "max"} <= {case["op"] for case in world}
    assert {"float32", "float64", "int64"} <= {case["dtype"] for case in world}
    assert {len(case["team_ranks"]) for case in cases} != {len(world[0]["team_ranks"])}
    assert any(case["num_elements"] % 2 for case in world), "no odd number of elements"


@pytest.mark.parametrize("carrier", Carrier)
def test_both_vendors_state_themselves_on_every_carrier(check_run: Run, carrier: Carrier) -> None:
    ranks = [rank for rank in check_run.of("rank") if rank["carrier"] == carrier]
    assert {rank["vendor"] for rank in ranks} == {vendor.value for vendor in Vendor}
    assert len({rank["hostname"] for rank in ranks}) == len(ranks)
    assert sorted(rank["rank"] for rank in ranks) == list(range(len(ranks)))


@pytest.mark.parametrize("carrier", Carrier)
def test_settings_and_versions_are_the_same_on_every_rank(check_run: Run, carrier: Carrier) -> None:
    ranks = [rank for rank in check_run.of("rank") if rank["carrier"] == carrier]
    for kind in ("settings", "versions"):
        assert ranks[0][kind]
        assert len({json.dumps(rank[kind], sort_keys=True) for rank in ranks}) == 1, kind


def test_the_ucc_that_carried_is_stated_with_its_origin(check_run: Run) -> None:
    for rank in check_run.of("rank"):
        if rank["carrier"] == Carrier.LIBUCC:
            assert rank["versions"]["ucc"]
            assert rank["origins"]["ucc"]


def test_a_wrong_sum_fails_the_check(kubeconfig: Path, tmp_path: Path) -> None:
    run = run_check(kubeconfig, tmp_path, "--quick", "--carriers", "gloo", "--fault", "wrong-sum")
    assert run.exit_status == 1, run.output
    assert "FAIL" in run.output
    wrong = [case for case in run.of("case") if not case["correct"]]
    assert wrong
    assert wrong[0]["first_wrong"]["got"] != wrong[0]["first_wrong"]["expected"]


@pytest.mark.parametrize("vendor", Vendor)
def test_a_killed_worker_fails_the_job_and_everything_is_cleaned_up(
    submit: Callable[[Mapping[str, Any]], Submitted], kubectl: Kubectl, vendor: Vendor
) -> None:
    check = Check(carriers=(Carrier.GLOO,))
    job = submit(allreduce(workers=dict.fromkeys(Vendor, 1), check=check).to_dict())
    job.wait("computing", lambda j: '"event": "rank"' in log(j).replace('":"', '": "'))
    [victim] = job.pods(ACCELERATORS[vendor].task)
    # As a node that goes away: no grace for anybody.
    kubectl.run(
        "delete", "pod", victim["metadata"]["name"], "-n", NAMESPACE_TRAINING,
        "--grace-period=0", "--force",
    )  # fmt: skip
    job.wait("ended", lambda j: j.phase() in ("Failed", "Terminated", "Aborted"), seconds=120)
    job.wait("without running pods", lambda j: not running(j), seconds=60)
    remove(job)


def test_a_killed_command_is_no_obstacle_to_the_next(kubeconfig: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "workloads.run", "allreduce", "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout
        for line in first.stdout:
            if "libucc: " in line:  # the collectives run
                break
        first.kill()
    assert first.returncode == -signal.SIGKILL
    run = run_check(kubeconfig, tmp_path, "--quick")
    assert run.exit_status == 0, run.output


def log(job: Submitted) -> str:
    """What the launcher has said so far."""
    pods = job.pods("launcher")
    if not pods or pods[0]["status"]["phase"] == "Pending":
        return ""
    return job.kubectl.run("logs", "-n", NAMESPACE_TRAINING, pods[0]["metadata"]["name"])


def running(job: Submitted) -> list[str]:
    return [
        pod["metadata"]["name"]
        for pod in job.pods()
        if pod["status"]["phase"] in ("Pending", "Running")
    ]


def test_a_committed_manifest_is_accepted_as_it_is(kubectl: Kubectl) -> None:
    folder = Path(__file__).parents[2] / "workloads" / "manifests"
    files = sorted(folder.glob("*.yaml"))
    assert files
    for file in files:
        kubectl.run("create", "--dry-run=server", "--validate=strict", "-f", str(file))


def test_the_wrong_kubeconfig_is_one_sentence(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    run = run_check(missing, tmp_path, "--quick")
    assert run.exit_status == 2
    assert "Traceback" not in run.output
    assert str(missing) in run.output
    begin = time.monotonic()
    wrong = tmp_path / "wrong"
    wrong.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "x",
                "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}],
                "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
                "users": [{"name": "x", "user": {}}],
            }
        ),
        encoding="utf-8",
    )
    run = run_check(wrong, tmp_path, "--quick")
    assert run.exit_status == 2
    assert "Traceback" not in run.output
    assert time.monotonic() - begin < 60
