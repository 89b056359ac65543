"""The comparison, and `agree` over a store that lives in this process."""

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from workloads.training.agreement import DisagreementError, Statement, agree, disagreement


def a_statement(
    rank: int,
    settings: Mapping[str, str] | None = None,
    versions: Mapping[str, str] | None = None,
    arguments: Mapping[str, str] | None = None,
    origins: Mapping[str, str] | None = None,
) -> Statement:
    return Statement(
        rank=rank,
        hostname=f"node-{rank}",
        pod=f"w-{rank}",
        vendor="nvidia" if rank % 2 else "amd",
        device="cpu",
        versions=versions or {"torch": "2.6.0"},
        origins=origins or {},
        settings=settings or {"UCX_TLS": "tcp"},
        arguments=arguments or {},
    )


class Store:
    """The part of torch's store that `agree` uses, between threads."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._changed = threading.Condition()

    def set(self, key: str, value: str) -> None:
        """Keep a value."""
        with self._changed:
            self._values[key] = value
            self._changed.notify_all()

    def get(self, key: str) -> bytes:
        """The value, as bytes."""
        return self._values[key].encode()

    def check(self, keys: list[str]) -> bool:
        """Whether all keys are there."""
        return all(key in self._values for key in keys)

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        """Return when all keys are there, or raise as torch does."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.check(keys), timeout.total_seconds()):
                msg = "wait timeout"
                raise RuntimeError(msg)


def test_equal_statements_agree_whatever_vendor_host_or_origin() -> None:
    statements = [a_statement(rank, origins={"ucc": f"/{rank}"}) for rank in range(3)]
    assert disagreement(statements) is None


def test_a_setting_that_differs_is_named_with_both_values_and_their_pods() -> None:
    statements = [a_statement(0, {"A": "1"}), a_statement(1, {"A": "2"})]
    assert disagreement(statements) == (
        "rank 0 (pod w-0) has A=1, rank 1 (pod w-1) has A=2; set it identically in the job."
    )


def test_a_setting_that_one_rank_lacks_differs_from_an_empty_one() -> None:
    statements = [a_statement(0, {"A": "", "B": "1"}), a_statement(1, {"B": "1"})]
    problem = disagreement(statements)
    assert problem is not None
    assert "rank 0 (pod w-0) has A=, rank 1 (pod w-1) has A not set" in problem


def test_many_ranks_are_counted_not_listed() -> None:
    statements = [a_statement(rank, {"A": "1" if rank < 7 else "2"}) for rank in range(9)]
    problem = disagreement(statements)
    assert problem is not None
    assert problem.startswith(
        "rank 0 (pod w-0) and 6 more has A=1, rank 7 (pod w-7) and 1 more has A=2"
    )


def test_a_version_that_differs_has_another_remedy() -> None:
    problem = disagreement(
        [a_statement(0, versions={"ucc": "1.4.0"}), a_statement(1, versions={"ucc": "1.5.0"})]
    )
    assert problem is not None
    assert problem.endswith("build the images from the same versions.")


def test_arguments_must_be_equal_too() -> None:
    problem = disagreement(
        [a_statement(0, arguments={"--carrier": "mpi"}), a_statement(1, arguments={})]
    )
    assert problem is not None
    assert "--carrier" in problem


@pytest.mark.parametrize("values", [("1", "1", "1"), ("1", "1", "2")])
def test_every_rank_gets_the_same_answer(values: tuple[str, ...]) -> None:
    store = Store()

    def run(rank: int) -> list[Statement] | str:
        try:
            return agree(store, a_statement(rank, {"A": values[rank]}), 3, timedelta(seconds=10))
        except DisagreementError as error:
            return str(error)

    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(run, range(3)))
    assert answers[0] == answers[1] == answers[2]
    assert isinstance(answers[0], list) == (len(set(values)) == 1)


def test_statements_arrive_whole() -> None:
    store = Store()
    mine = a_statement(0, {"A": "\u00e9,;"})
    assert agree(store, mine, 1, timedelta(seconds=1)) == [mine]


def test_a_rank_that_says_nothing_is_named() -> None:
    with pytest.raises(DisagreementError, match=r"^rank 1, rank 2 said nothing .* within 0.05 s"):
        agree(Store(), a_statement(0), 3, timedelta(seconds=0.05))
