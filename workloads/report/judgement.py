"""PASS or FAIL of one run, from what the job said and what the cluster saw.

Nothing is believed because something exited 0 or called itself passed: every count is made again
from the case events, and what should be there is derived from the request.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from workloads.report.record import Record
from workloads.report.results import BYTES_PER_ELEMENT, CaseEvent, RankEvent, Results, Skipped

COMPLETED: Final = "Completed"
"""Volcano's phase of a job that ended well."""

NONE: Final = "none"
"""What a rank states as the version of a library that its carrier does not use."""

PLACES: Final = ("in place", "out of place")


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Which combinations a carrier must have tried on the whole team, or named as skipped."""

    ops: tuple[str, ...]
    dtypes: tuple[str, ...]


FULL: Final = Coverage(ops=("sum", "max", "avg"), dtypes=("float32", "float64", "int64"))
QUICK: Final = Coverage(ops=("sum",), dtypes=("float32",))

ESSENTIAL: Final = ("sum", "float32")
"""What no carrier may skip: the gradient's sum."""

MIB: Final = 1024**2
LARGE: Final = 64 * MIB
"""Bytes of the large message that is tried out of place too; larger ones only in place."""
SMALL: Final = 64 * 1024
"""Bytes of a quick check's largest message, and of what is tried out of place below `LARGE`."""

_FILLERS: Final = frozenset({"of", "in", "on", "the", "place", "team"})
"""Words of a skip's `what` that do not narrow it."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The verdict, and why."""

    problems: tuple[str, ...]
    """What is wrong, each one sentence with what to do; the likely cause first."""
    success: str
    """What was proven; only meaningful without problems."""

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    @property
    def word(self) -> str:
        """PASS or FAIL."""
        return "PASS" if self.passed else "FAIL"

    @property
    def line(self) -> str:
        """The verdict as one line."""
        return f"{self.word}: {self.success if self.passed else self.problems[0]}"


def judge(record: Record, results: Results) -> Judgement:
    """The verdict over one run; the order of the checks is the order of likely causes."""
    problems = [
        *([record.problem] if record.problem else []),
        *_wrong_cases(results),
        *_failures(results),
        *results.malformed,
        *_ending(record, results),
        *_ranks(record, results),
        *_placement(record, results),
        *_settings(results),
        *_versions(results),
        *_carriers(record, results),
        *_verdict(record, results),
        *_phase(record),
    ]
    return Judgement(problems=tuple(dict.fromkeys(problems)), success=_success(record, results))


def ucc_versions(results: Results) -> tuple[str, ...]:
    """Every UCC that a rank stated, as `version (origin)`."""
    stated = (
        f"{rank.versions['ucc']} ({rank.origins.get('ucc', 'origin not stated')})"
        for rank in results.ranks
        if rank.versions.get("ucc", NONE) != NONE
    )
    return tuple(dict.fromkeys(stated))


def differing(values: Iterable[Mapping[str, str]]) -> tuple[str, ...]:
    """Names whose values are not the same everywhere, sorted; absent counts as a value."""
    rows = list(values)
    names = sorted({name for row in rows for name in row})
    return tuple(name for name in names if len({row.get(name) for row in rows}) > 1)


def _wrong_cases(results: Results) -> Iterator[str]:
    """One sentence per carrier: the first wrong case, and how many there are."""
    for carrier in results.carriers:
        cases = results.cases_of(carrier)
        wrong = [case for case in cases if not case.is_right]
        if wrong:
            yield (
                f"{carrier}: {len(wrong)} of {len(cases)} cases are wrong, the first: "
                f"{wrong[0].label}: {_wrongness(wrong[0])}; see the cases in the report."
            )


def _wrongness(case: CaseEvent) -> str:
    if case.error is not None:
        return case.error.rstrip(".")
    if case.first_wrong is not None:
        wrong = case.first_wrong
        return (
            f"{case.num_wrong_elements:,} elements differ, the first on rank {wrong.rank} at index "
            f"{wrong.index}: got {wrong.got}, expected {wrong.expected}"
        )
    return f"correct is {case.correct} with {case.num_wrong_elements:,} wrong elements"


def _failures(results: Results) -> Iterator[str]:
    for failure in results.failures:
        where = f"{failure.carrier}, {failure.stage}" if failure.carrier else failure.stage
        message = failure.message.rstrip(".")
        yield f"{where}: {message}; see the launcher's log (`kubectl logs`, or build/results)."


def _ranks(record: Record, results: Results) -> Iterator[str]:
    """Every expected rank of every vendor has stated itself, once, per carrier."""
    for carrier in record.request.carriers:
        ranks = results.ranks_of(carrier)
        if ranks:
            yield from _numbers(record, carrier, ranks)
            yield from _pods(record, carrier, ranks)
        elif results.cases_of(carrier):
            yield f"{carrier}: no rank stated itself; the log is incomplete, run again."


def _numbers(record: Record, carrier: str, ranks: Sequence[RankEvent]) -> Iterator[str]:
    size = record.request.num_ranks
    counted = Counter(rank.rank for rank in ranks)
    for number in range(size):
        if counted[number] != 1:
            yield (
                f"{carrier}: rank {number} of {size} stated itself {counted[number]} times "
                "instead of once; look at its pod's log."
            )
    for number in sorted(counted.keys() - set(range(size))):
        yield (
            f"{carrier}: rank {number} stated itself, but the job has only {size} ranks; "
            "another job's workers may be in the hostfile."
        )


def _pods(record: Record, carrier: str, ranks: Sequence[RankEvent]) -> Iterator[str]:
    pods = record.request.worker_pods
    for rank in ranks:
        expected = pods.get(rank.pod)
        if expected is None:
            yield (
                f"{carrier}: rank {rank.rank} runs in pod {rank.pod!r}, which is not a worker "
                f"of this job; its workers are {', '.join(pods)}."
            )
        elif rank.vendor != expected.value:
            yield (
                f"{carrier}: rank {rank.rank} in pod {rank.pod} says vendor {rank.vendor!r}, "
                f"but its task is {expected.value}'s; check CROSSVENDOR_VENDOR of the task."
            )
    stated = {rank.pod for rank in ranks}
    for pod in pods:
        if pod not in stated:
            yield f"{carrier}: no rank ran in pod {pod}; look at the launcher's hostfile."


def _placement(record: Record, results: Results) -> Iterator[str]:
    """Every worker that stated itself was seen on a node of its vendor."""
    stated = {rank.pod for rank in results.ranks}
    for name, vendor in record.request.worker_pods.items():
        if name not in stated:
            continue
        pod = record.pod(name)
        node = record.node(pod.node) if pod is not None else None
        if node is None:
            yield f"pod {name}: the API server never showed it on a node; run again with --keep."
        elif node.vendor != vendor:
            actual = node.vendor.value if node.vendor else "none"
            yield (
                f"pod {name}: ran on node {node.name} of vendor {actual} instead of "
                f"{vendor.value}; check the node's labels and the task's node selector."
            )


def _settings(results: Results) -> Iterator[str]:
    for carrier in results.carriers:
        ranks = results.ranks_of(carrier)
        for name in differing(rank.settings for rank in ranks):
            yield _difference(
                carrier, "setting", name, ranks, [r.settings.get(name) for r in ranks]
            )


def _versions(results: Results) -> Iterator[str]:
    """Libraries that ranks share must be of one version; the build after `+` is the vendor's."""
    for carrier in results.carriers:
        ranks = results.ranks_of(carrier)
        for name in sorted({name for rank in ranks for name in rank.versions}):
            having = [rank for rank in ranks if name in rank.versions]
            if len({rank.versions[name].partition("+")[0] for rank in having}) > 1:
                values = [rank.versions[name] for rank in having]
                yield _difference(carrier, "version of", name, having, values)


def _difference(
    carrier: str, what: str, name: str, ranks: Sequence[RankEvent], values: Sequence[str | None]
) -> str:
    """A sentence with two differing values and who has them."""
    first = values[0]
    other = next(index for index, value in enumerate(values) if value != first)
    return (
        f"{carrier}: {what} {name} is {_quoted(first)} on rank {ranks[0].rank} and "
        f"{_quoted(values[other])} on rank {ranks[other].rank}; all ranks need the same."
    )


def _quoted(value: str | None) -> str:
    return "not set" if value is None else repr(value)


def _carriers(record: Record, results: Results) -> Iterator[str]:
    if results == Results():
        return  # said once, by the missing verdict
    for carrier in record.request.carriers:
        cases = results.cases_of(carrier)
        summary = results.summary_of(carrier)
        if summary is None:
            done = f"after {len(cases)} cases " if cases else ""
            yield f"{carrier}: ended {done}without a summary; look at the launcher's log."
            continue
        num_wrong = sum(not case.is_right for case in cases)
        if not cases:
            yield f"{carrier}: not one case was tried; a check of nothing proves nothing."
            continue
        for what, said, counted in (
            ("cases", summary.num_cases, len(cases)),
            ("wrong cases", summary.num_wrong, num_wrong),
            ("skipped cases", summary.num_skipped, len(summary.skipped)),
        ):
            if said != counted:
                yield (
                    f"{carrier}: the summary says {said} {what}, but the log has {counted}; "
                    "the log is incomplete, run again."
                )
        if not summary.passed and num_wrong == 0:
            yield f"{carrier}: the summary says not passed, but no case is wrong; look at the log."
        yield from _consistency(record, carrier, cases)
        yield from _coverage(record, carrier, cases, summary.skipped)


def _consistency(record: Record, carrier: str, cases: Sequence[CaseEvent]) -> Iterator[str]:
    """Each case is about what it says: its team is of this job, its bytes fit its elements."""
    world = set(range(record.request.num_ranks))
    for case in cases:
        team = set(case.team_ranks)
        if not team or len(team) != len(case.team_ranks) or not team <= world:
            yield (
                f"{carrier}: {case.label} names the ranks {list(case.team_ranks)}, which are no "
                f"team of ranks 0 to {max(world, default=0)}; job and reader disagree."
            )
        elif case.team == "world" and team != world:
            yield (
                f"{carrier}: {case.label} left out ranks {sorted(world - team)}; "
                "the whole team must take part."
            )
        size = BYTES_PER_ELEMENT.get(case.dtype)
        if size is None:
            known = ", ".join(BYTES_PER_ELEMENT)
            yield f"{carrier}: {case.label} has an unknown dtype; known ones are {known}."
        elif case.num_elements == 0 or case.num_bytes != case.num_elements * size:
            yield (
                f"{carrier}: {case.label} claims {case.num_bytes:,} bytes; "
                f"it must be {case.num_elements * size:,} and more than none."
            )


def _coverage(
    record: Record, carrier: str, cases: Sequence[CaseEvent], skipped: Sequence[Skipped]
) -> Iterator[str]:
    """Each combination that the request needs was tried, or named as impossible with a reason."""
    coverage = QUICK if record.request.quick else FULL
    whole = [case for case in cases if case.team == "world"]
    tried = {(case.op, case.dtype, case.place) for case in whole}
    for op, dtype, place in product(coverage.ops, coverage.dtypes, PLACES):
        if (op, dtype, place) in tried:
            continue
        if op == "avg" and not dtype.startswith("float"):
            continue  # the mean of integers is not an integer, so libraries refuse it
        words = {op, dtype, "world"}
        if (op, dtype) != ESSENTIAL and any(_covers(skip, words) for skip in skipped):
            continue
        yield (
            f"{carrier}: no case of {op} of {dtype} {place} on the whole team, and it is not "
            "named as skipped; the check is incomplete."
        )
    if record.request.num_ranks > 1 and not record.request.quick:
        words = {"reversed"}
        reversed_cases = [c for c in cases if c.team_ranks != tuple(sorted(c.team_ranks))]
        if not reversed_cases and not any(_covers(skip, words) for skip in skipped):
            yield (
                f"{carrier}: no case on a team whose ranks are not in order, and it is not named "
                "as skipped; the check is incomplete."
            )
    essential = [case for case in whole if (case.op, case.dtype) == ESSENTIAL]
    for place, largest in _reach(record).items():
        sizes = [case.num_bytes for case in essential if case.place == place]
        if sizes and not (min(sizes) <= 4 and _comes_near(max(sizes), largest)):
            yield (
                f"{carrier}: {' '.join(ESSENTIAL)} {place} went from {min(sizes):,} to "
                f"{max(sizes):,} bytes; it must go from 4 to about {largest:,}."
            )


def _reach(record: Record) -> dict[str, int]:
    """Place -> bytes that the scan must come near to."""
    asked = record.request.max_bytes
    if record.request.quick:
        asked = min(asked, SMALL)
    out_of_place = [size for size in (4, SMALL, LARGE) if size <= asked]
    return {"in place": asked, "out of place": out_of_place[-1]}


def _comes_near(size: int, asked: int) -> bool:
    """Whether no further step of the scan was due; odd numbers of elements are a little smaller."""
    factor = 4 if asked >= MIB else 16
    return factor * (size + 8) > asked


def _covers(skip: Skipped, words: set[str]) -> bool:
    """Whether a skip is about a combination: all that it names, and it names something."""
    named = set(re.findall(r"[a-z0-9_-]+", skip.what.lower())) - _FILLERS
    return bool(skip.why) and bool(named) and named <= words


def _ending(record: Record, results: Results) -> Iterator[str]:
    if results.verdict is not None or (record.problem and results == Results()):
        return
    tail = [line.strip() for line in record.log_tail if line.strip()]
    last = f"; its last line: {tail[-1][:300]}" if tail else ""
    yield f"launcher's log: ends without a verdict{last}; look at the whole log."


def _verdict(record: Record, results: Results) -> Iterator[str]:
    verdict = results.verdict
    if verdict is None:
        return
    if not verdict.passed:
        yield f"launcher: verdict not passed: {verdict.message.rstrip('.')}; look at the log."
    for carrier in record.request.carriers:
        if carrier not in verdict.carriers:
            yield f"launcher: the verdict does not name carrier {carrier!r}; was it started?"
        elif not verdict.carriers[carrier]:
            yield f"launcher: the verdict says that {carrier} failed; look at the log."


def _phase(record: Record) -> Iterator[str]:
    if record.phase == COMPLETED or record.problem:
        return  # what was given up has no last phase
    failed = [pod for pod in record.pods if pod.exit_code]
    because = f" (pod {failed[0].name} exited {failed[0].exit_code})" if failed else ""
    phase = record.phase if record.phase else "never given"
    message = f": {record.phase_message}" if record.phase_message else ""
    yield (
        f"job {record.request.job}: phase is {phase} instead of {COMPLETED}{because}{message}; "
        "look at its events in the report."
    )


def _success(record: Record, results: Results) -> str:
    request = record.request
    num_cases = sum(case.is_right for case in results.cases)
    teams = " and ".join(
        f"{count} {vendor.value}" for vendor, count in request.workers.items() if count
    )
    ucc = ", ".join(ucc_versions(results))
    with_ucc = f"; UCC {ucc}" if ucc else ""
    return (
        f"{teams} workers agree on all {num_cases:,} results over "
        f"{', '.join(request.carriers)}{with_ucc}"
    )
