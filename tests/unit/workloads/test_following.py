"""Following a job through streams that come in pieces, break off and start again."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.workloads.report.builders import START, a_record, a_request, events, log_of
from tests.unit.workloads.stub import Cluster, a_cluster, a_job, a_pod, changed, iso
from workloads.following import Deadlines, Follower
from workloads.watching import Watch

PATIENT = Deadlines(start_seconds=20, total_seconds=20)
JOB = "allreduce-x7k2p"
REQUEST = a_request(job=JOB)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    made = a_cluster(tmp_path / "cluster")
    made.kubectl.create({"metadata": {"name": JOB}})
    return made


def follow(cluster: Cluster, deadlines: Deadlines = PATIENT) -> tuple[str | None, Watch]:
    watch = Watch(request=REQUEST, nodes=(), started=START)
    follower = Follower(
        kubectl=cluster.kubectl, watch=watch, deadlines=deadlines, on_change=lambda _: None
    )
    return follower.follow(), watch


def pending_pods() -> list[Any]:
    never = {"node": None, "scheduled": None, "started": None, "ready": None, "finished": None}
    workers = a_record(a_request(job="@JOB@")).pods[1:]
    return [changed(a_pod(pod.model_copy(update={**never, "phase": "Pending"}))) for pod in workers]


def test_a_job_is_followed_to_its_end_with_its_whole_log(cluster: Cluster) -> None:
    problem, watch = follow(cluster)
    assert problem is None
    assert watch.phase == "Completed"
    assert watch.lines == log_of(events(REQUEST))
    assert set(watch.pods) == {*REQUEST.worker_pods, f"{JOB}-launcher-0"}


def test_a_log_that_breaks_off_in_a_line_is_read_on_without_loss_or_repetition(
    cluster: Cluster,
) -> None:
    lines = log_of(events(REQUEST))
    cluster.write("log", *lines[:50], "@CUT@", *lines[50:])
    cluster.write("job", changed(a_job("Running")), "@SLEEP@ 3", changed(a_job("Completed")))
    launcher = a_record(a_request(job="@JOB@")).pods[0]
    running = launcher.model_copy(update={"finished": None, "exit_code": None})
    cluster.write("pods", changed(a_pod(running)), "@SLEEP@ 2", changed(a_pod(launcher)))
    problem, watch = follow(cluster)
    assert problem is None
    assert (cluster.folder / "log.cut").exists()
    assert watch.lines == lines


def test_a_watch_that_breaks_off_in_an_object_is_started_again(cluster: Cluster) -> None:
    cluster.write("job", changed(a_job("Running")), "@CUT@", changed(a_job("Completed")))
    cluster.write("pods", *pending_pods())
    problem, watch = follow(cluster)
    assert problem is None
    assert (cluster.folder / "job.cut").exists()
    assert watch.phase == "Completed"


def test_a_gang_that_gets_no_nodes_is_given_up_with_the_schedulers_reason(
    cluster: Cluster,
) -> None:
    cluster.write("job", changed(a_job("Pending")))
    cluster.write("pods", *pending_pods())
    group = {
        "metadata": {"ownerReferences": [{"name": "@JOB@"}]},
        "status": {
            "conditions": [
                {
                    "type": "Unschedulable",
                    "status": "True",
                    "message": "1 Insufficient example.org/gpu",
                }
            ]
        },
    }
    cluster.write("groups", {"items": [group]})
    problem, _ = follow(cluster, Deadlines(start_seconds=0.6, total_seconds=20))
    assert problem is not None
    assert "2 of 2 pods have had no node" in problem
    assert "1 Insufficient example.org/gpu; ask for fewer workers" in problem


def test_a_job_that_takes_too_long_is_given_up(cluster: Cluster) -> None:
    cluster.write("job", changed(a_job("Running")))
    problem, _ = follow(cluster, Deadlines(start_seconds=20, total_seconds=0.8))
    assert problem is not None
    assert "not finished after 1 s" in problem
    assert "--timeout" in problem


def test_a_job_that_somebody_deletes_is_noticed(cluster: Cluster) -> None:
    cluster.write("job", changed(a_job("Running")), changed(a_job("Running"), "DELETED"))
    problem, _ = follow(cluster)
    assert problem == f"job {JOB}: was deleted while it ran; run it again."


def test_an_image_that_is_missing_ends_the_wait_at_once(cluster: Cluster) -> None:
    cluster.write("job", changed(a_job("Pending")))
    [first, second] = pending_pods()
    first["object"]["status"]["containerStatuses"] = [
        {"state": {"waiting": {"reason": "ErrImageNeverPull", "message": "no such image"}}}
    ]
    cluster.write("pods", first, second)
    problem, _ = follow(cluster)
    assert problem is not None
    assert "ErrImageNeverPull: no such image" in problem


def test_an_api_server_that_stays_away_is_named(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workloads.following.SILENCE_SECONDS", 0.3)
    (cluster.folder / "job").unlink()
    problem, _ = follow(cluster)
    assert problem is not None
    assert problem.startswith("API server: has not answered for")
    assert "job not found" in problem


def test_only_this_jobs_events_are_kept_in_order_of_time(cluster: Cluster) -> None:
    def about(name: str, after: float) -> dict[str, Any]:
        return {
            "metadata": {"creationTimestamp": iso(START + after)},
            "involvedObject": {"kind": "Pod", "name": name},
        }

    names = [f"{JOB}-worker-amd-0", JOB, "allreduce-x7k2pp", "other"]
    cluster.write("events", {"items": [about(n, 10 - i) for i, n in enumerate(names)]})
    watch = Watch(request=REQUEST, nodes=(), started=START)
    follower = Follower(
        kubectl=cluster.kubectl, watch=watch, deadlines=PATIENT, on_change=lambda _: None
    )
    assert [event.name for event in follower.events()] == [JOB, f"{JOB}-worker-amd-0"]
