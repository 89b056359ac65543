"""The picture of the cluster: every node and pod once, nothing on top of another."""

from infra.accelerators import ACCELERATORS, Vendor
from tests.unit.workloads.report.builders import a_record, a_request
from workloads.report.picture import CARD_WIDTH, MAX_COLUMNS, picture, pod_state
from workloads.report.record import Pod


def test_every_node_is_drawn_once_and_every_pod_in_its_node() -> None:
    record = a_record(a_request(2, 3))
    drawn = [card for row in picture(record).rows for card in row.cards]
    assert sorted(card.name for card in drawn) == sorted(node.name for node in record.nodes)
    for card in drawn:
        there = [p.name.removeprefix(f"{record.request.job}-") for p in record.pods
                 if p.node == card.name]  # fmt: skip
        assert [box.name for box in card.pods] == there


def test_cards_stay_inside_and_do_not_overlap() -> None:
    drawing = picture(a_record(a_request(4, 5)))
    for row in drawing.rows:
        assert 1 <= len(row.cards) <= MAX_COLUMNS
        for left, right in zip(row.cards, row.cards[1:], strict=False):
            assert left.x + CARD_WIDTH < right.x
        assert row.cards[-1].x + CARD_WIDTH < drawing.width
        assert all(card.y + card.height < row.bus_y < drawing.height for card in row.cards)
    for above, below in zip(drawing.rows, drawing.rows[1:], strict=False):
        assert above.bus_y < min(card.y for card in below.cards)


def test_vendors_are_told_apart_and_the_slowest_link_is_marked() -> None:
    drawn = {card.name: card for row in picture(a_record(a_request())).rows for card in row.cards}
    tones = [card.tone for card in drawn.values()]
    assert tones == [0, *range(1, 1 + len(ACCELERATORS))]
    assert [card.is_slowest for card in drawn.values()] == [False, False, True]
    assert drawn["crossvendor-amd-0"].link == "2 Gbit/s"
    row = ACCELERATORS[Vendor.AMD]
    assert drawn["crossvendor-amd-0"].gpus == f"1 x {row.resource} ({row.gpu})"


def test_pods_without_a_node_are_named_beside_the_picture() -> None:
    record = a_record(a_request())
    pods = tuple(pod.model_copy(update={"node": None}) for pod in record.pods)
    drawing = picture(record.model_copy(update={"pods": pods}))
    assert drawing.homeless == tuple(pod.name for pod in pods)
    assert all(not card.pods for row in drawing.rows for card in row.cards)


def test_a_cluster_that_was_never_seen_is_an_empty_picture() -> None:
    drawing = picture(a_record(a_request(), nodes=()))
    assert drawing.rows == ()
    assert drawing.height > 0


def test_a_worker_that_is_stopped_with_its_completed_job_ended_well() -> None:
    def a_pod(phase: str, exit_code: int | None) -> Pod:
        return Pod(name="w", uid="u", task="t", created=1, phase=phase, exit_code=exit_code)

    good, bad = a_record(a_request()), a_record(a_request(), phase="Terminated")
    assert pod_state(good, a_pod("Succeeded", 0)) == "good"
    assert pod_state(good, a_pod("Failed", 143)) == "good"
    assert pod_state(good, a_pod("Failed", 1)) == "bad"
    assert pod_state(bad, a_pod("Failed", 143)) == "bad"
    assert pod_state(bad, a_pod("Pending", None)) == "open"
