import json

from workloads.training.agreement import Statement
from workloads.training.cases import Case, Skipped
from workloads.training.outcomes import Outcome
from workloads.training.reports import case_values, rank_values, summary_values

CASE = Case(
    operation="sum", dtype="float32", in_place=True, team="world", num_elements=25, iterations=1
)
NODES = {0: "node-a", 1: "node-b"}


def test_a_case_event_has_the_fields_of_the_protocol() -> None:
    outcomes = [Outcome(rank=0, seconds=[1e-3]), Outcome(rank=1, seconds=[2e-3])]
    values = case_values("mpi", CASE, (0, 1), outcomes, NODES, 0.8)
    assert values == {
        "carrier": "mpi",
        "collective": "allreduce",
        "op": "sum",
        "dtype": "float32",
        "in_place": True,
        "team": "world",
        "team_ranks": [0, 1],
        "num_elements": 25,
        "num_bytes": 100,
        "correct": True,
        "num_wrong_elements": 0,
        "first_wrong": None,
        "seconds": 2e-3,
        "iterations": 1,
        "algbw_mbs": 0.05,
        "busbw_mbs": 0.05,
        "link_share": 0.5,
        "error": None,
    }


def test_one_wrong_element_on_any_rank_makes_a_case_wrong() -> None:
    first = {"rank": 1, "index": 3, "got": 0.0, "expected": 1.0}
    outcomes = [
        Outcome(rank=0, seconds=[1.0]),
        Outcome(rank=1, seconds=[1.0], num_wrong=2, first_wrong=first),
    ]
    values = case_values("mpi", CASE, (0, 1), outcomes, NODES, None)
    assert not values["correct"]
    assert values["num_wrong_elements"] == 2
    assert values["first_wrong"] == first


def test_a_failed_collective_is_not_a_correct_one_and_has_no_time() -> None:
    outcomes = [Outcome(rank=0, seconds=[1.0]), Outcome(rank=1, error="timed out")]
    values = case_values("mpi", CASE, (0, 1), outcomes, NODES, None)
    assert not values["correct"]
    assert values["seconds"] is None
    assert values["error"] == "rank 1: timed out"


def test_a_rank_that_did_not_report_makes_a_case_wrong() -> None:
    values = case_values("mpi", CASE, (0, 1), [Outcome(rank=0, seconds=[1.0])], NODES, None)
    assert not values["correct"]
    assert values["error"] == "rank 1: did not report in time"


def test_ranks_of_one_node_cross_no_link() -> None:
    outcomes = [Outcome(rank=0, seconds=[1.0]), Outcome(rank=1, seconds=[1.0])]
    values = case_values("mpi", CASE, (0, 1), outcomes, {0: "a", 1: "a"}, 1000)
    assert values["link_share"] is None


def test_a_run_without_cases_has_not_passed() -> None:
    assert not summary_values("mpi", 0, 0, [], 1.0)["passed"]
    assert not summary_values("mpi", 2, 1, [], 1.0)["passed"]
    assert summary_values("mpi", 2, 0, [], 1.0)["passed"]


def test_what_was_skipped_is_in_the_summary_with_its_reason() -> None:
    values = summary_values("mpi", 1, 0, [Skipped("avg", "no avg")], 1.0)
    assert values["num_skipped"] == 1
    assert values["skipped"] == [{"what": "avg", "why": "no avg"}]


def test_a_rank_event_can_be_written_as_json() -> None:
    statement = Statement(
        rank=0,
        hostname="h",
        pod="p",
        vendor="amd",
        device="cpu",
        versions={"torch": "2"},
        origins={"ucc": "wheel"},
        settings={"UCX_TLS": "tcp"},
        arguments={},
    )
    values = json.loads(json.dumps(rank_values("gloo", statement)))
    assert set(values) == {
        "carrier",
        "rank",
        "hostname",
        "pod",
        "vendor",
        "device",
        "versions",
        "origins",
        "settings",
    }
