"""The progress of a job in a terminal and in a file."""

import io
import json

from rich.console import Console

from tests.unit.workloads.report.builders import START, a_case, a_record, a_request
from tests.unit.workloads.stub import a_job, a_pod
from workloads.progress import PlainView, state, view
from workloads.watching import Watch

REQUEST = a_request()


def a_watch() -> Watch:
    return Watch(request=REQUEST, nodes=(), started=START)


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_state_counts_pods_until_the_launcher_runs() -> None:
    watch = a_watch()
    assert state(watch) == "job not taken up yet"
    watch.see_job(a_job("Pending"))
    launcher, *workers = a_record(REQUEST).pods
    watch.see_pod(a_pod(workers[0]), now=0)
    watch.see_pod(a_pod(workers[1].model_copy(update={"ready": None})), now=0)
    assert state(watch) == "job Pending: 2 pods, 2 on a node, 1 ready"
    watch.see_job(a_job("Running"))
    watch.see_pod(a_pod(launcher), now=0)
    assert state(watch) == "job Running"


def test_a_file_gets_a_line_per_change_and_no_control_codes() -> None:
    console = Console(file=io.StringIO(), width=100)
    watch = a_watch()
    with view(console) as show:
        assert isinstance(show, PlainView)
        for _ in range(3):
            show(watch)
        watch.see_job(a_job("Running"))
        for _ in range(50):
            watch.see_line(json.dumps(a_case(REQUEST, "gloo")))
            show(watch)
        finished = {"event": "phase", "time": 1.0, "phase": "carrier-finished", "carrier": "gloo"}
        watch.see_line(json.dumps(finished))
        show(watch)
    lines = [line[10:] for line in text_of(console).splitlines()]
    assert lines == [
        "job not taken up yet",
        "job Running",
        "gloo: 1 cases, 0 wrong",
        "gloo: 50 cases, 0 wrong, finished",
    ]
    assert "\x1b" not in text_of(console)


def test_a_terminal_shows_every_carrier_and_why_a_pod_waits() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    watch = a_watch()
    watch.see_line(json.dumps(a_case(REQUEST, "gloo", correct=False)))
    pod = a_record(REQUEST).pods[1].model_copy(update={"started": None, "finished": None})
    statuses = [{"state": {"waiting": {"reason": "[red]Creating"}}}]
    watch.see_pod(a_pod(pod, containerStatuses=statuses), now=0)
    with view(console) as show:
        show(watch)
    text = text_of(console)
    for part in ("libucc", "waiting", "1 cases", "1 wrong", "[red]Creating"):
        assert part in text
