"""The command from its arguments to its exit status, against a cluster of files."""

import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from infra.accelerators import Vendor
from tests.unit.workloads.report.builders import MAX_BYTES, a_request, events, log_of
from tests.unit.workloads.stub import Cluster, a_cluster, a_job, changed
from workloads import run
from workloads.report.record import Node, Record

NODES = (
    Node(name="s"),
    Node(name="n0", vendor=Vendor.NVIDIA, link_mbits=5000),
    Node(name="n1", vendor=Vendor.NVIDIA, link_mbits=3000),
    Node(name="n2", vendor=Vendor.NVIDIA, is_ready=False),
    Node(name="a0", vendor=Vendor.AMD, link_mbits=2000),
)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return a_cluster(tmp_path / "cluster")


def arguments(cluster: Cluster, *more: str) -> list[str]:
    out = cluster.folder.parent / "build"
    return [
        *("allreduce", "--kubectl", str(cluster.program), "--max-bytes", str(MAX_BYTES)),
        *("--report", str(out / "report"), "--results", str(out / "results")),
        *("--timings", str(out / "timings.jsonl"), *more),
    ]


def outcome(cluster: Cluster, *more: str) -> tuple[int, str]:
    console = Console(file=io.StringIO(), width=140)
    status = run.run(run.parse(arguments(cluster, *more)), console)
    assert isinstance(console.file, io.StringIO)
    return status, console.file.getvalue()


def test_a_good_job_passes_and_leaves_its_report_results_and_timings(cluster: Cluster) -> None:
    status, text = outcome(cluster)
    assert status == 0
    assert text.splitlines()[-1].startswith("PASS: 1 nvidia and 1 amd workers agree on all 235")
    build = cluster.folder.parent / "build"
    assert "PASS" in (build / "report" / "index.html").read_text()
    [saved] = (build / "results").glob("*.jsonl")
    job = saved.stem
    assert job.startswith("allreduce-")
    assert len(saved.read_text().splitlines()) == len(events(a_request()))
    record = Record.load(saved.with_suffix(".record.json"))
    assert record.request.workers == {Vendor.NVIDIA: 1, Vendor.AMD: 1}
    assert record.request.link_mbits == 2000
    assert record.server == "v1.35.4"
    lines = (build / "timings.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in lines]
    assert steps == ["allreduce job", "report"]


def test_the_submitted_job_is_the_builders_with_a_name_and_an_owner(cluster: Cluster) -> None:
    outcome(cluster, "--carriers", "gloo,mpi", "--quick")
    made = json.loads((cluster.folder / "created.json").read_text())
    assert made["kind"] == "Job"
    assert "generateName" not in made["metadata"]
    assert made["metadata"]["annotations"]["crossvendor.dev/owner"] == run.owner(os.getpid())
    text = json.dumps(made)
    assert '"gloo mpi"' in text
    assert '"--quick"' in text
    assert '"CROSSVENDOR_LINK_MBITS", "value": "2000"' in text


def test_the_job_is_deleted_unless_it_is_to_be_kept(cluster: Cluster) -> None:
    outcome(cluster)
    name = json.loads((cluster.folder / "created.json").read_text())["metadata"]["name"]
    [deletion] = [call for call in cluster.calls if call.startswith("delete")]
    assert deletion.startswith(f"delete jobs.batch.volcano.sh {name} --namespace=crossvendor-train")


def test_a_job_that_is_to_be_kept_is_not_deleted(cluster: Cluster) -> None:
    outcome(cluster, "--keep")
    assert not [call for call in cluster.calls if call.startswith("delete")]


def test_a_wrong_case_fails_although_everything_else_claims_success(cluster: Cluster) -> None:
    objects = events(a_request(job="@JOB@"))
    case = next(e for e in objects if e["event"] == "case")
    first = {"rank": 1, "index": 0, "got": 1.0, "expected": 3.0}
    case.update(correct=False, num_wrong_elements=1, first_wrong=first)
    cluster.write("log", *log_of(objects))
    status, text = outcome(cluster)
    assert status == run.EXIT_FAILED
    assert "FAIL: libucc: 1 of 85 cases are wrong" in text.splitlines()[-1]
    assert (
        'class="verdict fail"'
        in (cluster.folder.parent / "build" / "report" / "index.html").read_text()
    )


def test_fewer_carriers_than_asked_for_fail(cluster: Cluster) -> None:
    request = a_request(job="@JOB@", carriers=("libucc", "mpi"))
    cluster.write("log", *log_of(events(request)))
    status, text = outcome(cluster)
    assert status == run.EXIT_FAILED
    assert "FAIL: gloo: ended without a summary" in text


def test_a_job_that_fails_after_a_passing_verdict_fails(cluster: Cluster) -> None:
    cluster.write("job", changed(a_job("Terminated")))
    status, text = outcome(cluster)
    assert status == run.EXIT_FAILED
    assert "phase is Terminated instead of Completed" in text


def test_earlier_steps_are_shown_before_ours(cluster: Cluster) -> None:
    file = cluster.folder.parent / "build" / "timings.jsonl"
    file.parent.mkdir()
    file.write_text('{"step": "nodes", "seconds": 9.91}\n')
    _, text = outcome(cluster)
    assert text.index("nodes") < text.index("9.9") < text.index("allreduce job")
    file.write_text("{}\n")
    with pytest.raises(run.CannotRunError, match="is not lines of"):
        outcome(cluster)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({Vendor.NVIDIA: None, Vendor.AMD: None}, {Vendor.NVIDIA: 2, Vendor.AMD: 1}),
        ({Vendor.NVIDIA: 1, Vendor.AMD: None}, {Vendor.NVIDIA: 1, Vendor.AMD: 1}),
        ({Vendor.NVIDIA: 0, Vendor.AMD: 3}, {Vendor.NVIDIA: 0, Vendor.AMD: 3}),
    ],
)
def test_workers_are_what_was_asked_for_or_one_per_ready_node(
    asked: dict[Vendor, int | None], expected: dict[Vendor, int]
) -> None:
    assert run.num_workers(asked, NODES) == expected


def test_a_vendor_without_a_node_and_a_negative_number_are_refused() -> None:
    with pytest.raises(run.CannotRunError, match=r"no ready node is labelled .*/vendor=amd; add"):
        run.num_workers({Vendor.AMD: None}, NODES[:-1])
    with pytest.raises(run.CannotRunError, match="--amd: -1 is negative"):
        run.num_workers({Vendor.AMD: -1}, NODES)


def test_the_slowest_link_is_that_of_the_vendors_that_take_part() -> None:
    assert run.slowest_link(NODES, {Vendor.NVIDIA: 1, Vendor.AMD: 1}) == 2000
    assert run.slowest_link(NODES, {Vendor.NVIDIA: 2, Vendor.AMD: 0}) == 3000
    assert run.slowest_link(NODES[:1], {Vendor.NVIDIA: 1}) is None


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["--carriers", "pigeon"], "--carriers: 'pigeon' is not one; use libucc, mpi, gloo."),
        (["--carriers", "gloo,gloo"], "carriers are gloo, gloo; name each at most once"),
        (["--max-bytes", "1"], "max_bytes 1 holds no element"),
        (["--timeout", "0"], "--timeout, --start-timeout: must be positive"),
        (["--kubeconfig", "nope"], "--kubeconfig: nope does not exist; `make up`"),
        (["--kubectl", "/nope/kubectl"], "/nope/kubectl cannot be started: No such file"),
        (["--nvidia", "0", "--amd", "1"], "a sum needs at least two"),
        (["--nvidia", "-1"], "--nvidia: -1 is negative"),
    ],
)
def test_bad_usage_is_one_sentence_and_status_2(
    cluster: Cluster, capfd: pytest.CaptureFixture[str], more: list[str], reason: str
) -> None:
    assert run.main(arguments(cluster, *more)) == run.EXIT_UNUSABLE
    said = capfd.readouterr().err
    assert reason in said
    assert len(said.splitlines()) == 1
    assert not (cluster.folder / "created.json").exists()


def test_a_refused_job_is_status_2_with_the_api_servers_reason(
    cluster: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster.write("refusal", 'Error from server (NotFound): namespaces "crossvendor-training"')
    assert run.main(arguments(cluster)) == run.EXIT_UNUSABLE
    assert "the API server refused it" in capfd.readouterr().err


def test_a_cluster_that_does_not_answer_is_status_2(
    cluster: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster.write("version", "<html>")
    assert run.main(arguments(cluster)) == run.EXIT_UNUSABLE
    assert "start one with `make up`, or give --kubeconfig" in capfd.readouterr().err


def left_behind(claim: str, phase: str = "Running", name: str = "old") -> dict[str, Any]:
    return a_job(phase, name=name, annotations={"crossvendor.dev/owner": claim})


def test_an_orphan_is_an_unfinished_job_of_a_process_that_is_gone() -> None:
    host, mine = socket.gethostname(), run.owner(os.getpid())
    reused = mine.rpartition("/")[0] + "/1"
    assert not run.is_orphan(left_behind(mine))
    assert run.is_orphan(left_behind(reused))
    assert run.is_orphan(left_behind(f"{host}/999999999/1"))
    assert not run.is_orphan(left_behind(reused, phase="Completed"))
    assert not run.is_orphan(left_behind("elsewhere/1/1"))
    assert not run.is_orphan(left_behind(""))
    assert not run.is_orphan({"metadata": {}})


def test_the_job_of_a_killed_command_is_deleted_first(cluster: Cluster) -> None:
    orphan = left_behind(f"{socket.gethostname()}/999999999/1")
    cluster.write("jobs", {"items": [orphan]})
    _, text = outcome(cluster)
    assert "job old was left by a command that was killed: deleting it" in text
    calls = [call.split()[0:3:2] for call in cluster.calls if call.split()[0] != "get"]
    assert calls[0] == ["delete", "old"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_deletes_its_job(cluster: Cluster, number: signal.Signals) -> None:
    cluster.write("job", changed(a_job("Running")))
    process = subprocess.Popen(
        [sys.executable, "-m", "workloads.run", *arguments(cluster)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not any("logs" in call for call in cluster.calls) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == run.EXIT_INTERRUPTED
    assert said == "interrupted; no job is left in the cluster.\n"
    assert cluster.calls[-1].startswith("delete")
