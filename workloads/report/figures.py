"""Numbers as people read them, and the few figures that stand for a carrier."""

from dataclasses import dataclass

from workloads.report.judgement import ESSENTIAL
from workloads.report.results import CaseEvent, Results

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True, kw_only=True)
class CarrierFigures:
    """One carrier in one row."""

    carrier: str
    num_cases: int
    num_wrong: int
    num_skipped: int
    seconds: float | None
    """The whole carrier; None when it did not come to its summary."""
    smallest: CaseEvent | None
    """The timed case of the smallest message: its latency is the carrier's."""
    largest: CaseEvent | None
    """The timed case of the largest message: its bandwidth is the carrier's."""

    @property
    def is_clean(self) -> bool:
        """Whether it tried something and nothing was wrong."""
        return self.num_cases > 0 and self.num_wrong == 0 and self.seconds is not None


def carrier_figures(results: Results, carrier: str) -> CarrierFigures:
    """A carrier's row, counted from its cases."""
    cases = results.cases_of(carrier)
    curve = timed(cases, in_place=True) or timed(cases, in_place=False)
    summary = results.summary_of(carrier)
    return CarrierFigures(
        carrier=carrier,
        num_cases=len(cases),
        num_wrong=sum(not case.is_right for case in cases),
        num_skipped=summary.num_skipped if summary else 0,
        seconds=summary.seconds if summary else None,
        smallest=curve[0] if curve else None,
        largest=curve[-1] if curve else None,
    )


def timed(cases: tuple[CaseEvent, ...], *, in_place: bool) -> tuple[CaseEvent, ...]:
    """The comparable curve: the gradient's sum on the whole team, by size.

    Of several cases of one size, the one with the most iterations.
    """
    op, dtype = ESSENTIAL
    curve: dict[int, CaseEvent] = {}
    for case in cases:
        is_comparable = (case.op, case.dtype, case.team) == (op, dtype, "world")
        if not (is_comparable and case.in_place is in_place and case.seconds and case.num_bytes):
            continue
        known = curve.get(case.num_bytes)
        if known is None or known.iterations < case.iterations:
            curve[case.num_bytes] = case
    return tuple(curve[size] for size in sorted(curve))


def size(num_bytes: float) -> str:
    """Bytes with a binary unit: `4 B`, `1.5 KiB`, `256 MiB`."""
    for unit in _BINARY[:-1]:
        if num_bytes < 1023.5:
            return f"{_three_digits(num_bytes)} {unit}"
        num_bytes /= 1024
    return f"{_three_digits(num_bytes)} {_BINARY[-1]}"


def duration(seconds: float | None) -> str:
    """Seconds with a unit that fits: `62 us`, `3.4 ms`, `12.1 s`, `3 min 05 s`."""
    if seconds is None:
        return "-"
    if seconds < 1e-3:
        return f"{_three_digits(seconds * 1e6)} us"
    if seconds < 1:
        return f"{_three_digits(seconds * 1e3)} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"


def bandwidth(mbs: float | None) -> str:
    """MB/s of 1e6 bytes."""
    return "-" if mbs is None else f"{_three_digits(mbs)} MB/s"


def link(mbits: int | None) -> str:
    """A link's speed: `781 Mbit/s`, `5 Gbit/s`."""
    if mbits is None:
        return "link not limited or not known"
    return f"{mbits / 1000:g} Gbit/s" if mbits >= 1000 else f"{mbits} Mbit/s"


def share(value: float | None) -> str:
    """A share as percent."""
    return "-" if value is None else f"{value:.0%}"


def _three_digits(value: float) -> str:
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
