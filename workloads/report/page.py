"""The report as one HTML file that loads nothing: what the templates show, and writing it.

Everything that a job or a cluster said is text to the templates; they escape it.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup

from workloads.report import figures, plots
from workloads.report.judgement import NONE, Judgement, differing, ucc_versions
from workloads.report.picture import picture
from workloads.report.record import Record
from workloads.report.results import CaseEvent, RankEvent, Results
from workloads.report.timeline import timeline

TEMPLATES: Final = Path(__file__).parent / "templates"

MAX_PROBLEMS: Final = 12
"""In the verdict; a wrong library would otherwise fill pages before the first picture."""


@dataclass(frozen=True, kw_only=True)
class RankRow:
    """One rank, over all its carriers."""

    carriers: tuple[str, ...]
    rank: int
    pod: str
    hostname: str
    node: str
    vendor: str
    device: str
    versions: tuple[str, ...]
    """In the order of `Ranks.libraries`."""


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """The table of ranks."""

    libraries: tuple[str, ...]
    origins: tuple[tuple[str, str], ...]
    """Library, where it came from."""
    rows: tuple[RankRow, ...]


@dataclass(frozen=True, kw_only=True)
class SettingRow:
    """One communication variable: one value, or who has which."""

    name: str
    values: tuple[tuple[str, str], ...]
    """Who, value."""
    differs: bool
    """Between ranks of one carrier, which is what must not be."""


@dataclass(frozen=True, kw_only=True)
class TimingRow:
    """One step with the length of its bar."""

    step: str
    seconds: float
    percent: float


def write(path: Path, record: Record, results: Results, judgement: Judgement) -> None:
    """Writes the report, with its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(record, results, judgement), encoding="utf-8")


def render(record: Record, results: Results, judgement: Judgement) -> str:
    """The report's HTML."""
    carriers = tuple(dict.fromkeys((*record.request.carriers, *results.carriers)))
    return (
        _environment()
        .get_template("page.html.jinja")
        .render(
            record=record,
            request=record.request,
            results=results,
            judgement=judgement,
            max_problems=MAX_PROBLEMS,
            when=time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(record.started)),
            ucc=ucc_versions(results),
            carriers=[figures.carrier_figures(results, carrier) for carrier in carriers],
            picture=picture(record),
            timeline=timeline(record, results),
            latency=_safe(plots.latency_svg(results, carriers)),
            bandwidth=_safe(plots.bandwidth_svg(results, carriers, record.request.link_mbits)),
            cases=sorted(results.cases, key=lambda case: case.is_right),
            ops=_distinct(results.cases, "op"),
            dtypes=_distinct(results.cases, "dtype"),
            teams=_distinct(results.cases, "team"),
            ranks=rank_table(record, results),
            settings=settings_table(results),
            timings=timing_rows(record),
        )
    )


def rank_table(record: Record, results: Results) -> Ranks:
    """One row per rank and place; a library that only one carrier uses is stated once."""
    libraries = tuple(dict.fromkeys(name for rank in results.ranks for name in rank.versions))
    origins = (pair for rank in results.ranks for pair in rank.origins.items())
    groups: dict[tuple[int, str, str, str, str], list[RankEvent]] = {}
    for rank in sorted(results.ranks, key=lambda rank: rank.rank):
        key = (rank.rank, rank.pod, rank.hostname, rank.vendor, rank.device)
        groups.setdefault(key, []).append(rank)
    rows = tuple(
        RankRow(
            carriers=tuple(dict.fromkeys(rank.carrier for rank in ranks)),
            rank=number,
            pod=name,
            hostname=hostname,
            node=_node_of(record, name),
            vendor=vendor,
            device=device,
            versions=tuple(_stated(ranks, library) for library in libraries),
        )
        for (number, name, hostname, vendor, device), ranks in groups.items()
    )
    return Ranks(libraries=libraries, origins=tuple(dict.fromkeys(origins)), rows=rows)


def _node_of(record: Record, pod: str) -> str:
    seen = record.pod(pod)
    return seen.node if seen is not None and seen.node is not None else "not seen"


def _stated(ranks: Sequence[RankEvent], library: str) -> str:
    stated = dict.fromkeys(rank.versions.get(library, NONE) for rank in ranks)
    values = [version for version in stated if version != NONE]
    return " / ".join(values) if values else "-"


def settings_table(results: Results) -> tuple[SettingRow, ...]:
    """Every variable: differing ones first, then those of single carriers, then the shared ones."""
    carriers = [carrier for carrier in results.carriers if results.ranks_of(carrier)]
    bad = {
        (carrier, name)
        for carrier in carriers
        for name in differing(rank.settings for rank in results.ranks_of(carrier))
    }
    rows: list[SettingRow] = []
    for name in sorted({name for rank in results.ranks for name in rank.settings}):
        values: list[tuple[str, str]] = []
        for carrier in carriers:
            ranks = results.ranks_of(carrier)
            if (carrier, name) in bad:
                values += [
                    (f"{carrier}, rank {rank.rank}", rank.settings.get(name, "not set"))
                    for rank in ranks
                ]
            else:
                values.append((carrier, ranks[0].settings.get(name, "not set")))
        if len({value for _, value in values}) == 1:
            values = [("all ranks", values[0][1])]
        differs = any(bad_name == name for _, bad_name in bad)
        rows.append(SettingRow(name=name, values=_merged(values), differs=differs))
    return tuple(sorted(rows, key=lambda row: (not row.differs, len(row.values) == 1, row.name)))


def timing_rows(record: Record) -> tuple[TimingRow, ...]:
    """Steps with bars relative to the longest."""
    longest = max((timing.seconds for timing in record.timings), default=0.0)
    return tuple(
        TimingRow(
            step=timing.step,
            seconds=timing.seconds,
            percent=100 * timing.seconds / longest if longest > 0 else 0.0,
        )
        for timing in record.timings
    )


def _merged(values: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Neighbors with one value as one entry."""
    return tuple(
        (", ".join(who for who, _ in group), value)
        for value, group in ((v, list(g)) for v, g in groupby(values, key=lambda pair: pair[1]))
    )


def _distinct(cases: Sequence[CaseEvent], field: str) -> list[str]:
    return list(dict.fromkeys(str(getattr(case, field)) for case in cases))


def _safe(svg: str | None) -> Markup | None:
    """Drawn by this package from numbers and from carriers' names, which matplotlib escapes."""
    return None if svg is None else Markup(svg)  # noqa: S704


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {
        "size": figures.size,
        "duration": figures.duration,
        "bandwidth": figures.bandwidth,
        "link": figures.link,
        "share": figures.share,
    }
    environment.filters.update(filters)
    return environment
