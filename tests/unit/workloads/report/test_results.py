"""The reader of a job's events: strict about events, indifferent to other text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.workloads.report.builders import a_case, a_rank, a_request, events, log_of
from workloads.report.results import ResultError, Results, is_event, parse_line, parse_log

REQUEST = a_request()


def a_line(**changes: object) -> str:
    return json.dumps({**a_case(REQUEST, "gloo"), **changes})


def test_a_whole_log_is_sorted_by_kind_and_nothing_is_lost() -> None:
    objects = events(REQUEST)
    results = parse_log(log_of(objects))
    kept = (*results.phases, *results.ranks, *results.cases, *results.failures, *results.summaries)
    assert len(kept) + 1 == len(objects)
    assert results.verdict is not None
    assert results.malformed == ()
    assert results.carriers == ("libucc", "mpi", "gloo")


@pytest.mark.parametrize(
    "text",
    ["", "plain text", "{not json", '{"level": "info"}', "[1, 2]", '{"a": "the \\"event\\": x"}'],
)
def test_text_between_events_is_ignored(text: str) -> None:
    assert parse_log([text]) == Results()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"event": "case", "time": 1.0, "carr', "the log is cut or mixed"),
        ('{"event": "surprise", "time": 1.0}', "unknown event 'surprise'; known events are phase"),
        (a_line(num_bytes="4"), "'num_bytes'.*got '4'"),
        (a_line(correct=1), "'correct'.*got 1"),
        (a_line(num_elements=-1), "'num_elements'.*got -1"),
        (a_line(surprise=1), "unknown key 'surprise'; job and reader must be of one version"),
        (a_line(time=0), "'time'.*greater than 0"),
        ('{"event": "failure", "time": 1.0, "stage": "init"}', "failure event: 'message' is miss"),
        ('{"event": null, "time": 1.0}', "known events are phase"),
        ('{"event": "phase", "time": 1.0, "phase": "lunch"}', "'phase'.*got 'lunch'"),
    ],
)
def test_a_malformed_event_is_named_with_its_line_and_reason(line: str, reason: str) -> None:
    assert is_event(line)
    with pytest.raises(ResultError, match=reason):
        parse_line(line, where="log, line 3")
    [said] = parse_log(["text", line]).malformed
    assert said.startswith("launcher's log, line 2: ")


def test_an_event_after_the_verdict_is_refused() -> None:
    objects = events(REQUEST)
    [said] = parse_log([*log_of(objects), json.dumps(a_case(REQUEST, "gloo"))]).malformed
    assert "a 'case' event after the verdict" in said


def test_not_a_number_is_read_as_a_value_that_was_got() -> None:
    wrong = {"rank": 0, "index": 3, "got": float("nan"), "expected": 6.0}
    results = parse_log([a_line(correct=False, num_wrong_elements=1, first_wrong=wrong)])
    assert results.malformed == ()
    assert not results.cases[0].is_right


@pytest.mark.parametrize(
    "sign",
    [
        {"correct": False},
        {"num_wrong_elements": 1},
        {"first_wrong": {"rank": 0, "index": 0, "got": 1, "expected": 2}},
        {"error": "it hangs"},
    ],
)
def test_any_sign_of_a_wrong_result_makes_the_case_wrong(sign: dict[str, object]) -> None:
    [case] = parse_log([a_line(**sign)]).cases
    assert not case.is_right


def test_events_cannot_be_changed() -> None:
    [case] = parse_log([a_line()]).cases
    with pytest.raises(ValueError, match="frozen"):
        case.correct = False


def test_ranks_come_in_their_order_whatever_the_logs_is() -> None:
    lines = [json.dumps(a_rank(REQUEST, "gloo", number)) for number in (1, 0)]
    assert [rank.rank for rank in parse_log(lines).ranks_of("gloo")] == [0, 1]


@given(st.text())
def test_no_line_of_a_log_raises(text: str) -> None:
    parse_log([text, '{"event":' + text, a_line() + text])
