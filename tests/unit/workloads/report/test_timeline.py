"""The timeline: every stage where it was, inside the drawing."""

from tests.unit.workloads.report.builders import START, a_record, a_request, results_of
from workloads.report.results import Results
from workloads.report.timeline import LABEL_WIDTH, WIDTH, timeline


def test_there_is_a_lane_for_the_job_each_pod_and_each_carrier() -> None:
    request = a_request()
    drawing = timeline(a_record(request), results_of(request))
    labels = [lane.label for lane in drawing.lanes]
    job = request.job
    workers = [f"{job}-worker-nvidia-0", f"{job}-worker-amd-0"]
    assert labels == ["job", *workers, f"{job}-launcher-0", "libucc", "mpi", "gloo"]


def test_bars_are_inside_and_follow_each_other() -> None:
    request = a_request(3, 2)
    drawing = timeline(a_record(request), results_of(request))
    for lane in drawing.lanes:
        assert lane.bars
        assert lane.y < drawing.axis_y < drawing.height
        for bar in lane.bars:
            assert bar.x >= LABEL_WIDTH
            assert bar.x + bar.width <= WIDTH
        for bar, following in zip(lane.bars, lane.bars[1:], strict=False):
            assert bar.x + bar.width <= following.x + 1.5  # the least width


def test_a_pods_stages_are_its_moments() -> None:
    request = a_request()
    drawing = timeline(a_record(request), results_of(request))
    worker = next(lane for lane in drawing.lanes if lane.label.endswith("worker-nvidia-0"))
    assert [bar.kind for bar in worker.bars] == ["waiting", "starting", "readying", "running"]
    assert worker.bars[0].hint == "waiting for a node: from 1.0 s, 1.2 s"


def test_a_pod_that_never_got_a_node_waits_until_the_end() -> None:
    record = a_record(a_request())
    never = {"scheduled": None, "started": None, "ready": None, "finished": None}
    pods = tuple(pod.model_copy(update=never) for pod in record.pods)
    drawing = timeline(record.model_copy(update={"pods": pods}), Results())
    for lane in drawing.lanes[1:]:
        [bar] = lane.bars
        assert bar.kind == "waiting"
        assert bar.x + bar.width > WIDTH - 20


def test_a_container_that_ran_but_was_never_ready_says_so() -> None:
    record = a_record(a_request())
    pods = tuple(pod.model_copy(update={"ready": None}) for pod in record.pods)
    drawing = timeline(record.model_copy(update={"pods": pods}), Results())
    assert "never ready" in drawing.lanes[1].bars[-1].hint


def test_an_unfinished_carrier_says_how_far_it_came() -> None:
    request = a_request()
    results = results_of(request, lambda log: log.__delitem__(slice(40, None)))
    last = timeline(a_record(request), results).lanes[-1]
    assert last.label == "libucc"
    assert "not finished" in last.bars[0].hint


def test_the_scale_has_few_round_ticks_from_zero() -> None:
    for length in (0.5, 7, 38, 100, 900, 5000):
        record = a_record(a_request(), finished=START + length, pods=(), phases=())
        ticks = timeline(record, Results()).ticks
        assert ticks[0].text == "0 s"
        assert 2 <= len(ticks) <= 11
