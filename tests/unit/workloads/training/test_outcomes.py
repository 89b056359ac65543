import json

from workloads.training.outcomes import Outcome, median_seconds


def test_an_outcome_survives_the_store() -> None:
    outcome = Outcome(rank=1, seconds=[0.5], num_wrong=2, first_wrong={"rank": 1}, error="e")
    assert Outcome.from_dict(json.loads(json.dumps(outcome.to_dict()))) == outcome


def test_a_case_takes_as_long_as_its_slowest_rank_in_the_median_iteration() -> None:
    fast = Outcome(rank=0, seconds=[1.0, 9.0, 2.0])
    slow = Outcome(rank=1, seconds=[3.0, 1.0, 4.0])
    assert median_seconds([fast, slow]) == 4.0


def test_without_a_time_from_every_rank_there_is_none() -> None:
    assert median_seconds([Outcome(rank=0, seconds=[1.0]), Outcome(rank=1)]) is None
    assert median_seconds([]) is None
