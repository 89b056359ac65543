"""What the check in the images would try and state is what the judgement wants to see."""

import json
from typing import Final

import pytest

from tests.unit.workloads.report.builders import (
    LINK_MBITS,
    START,
    JsonObject,
    a_record,
    a_request,
    events,
    log_of,
)
from workloads.jobs import Carrier
from workloads.report.judgement import judge
from workloads.report.record import Request
from workloads.report.results import BYTES_PER_ELEMENT, parse_log
from workloads.training.carriers import CARRIERS, ITEM_SIZES
from workloads.training.cases import MIB, cases, teams
from workloads.training.outcomes import Outcome
from workloads.training.reports import case_values, summary_values

SIZES: Final = (4, 1000, 64 * 1024, MIB, 32 * MIB, 64 * MIB, 256 * MIB)


def planned_log(request: Request) -> list[str]:
    """The log of a run in which everything that the check plans goes well."""
    members = teams(request.num_ranks)
    log: list[JsonObject] = [e for e in events(request) if e["event"] in ("phase", "rank")]
    for carrier in request.carriers:
        runs, skipped = cases(
            CARRIERS[carrier], request.num_ranks, request.max_bytes, is_quick=request.quick
        )
        for case in runs:
            ranks = members[case.team]
            outcomes = [Outcome(rank=rank, seconds=[1e-3, 2e-3]) for rank in ranks]
            nodes = {rank: str(rank) for rank in ranks}
            values = case_values(carrier, case, ranks, outcomes, nodes, LINK_MBITS)
            log.append({"event": "case", "time": START, **values})
        values = summary_values(carrier, len(runs), 0, skipped, 1.0)
        log.append({"event": "summary", "time": START, **values})
    passed = dict.fromkeys(request.carriers, True)
    verdict = {"event": "verdict", "passed": True, "carriers": passed, "message": "Passed."}
    return log_of([*log, {"time": START, **verdict}])


@pytest.mark.parametrize("max_bytes", SIZES)
@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize(("nvidia", "amd"), [(1, 1), (2, 1), (2, 2)])
def test_a_run_of_all_that_the_check_plans_passes(
    nvidia: int, amd: int, quick: bool, max_bytes: int
) -> None:
    request = a_request(nvidia, amd, max_bytes=max_bytes, quick=quick)
    judgement = judge(a_record(request), parse_log(planned_log(request)))
    assert judgement.problems == ()


def test_a_plan_that_stops_before_its_largest_message_fails() -> None:
    request = a_request(max_bytes=256 * MIB)
    log = [json.loads(line) for line in planned_log(a_request(max_bytes=MIB))[1:]]
    judgement = judge(a_record(request), parse_log(log_of(log)))
    assert "it must go from 4 to about 268,435,456" in judgement.problems[0]


def test_both_sides_know_the_same_carriers_and_types() -> None:
    assert set(CARRIERS) == set(Carrier)
    assert dict(ITEM_SIZES) == dict(BYTES_PER_ELEMENT)
