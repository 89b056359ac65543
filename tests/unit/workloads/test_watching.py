"""What is known about a running job, from objects and lines in any state."""

import json
from typing import Any

import pytest

from infra.accelerators import Vendor
from tests.unit.workloads.report.builders import START, a_case, a_record, a_request
from tests.unit.workloads.stub import a_job, a_node, a_pod, iso
from workloads.report.record import Node, Pod
from workloads.watching import (
    UNLIKELY_SECONDS,
    Watch,
    event_of,
    hints_of,
    node_of,
    pod_of,
    seconds,
)

REQUEST = a_request()


def a_watch() -> Watch:
    return Watch(request=REQUEST, nodes=(), started=START)


def pending(name: str = "w", **changes: Any) -> Pod:
    return Pod(**{"name": name, "uid": "u", "task": "worker-amd", "created": START, **changes})


def waiting(reason: str, message: str = "") -> list[dict[str, Any]]:
    return [{"state": {"waiting": {"reason": reason, "message": message}}}]


def test_nodes_and_pods_of_the_api_become_the_records() -> None:
    record = a_record(REQUEST)
    assert tuple(node_of(a_node(node)) for node in record.nodes) == record.nodes
    for pod in record.pods:
        seen = pod_of(a_pod(pod))
        assert seen.name == pod.name
        assert seen.node == pod.node
        assert seen.exit_code == pod.exit_code
        assert seen.ready is not None
        assert pod.ready is not None
        assert abs(seen.ready - pod.ready) < 1


@pytest.mark.parametrize("link", ["", "fast", "-5", "0", "1.5"])
def test_a_link_annotation_that_is_no_number_is_unknown(link: str) -> None:
    node = a_node(Node(name="n", vendor=Vendor.AMD), **{"crossvendor.dev/link-mbits": link})
    assert node_of(node).link_mbits is None


def test_a_node_that_takes_no_pods_is_not_ready() -> None:
    ready = a_node(Node(name="n"))
    assert node_of(ready).is_ready
    assert not node_of({**ready, "spec": {"unschedulable": True}}).is_ready
    assert not node_of({**ready, "status": {}}).is_ready


def test_moments_that_a_later_state_no_longer_shows_are_kept() -> None:
    watch = a_watch()
    before = a_record(REQUEST).pods[1].model_copy(update={"finished": None, "exit_code": None})
    watch.see_pod(a_pod(before), now=0)
    after = before.model_copy(update={"ready": None, "scheduled": None, "phase": "Succeeded"})
    watch.see_pod(a_pod(after), now=1)
    kept = watch.pods[before.name]
    assert kept.phase == "Succeeded"
    assert kept.scheduled is not None
    assert kept.ready is not None


def test_a_pod_of_the_same_name_is_another_one() -> None:
    watch = a_watch()
    watch.see_pod(a_pod(pending(scheduled=START)), now=0)
    watch.see_pod(a_pod(pending(uid="v")), now=1)
    assert watch.pods["w"].scheduled is None


def test_a_new_launcher_tells_its_story_from_the_beginning() -> None:
    watch = a_watch()
    launcher = pending("l", task="launcher")
    watch.see_pod(a_pod(launcher), now=0)
    watch.see_line(json.dumps(a_case(REQUEST, "gloo")) + "\n")
    watch.see_pod(a_pod(launcher), now=1)
    assert watch.carriers["gloo"].num_cases == 1
    watch.see_pod(a_pod(launcher.model_copy(update={"uid": "v"})), now=2)
    assert watch.carriers == {}
    assert watch.lines == []


def test_lines_are_counted_by_carrier_and_bad_ones_only_kept() -> None:
    watch = a_watch()
    finished = {"event": "phase", "time": 1.0, "phase": "carrier-finished", "carrier": "gloo"}
    wrong = a_case(REQUEST, "gloo", correct=False)
    for thing in (a_case(REQUEST, "gloo"), wrong, {"event": "case"}, finished):
        watch.see_line(json.dumps(thing) + "\n")
    progress = watch.carriers["gloo"]
    assert (progress.num_cases, progress.num_wrong, progress.is_finished) == (2, 1, True)
    assert len(watch.lines) == 4


@pytest.mark.parametrize("phase", ["Completed", "Failed", "Aborted", "Terminated"])
def test_final_phases_end_the_watch(phase: str) -> None:
    watch = a_watch()
    watch.see_job(a_job("Running"))
    assert not watch.is_final
    watch.see_job(a_job(phase))
    assert watch.is_final
    assert [p.phase for p in watch.phases] == ["Pending", phase]


def test_an_image_that_will_never_come_is_said_at_once() -> None:
    watch = a_watch()
    statuses = waiting("ErrImageNeverPull", "image x is\n not present.")
    watch.see_pod(a_pod(pending(), containerStatuses=statuses), now=0)
    said = watch.hopeless(now=0)
    assert said is not None
    assert "ErrImageNeverPull: image x is not present; build and load the images" in said


def test_a_failed_pull_is_retried_for_a_while_whatever_it_is_called_meanwhile() -> None:
    watch = a_watch()
    for now, reason in ((0, "ErrImagePull"), (9, "ImagePullBackOff"), (20, "ErrImagePull")):
        watch.see_pod(a_pod(pending(), containerStatuses=waiting(reason)), now=now)
        assert watch.hopeless(now=now) is None
    assert watch.hopeless(now=UNLIKELY_SECONDS + 1) is not None
    watch.see_pod(a_pod(pending(started=START)), now=UNLIKELY_SECONDS + 2)
    assert watch.hopeless(now=UNLIKELY_SECONDS + 3) is None


def test_the_reason_for_not_starting_follows_how_far_the_job_came() -> None:
    watch = a_watch()
    assert "Volcano has not taken it up after 60 s" in watch.not_started(60, [])
    watch.see_job(a_job("Pending"))
    assert "no pod was created within 60 s: quota exceeded; see" in watch.not_started(
        60, ["", "quota exceeded."]
    )
    unschedulable = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no amd."}
    ]
    watch.see_pod(a_pod(pending(), conditions=unschedulable), now=0)
    said = watch.not_started(60, [])
    assert "1 of 1 pods have had no node for 60 s: Unschedulable: no amd; ask for fewer" in said
    assert "(--nvidia 1 --amd 1)" in said
    assert "60 s: 1 Insufficient example.org/gpu; ask" in watch.not_started(
        60, ["1 Insufficient example.org/gpu."]
    )
    watch.see_pod(a_pod(pending(scheduled=START)), now=0)
    assert "pod w: not ready after 60 s: phase Pending, not ready" in watch.not_started(60, [])
    watch.see_pod(a_pod(pending(scheduled=START, ready=START)), now=0)
    assert "every worker is ready, but no launcher has started" in watch.not_started(60, [])


def test_hints_are_the_gangs_own_reason_then_the_latest_warning() -> None:
    unschedulable = {"type": "Unschedulable", "status": "True", "message": "gang"}
    mine = {
        "metadata": {"ownerReferences": [{"name": REQUEST.job}]},
        "status": {"conditions": [unschedulable]},
    }
    other = {"metadata": {}, "status": {"conditions": [{**unschedulable, "message": "other"}]}}
    kubernetes = {
        "metadata": {"creationTimestamp": iso(START)},
        "involvedObject": {"kind": "Pod", "name": "w"},
        "type": "Warning",
        "reason": "Failed",
        "message": "warned",
    }
    event = event_of(kubernetes)
    assert event is not None
    assert event.time == START
    assert hints_of(REQUEST, [other, mine], [event]) == ["gang", "warned"]
    assert event_of({"metadata": {"creationTimestamp": None}}) is None


def test_times_of_both_precisions_are_read() -> None:
    assert seconds("2026-09-21T14:13:20Z") == seconds("2026-09-21T14:13:20.000000Z") == START


def test_the_record_keeps_the_last_text_lines_of_the_log_without_its_events() -> None:
    watch = a_watch()
    for number in range(100):
        watch.see_line(f"line {number}\n")
        watch.see_line(json.dumps(a_case(REQUEST, "gloo")) + "\n")
    record = watch.record(finished=START + 1, server="", problem=None, events=(), timings=())
    assert record.log_tail[-1] == "line 99"
    assert len(record.log_tail) == 60
