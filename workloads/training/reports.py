"""Turns what the ranks found into the events of the result protocol. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from .agreement import Statement
from .bandwidth import algorithm_bandwidth, bus_bandwidth, link_share
from .cases import Case, Skipped
from .outcomes import Outcome, median_seconds


def rank_values(carrier: str, statement: Statement) -> dict[str, Any]:
    """The `rank` event of one rank."""
    return {
        "carrier": carrier,
        "rank": statement.rank,
        "hostname": statement.hostname,
        "pod": statement.pod,
        "vendor": statement.vendor,
        "device": statement.device,
        "versions": dict(statement.versions),
        "origins": dict(statement.origins),
        "settings": dict(statement.settings),
    }


def case_values(
    carrier: str,
    case: Case,
    ranks: Sequence[int],
    outcomes: Sequence[Outcome],
    nodes: Mapping[int, str],
    link_mbits: float | None,
) -> dict[str, Any]:
    """The `case` event; `nodes` names the node that each rank is on."""
    errors = [f"rank {outcome.rank}: {outcome.error}" for outcome in outcomes if outcome.error]
    silent = set(ranks) - {outcome.rank for outcome in outcomes}
    errors += [f"rank {rank}: did not report in time" for rank in sorted(silent)]
    num_wrong = sum(outcome.num_wrong for outcome in outcomes)
    first = next((outcome.first_wrong for outcome in outcomes if outcome.first_wrong), None)
    seconds = None if errors else median_seconds(outcomes)
    num_nodes = len({nodes[rank] for rank in ranks})
    return {
        "carrier": carrier,
        "collective": "allreduce",
        "op": case.operation,
        "dtype": case.dtype,
        "in_place": case.in_place,
        "team": case.team,
        "team_ranks": list(ranks),
        "num_elements": case.num_elements,
        "num_bytes": case.num_bytes,
        "correct": not errors and num_wrong == 0,
        "num_wrong_elements": num_wrong,
        "first_wrong": first,
        "seconds": seconds,
        "iterations": case.iterations,
        "algbw_mbs": algorithm_bandwidth(case.num_bytes, seconds) if seconds else None,
        "busbw_mbs": bus_bandwidth(case.num_bytes, len(ranks), seconds) if seconds else None,
        "link_share": link_share(case.num_bytes, num_nodes, link_mbits, seconds)
        if seconds
        else None,
        "error": "; ".join(errors) or None,
    }


def summary_values(
    carrier: str, num_cases: int, num_wrong: int, skipped: Sequence[Skipped], seconds: float
) -> dict[str, Any]:
    """The `summary` event."""
    return {
        "carrier": carrier,
        "num_cases": num_cases,
        "num_wrong": num_wrong,
        "num_skipped": len(skipped),
        "skipped": [{"what": skip.what, "why": skip.why} for skip in skipped],
        "passed": num_cases > 0 and num_wrong == 0,
        "seconds": seconds,
    }
