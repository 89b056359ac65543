"""When things happened, as bars over seconds: the job's phases, its pods, the carriers.

Geometry only; timeline.svg.jinja draws it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from workloads.report import figures
from workloads.report.record import Pod, Record
from workloads.report.results import Results

WIDTH: Final = 1000
LABEL_WIDTH: Final = 270
ROW_HEIGHT: Final = 24
HEAD: Final = 10
MAX_TICKS: Final = 9
_STEPS: Final = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 3600, 7200)


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One thing that lasted."""

    x: float
    width: float
    kind: str
    """Decides the color: phase, waiting, starting, readying, running, carrier."""
    text: str
    """Inside the bar where it fits."""
    hint: str
    """The tooltip: what, from when, how long."""


@dataclass(frozen=True, kw_only=True)
class Lane:
    """One row."""

    y: float
    label: str
    bars: tuple[Bar, ...]
    is_first_of_group: bool


@dataclass(frozen=True, kw_only=True)
class Tick:
    """One line of the scale."""

    x: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """The whole drawing."""

    width: float
    height: float
    label_width: float
    axis_y: float
    lanes: tuple[Lane, ...]
    ticks: tuple[Tick, ...]


@dataclass(frozen=True, kw_only=True)
class _Span:
    kind: str
    text: str
    start: float
    end: float


def timeline(record: Record, results: Results) -> Timeline:
    """Bars from the command's start to its end."""
    groups = [
        [("job", list(_phases(record)))],
        [(pod.name, list(_life(record, pod))) for pod in _in_order(record)],
        [(carrier, [span]) for carrier, span in _carriers(record, results)],
    ]
    start = record.started
    ends = [span.end for group in groups for _, spans in group for span in spans]
    length = max([record.finished, *ends]) - start
    scale = (WIDTH - LABEL_WIDTH - 12) / max(length, 1e-3)

    def bar(span: _Span) -> Bar:
        begin = max(0.0, span.start - start)
        width = max(1.5, (span.end - max(span.start, start)) * scale)
        lasted = figures.duration(span.end - span.start)
        return Bar(
            x=LABEL_WIDTH + begin * scale,
            width=width,
            kind=span.kind,
            text=span.text if width > 7.2 * len(span.text) + 8 else "",
            hint=f"{span.text}: from {begin:.1f} s, {lasted}",
        )

    lanes: list[Lane] = []
    y = float(HEAD)
    for group in groups:
        for i, (label, spans) in enumerate(group):
            bars = tuple(bar(span) for span in spans)
            lanes.append(Lane(y=y, label=label, bars=bars, is_first_of_group=i == 0))
            y += ROW_HEIGHT
        y += 8 if group else 0
    step = next((step for step in _STEPS if length / step <= MAX_TICKS), _STEPS[-1])
    ticks = tuple(
        Tick(x=LABEL_WIDTH + i * step * scale, text=f"{i * step:g} s")
        for i in range(int(length / step) + 1)
    )
    return Timeline(
        width=WIDTH,
        height=y + 26,
        label_width=LABEL_WIDTH,
        axis_y=y,
        lanes=tuple(lanes),
        ticks=ticks,
    )


def _in_order(record: Record) -> list[Pod]:
    workers = list(record.request.worker_pods)
    return sorted(
        record.pods,
        key=lambda pod: (pod.created, workers.index(pod.name) if pod.name in workers else 0),
    )


def _phases(record: Record) -> Iterator[_Span]:
    phases = [*record.phases]
    for phase, following in pairwise(phases):
        yield _Span(kind="phase", text=phase.phase, start=phase.time, end=following.time)
    if phases:
        last = phases[-1]
        end = max(record.finished, last.time)
        yield _Span(kind="phase", text=last.phase, start=last.time, end=end)


def _life(record: Record, pod: Pod) -> Iterator[_Span]:
    """A pod's stages; each ends where the next known moment is."""
    end = pod.finished if pod.finished is not None else record.finished
    moments = (
        ("waiting", "waiting for a node", pod.created),
        ("starting", "starting", pod.scheduled),
        ("readying", "getting ready", pod.started),
        ("running", "running", pod.ready),
    )
    known = [(kind, text, time) for kind, text, time in moments if time is not None]
    for (kind, text, time), (_, _, following) in pairwise(known):
        if following > time:  # API times are whole seconds, so a stage may have no length
            yield _Span(kind=kind, text=text, start=time, end=following)
    kind, text, time = known[-1]
    if pod.started is not None and pod.ready is None:
        kind, text = "running", "running, never ready"
    yield _Span(kind=kind, text=text, start=time, end=max(time, end))


def _carriers(record: Record, results: Results) -> Iterator[tuple[str, _Span]]:
    for carrier in results.carriers:
        cases = results.cases_of(carrier)
        times = [event.time for event in (*results.ranks_of(carrier), *cases)]
        started = [
            event.time
            for event in results.phases
            if event.carrier == carrier and event.phase == "carrier-started"
        ]
        ended = [
            event.time
            for event in results.phases
            if event.carrier == carrier and event.phase == "carrier-finished"
        ]
        start = min([*started, *times], default=record.finished)
        end = ended[-1] if ended else max([start, *times])
        text = f"{len(cases)} cases" if ended else f"{len(cases)} cases, not finished"
        yield carrier, _Span(kind="carrier", text=text, start=start, end=end)
