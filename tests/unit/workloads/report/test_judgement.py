"""Every single defect turns PASS into FAIL, and the first sentence names it."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from infra.accelerators import Vendor
from tests.unit.workloads.report.builders import (
    JsonObject,
    a_case,
    a_rank,
    a_record,
    a_request,
    results_of,
)
from workloads.report.judgement import Judgement, judge, ucc_versions
from workloads.report.record import Record
from workloads.report.results import parse_log

Change = Callable[[list[JsonObject]], None]


def judged(change: Change | None = None, record: Record | None = None) -> Judgement:
    request = a_request()
    chosen = a_record(request) if record is None else record
    return judge(chosen, results_of(request, change))


def of_kind(log: list[JsonObject], kind: str, carrier: str | None = "gloo") -> list[JsonObject]:
    return [e for e in log if e["event"] == kind and (carrier is None or e["carrier"] == carrier)]


def each(kind: str, carrier: str = "gloo", **changes: Any) -> Change:
    """Changes the carrier's first event of a kind."""

    def change(log: list[JsonObject]) -> None:
        of_kind(log, kind, carrier)[0].update(changes)

    return change


def removing(unwanted: Callable[[JsonObject], bool], *, recount: bool = False) -> Change:
    """Drops events; with `recount` the summaries agree with what is left."""

    def change(log: list[JsonObject]) -> None:
        log[:] = [event for event in log if not unwanted(event)]
        if recount:
            for summary in of_kind(log, "summary", None):
                summary["num_cases"] = len(of_kind(log, "case", summary["carrier"]))

    return change


def is_case(event: JsonObject, carrier: str = "gloo", **fields: Any) -> bool:
    return (
        event["event"] == "case"
        and event["carrier"] == carrier
        and all(event[name] == value for name, value in fields.items())
    )


def setting(name: str, value: str | None) -> Change:
    def change(log: list[JsonObject]) -> None:
        settings = of_kind(log, "rank")[1]["settings"]
        settings.pop(name, None)
        if value is not None:
            settings[name] = value

    return change


@pytest.mark.parametrize(("nvidia", "amd"), [(1, 1), (2, 1), (2, 2), (1, 3)])
def test_a_good_run_passes_whatever_the_number_of_workers(nvidia: int, amd: int) -> None:
    request = a_request(nvidia, amd)
    judgement = judge(a_record(request), results_of(request))
    assert judgement.problems == ()
    assert judgement.line.startswith(f"PASS: {nvidia} nvidia and {amd} amd workers agree on all")
    assert "UCC 1.4.0 (wheel nvidia-libcal-cu12" in judgement.line


WRONG: JsonObject = {"correct": False, "num_wrong_elements": 7}
FIRST = {"rank": 1, "index": 4, "got": 3.0, "expected": 6.0}

DEFECTS: dict[str, tuple[Change, str]] = {
    "one wrong case": (
        each("case", **WRONG, first_wrong=FIRST),
        "gloo: 1 of 85 cases are wrong, the first: .* rank 1 at index 4: got 3.0, expected 6.0",
    ),
    "a case that says correct and counts wrong elements": (
        each("case", num_wrong_elements=7),
        "correct is True with 7 wrong elements",
    ),
    "a case that failed": (each("case", correct=False, error="timed out"), "timed out"),
    "a missing rank": (
        removing(lambda e: e["event"] == "rank" and e["rank"] == 1 and e["carrier"] == "gloo"),
        "gloo: rank 1 of 2 stated itself 0 times",
    ),
    "a rank that states itself twice": (
        lambda log: log.insert(0, a_rank(a_request(), "gloo", 1)),
        "gloo: rank 1 of 2 stated itself 2 times",
    ),
    "a rank too many": (
        lambda log: log.insert(0, {**a_rank(a_request(), "gloo", 1), "rank": 2}),
        "gloo: rank 2 stated itself, but the job has only 2 ranks",
    ),
    "no rank at all": (
        removing(lambda e: e["event"] == "rank" and e["carrier"] == "gloo"),
        "gloo: no rank stated itself",
    ),
    "a rank of the wrong vendor": (each("rank", vendor="amd"), "rank 0 in .* says vendor 'amd'"),
    "a rank of no vendor": (each("rank", vendor=""), "rank 0 in .* says vendor ''"),
    "a rank of another job": (each("rank", pod="other-worker-nvidia-0"), "not a worker of this"),
    "a setting that differs": (
        setting("UCX_TLS", "tcp"),
        "gloo: setting UCX_TLS is 'tcp,self,sm' on rank 0 and 'tcp' on rank 1",
    ),
    "a setting that one rank lacks": (
        setting("UCX_TLS", None),
        "UCX_TLS is 'tcp,self,sm' on rank 0 and not set on rank 1",
    ),
    "a setting that only one rank has": (setting("UCC_X", "1"), "UCC_X is not set on rank 0"),
    "a version that differs": (
        each("rank", versions={"torch": "2.5.0", "ucc": "1.4.0"}),
        "gloo: version of torch is '2.5.0' on rank 0 and '2.6.0' on rank 1",
    ),
    "a missing summary": (
        removing(lambda e: e["event"] == "summary" and e["carrier"] == "gloo"),
        "gloo: ended after 85 cases without a summary",
    ),
    "zero cases": (
        removing(lambda e: is_case(e), recount=True),
        "gloo: not one case was tried",
    ),
    "a case that got lost": (
        removing(lambda e: is_case(e, op="max", dtype="int64", num_elements=128)),
        "the summary says 85 cases, but the log has",
    ),
    "a summary that counts wrong cases": (each("summary", num_wrong=1), "says 1 wrong cases"),
    "a summary that skipped more than it names": (
        each("summary", num_skipped=3),
        "says 3 skipped cases, but the log has 0",
    ),
    "a summary that did not pass": (each("summary", passed=False), "summary says not passed"),
    "a carrier that is missing": (
        removing(lambda e: e.get("carrier") == "gloo"),
        "gloo: ended without a summary",
    ),
    "an operation that was not tried": (
        removing(lambda e: is_case(e, op="max"), recount=True),
        "gloo: no case of max of float32 out of place|gloo: no case of max of float32 in place",
    ),
    "a place that was not tried": (
        removing(lambda e: is_case(e, in_place=True), recount=True),
        "gloo: no case of sum of float32 in place",
    ),
    "no team out of order": (
        removing(lambda e: is_case(e, team="reversed"), recount=True),
        "gloo: no case on a team whose ranks are not in order",
    ),
    "no large message": (
        removing(lambda e: is_case(e) and e["num_bytes"] > 1 << 18, recount=True),
        "sum float32 in place went from 4 to 65,540 bytes; it must go from 4 to about 1,048,576",
    ),
    "no small message": (
        removing(lambda e: is_case(e) and e["num_bytes"] < 36, recount=True),
        "went from 36 to",
    ),
    "a world without a rank": (each("case", team_ranks=[0]), "left out ranks \\[1\\]"),
    "a team of strangers": (each("case", team_ranks=[0, 5]), "are no team of ranks 0 to 1"),
    "a team with a rank twice": (each("case", team_ranks=[0, 0]), "are no team of ranks 0 to 1"),
    "bytes that do not fit": (each("case", num_bytes=8), "claims 8 bytes"),
    "a type that nobody knows": (each("case", dtype="int3"), "unknown dtype"),
    "a verdict that did not pass": (
        lambda log: log[-1].update(passed=False, message="no."),
        "launcher: verdict not passed: no; look",
    ),
    "a verdict that leaves a carrier out": (
        lambda log: log[-1]["carriers"].pop("gloo"),
        "the verdict does not name carrier 'gloo'",
    ),
    "a verdict against a carrier": (
        lambda log: log[-1]["carriers"].update(gloo=False),
        "the verdict says that gloo failed",
    ),
    "no verdict": (lambda log: log.__delitem__(-1), "launcher's log: ends without a verdict"),
    "a failure": (
        lambda log: log.insert(
            3,
            {"event": "failure", "time": 1.0, "carrier": "mpi", "stage": "init", "message": "no."},
        ),
        "mpi, init: no; see the launcher's log",
    ),
    "an event that cannot be read": (each("case", surprise=1), "unknown key 'surprise'"),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_single_defect_fails_and_is_named_first(defect: str) -> None:
    change, reason = DEFECTS[defect]
    judgement = judged(change)
    assert not judgement.passed
    assert re.search(reason, judgement.problems[0]), judgement.problems
    assert judgement.line == f"FAIL: {judgement.problems[0]}"


@pytest.mark.parametrize("phase", ["Failed", "Terminated", "Aborted", "Running", ""])
def test_a_job_that_did_not_complete_fails_although_its_verdict_passed(phase: str) -> None:
    record = a_record(a_request(), phase=phase)
    [problem] = judged(record=record).problems
    assert "instead of Completed" in problem


def test_a_worker_on_another_vendors_node_fails() -> None:
    record = a_record(a_request())
    nodes = [n.model_copy(update={"vendor": Vendor.AMD} if n.vendor else {}) for n in record.nodes]
    judgement = judged(record=record.model_copy(update={"nodes": tuple(nodes)}))
    assert "of vendor amd instead of nvidia" in judgement.problems[0]


def test_a_worker_that_the_cluster_never_showed_fails() -> None:
    record = a_record(a_request())
    judgement = judged(record=record.model_copy(update={"pods": record.pods[:2]}))
    assert "the API server never showed it on a node" in judgement.problems[0]


def test_what_ended_the_watch_comes_before_its_consequences() -> None:
    record = a_record(a_request(), problem="job x: no node; add one.", phase="Pending")
    judgement = judge(record, parse_log([]))
    assert judgement.problems == ("job x: no node; add one.",)


def test_the_last_line_of_a_cut_log_is_quoted() -> None:
    record = a_record(a_request(), phase="Failed", log_tail=("prterun: rank 1 got signal 9", ""))
    judgement = judged(lambda log: log.__delitem__(slice(60, None)), record)
    assert "its last line: prterun: rank 1 got signal 9" in judgement.problems[0]


def test_a_skip_excuses_only_what_it_names() -> None:
    def without(op: str, dtype: str, what: str) -> Change:
        def change(log: list[JsonObject]) -> None:
            removing(lambda e: is_case(e, op=op, dtype=dtype), recount=True)(log)
            skipped = [{"what": what, "why": "the library has none"}]
            of_kind(log, "summary")[0].update(skipped=skipped, num_skipped=1)

        return change

    assert judged(without("avg", "float64", "avg of float64")).passed
    assert judged(without("avg", "float64", "avg")).passed
    assert not judged(without("avg", "float64", "avg of float32")).passed
    assert judged(without("avg", "float64", "avg of float64 (world)")).passed
    assert not judged(without("avg", "float64", "avg of float64 (every-second)")).passed
    assert not judged(without("avg", "float64", "some things")).passed
    assert not judged(without("sum", "float32", "sum of float32")).passed


def test_a_quick_check_needs_the_gradients_sum_only() -> None:
    quick = a_request(quick=True)

    def change(log: list[JsonObject]) -> None:
        needed = {"op": "sum", "dtype": "float32", "team": "world"}
        carriers = ("libucc", "mpi", "gloo")
        removing(
            lambda e: e["event"] == "case" and not any(is_case(e, c, **needed) for c in carriers),
            recount=True,
        )(log)

    assert judge(a_record(quick), results_of(quick, change)).passed
    assert not judged(change).passed


def test_builds_of_one_version_for_two_vendors_are_the_same_version() -> None:
    def change(log: list[JsonObject]) -> None:
        for rank in of_kind(log, "rank", None):
            rank["versions"]["torch"] += "+cu126" if rank["vendor"] == "nvidia" else "+rocm7"

    assert judged(change).passed


def test_every_ucc_is_stated_with_its_origin() -> None:
    def change(log: list[JsonObject]) -> None:
        of_kind(log, "rank")[1].update(origins={})

    stated = ucc_versions(results_of(a_request(), change))
    assert stated == (
        "1.4.0 (wheel nvidia-libcal-cu12 0.4.4.50.post1)",
        "1.4.0 (origin not stated)",
    )


def test_a_case_is_described_by_all_that_distinguishes_it() -> None:
    request = a_request()
    [case] = parse_log([json.dumps(a_case(request, "gloo", in_place=True))]).cases
    assert case.label == "allreduce sum of 1 float32 elements in place on team 'world'"
