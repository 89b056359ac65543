"""What a job says about itself: the JSON lines of the launcher's log as frozen, checked objects.

Owns the shape of every event; whether the events prove anything is decided in judgement.py.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

BYTES_PER_ELEMENT: Final[Mapping[str, int]] = {
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "int32": 4,
    "float64": 8,
    "int64": 8,
}


class ResultError(ValueError):
    """A line of a job's log that looks like an event and is not one."""


class _Strict(BaseModel):
    # A number that arrives as text, or a key nobody knows, means that the job and this reader
    # come from different versions; guessing would turn that into a wrong verdict.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _Event(_Strict):
    time: float = Field(gt=0)
    """Unix seconds on the launcher's or rank 0's clock."""


class PhaseEvent(_Event):
    """The launcher has come this far."""

    event: Literal["phase"]
    phase: Literal[
        "waiting-for-workers", "workers-ready", "carrier-started", "carrier-finished", "done"
    ]
    carrier: str | None = None
    detail: str = ""


class RankEvent(_Event):
    """One rank's statement about itself, made before the first collective of a carrier."""

    event: Literal["rank"]
    carrier: str
    rank: int = Field(ge=0)
    hostname: str
    pod: str
    vendor: str
    device: str
    versions: Mapping[str, str]
    origins: Mapping[str, str]
    """Library -> where it came from."""
    settings: Mapping[str, str]
    """Every communication variable of the rank's environment."""


class WrongElement(_Strict):
    """The first element of a case that differs from its closed form."""

    rank: int
    index: int
    got: float | int | str
    expected: float | int | str


class CaseEvent(_Event):
    """One collective with one choice of operation, type, place, team and size."""

    event: Literal["case"]
    carrier: str
    collective: str
    op: str
    dtype: str
    in_place: bool
    team: str
    team_ranks: tuple[int, ...]
    num_elements: int = Field(ge=0)
    num_bytes: int = Field(ge=0)
    correct: bool
    num_wrong_elements: int = Field(ge=0)
    first_wrong: WrongElement | None
    seconds: float | None
    """Median of the iterations."""
    iterations: int = Field(ge=0)
    algbw_mbs: float | None
    busbw_mbs: float | None
    """MB/s, 1e6 bytes."""
    link_share: float | None
    """Time that the slowest link needs at least, over the time taken."""
    error: str | None

    @property
    def is_right(self) -> bool:
        """Whether every sign of a wrong result is absent, not only the flag."""
        return (
            self.correct
            and self.num_wrong_elements == 0
            and self.first_wrong is None
            and self.error is None
        )

    @property
    def place(self) -> str:
        """In words, for tables and sentences."""
        return "in place" if self.in_place else "out of place"

    @property
    def label(self) -> str:
        """The case in words, without its carrier."""
        return (
            f"{self.collective} {self.op} of {self.num_elements:,} {self.dtype} elements "
            f"{self.place} on team {self.team!r}"
        )


class FailureEvent(_Event):
    """Something that stopped a carrier or the whole check."""

    event: Literal["failure"]
    carrier: str | None = None
    stage: str
    message: str


class Skipped(_Strict):
    """A case that a carrier cannot do."""

    what: str
    why: str


class SummaryEvent(_Event):
    """What rank 0 counted at the end of a carrier."""

    event: Literal["summary"]
    carrier: str
    num_cases: int = Field(ge=0)
    num_wrong: int = Field(ge=0)
    num_skipped: int = Field(ge=0)
    skipped: tuple[Skipped, ...]
    passed: bool
    seconds: float


class VerdictEvent(_Event):
    """The launcher's own verdict; the last event of a log."""

    event: Literal["verdict"]
    passed: bool
    carriers: Mapping[str, bool]
    message: str


Event = (
    PhaseEvent | RankEvent | CaseEvent | FailureEvent | SummaryEvent | VerdictEvent
)  # every kind there is

_EVENT: Final[TypeAdapter[Event]] = TypeAdapter(Annotated[Event, Field(discriminator="event")])
_Kind = TypeVar("_Kind", bound=_Event)
_KINDS: Final = ("phase", "rank", "case", "failure", "summary", "verdict")


@dataclass(frozen=True, kw_only=True)
class Results:
    """One launcher's log, sorted by kind; order of arrival is kept within a kind."""

    phases: tuple[PhaseEvent, ...] = ()
    ranks: tuple[RankEvent, ...] = ()
    cases: tuple[CaseEvent, ...] = ()
    failures: tuple[FailureEvent, ...] = ()
    summaries: tuple[SummaryEvent, ...] = ()
    verdict: VerdictEvent | None = None
    malformed: tuple[str, ...] = ()
    """One sentence per line that could not be read, and per event after the verdict."""

    @property
    def carriers(self) -> tuple[str, ...]:
        """Every carrier that any event names, in order of appearance."""
        events: tuple[PhaseEvent | RankEvent | CaseEvent | SummaryEvent, ...]
        events = (*self.phases, *self.ranks, *self.cases, *self.summaries)
        named = [event.carrier for event in events if event.carrier is not None]
        return tuple(dict.fromkeys(named))

    def cases_of(self, carrier: str) -> tuple[CaseEvent, ...]:
        """The carrier's cases, in order."""
        return tuple(case for case in self.cases if case.carrier == carrier)

    def ranks_of(self, carrier: str) -> tuple[RankEvent, ...]:
        """The carrier's ranks, by number."""
        stated = (rank for rank in self.ranks if rank.carrier == carrier)
        return tuple(sorted(stated, key=lambda rank: rank.rank))

    def summary_of(self, carrier: str) -> SummaryEvent | None:
        """The carrier's last summary."""
        found = [summary for summary in self.summaries if summary.carrier == carrier]
        return found[-1] if found else None


def is_event(line: str) -> bool:
    """Whether a line claims to be an event; everything else in a log is text for people."""
    start = line.lstrip()[:80].replace(" ", "")
    return start.startswith("{") and ('"event":' in line or start.startswith('{"event'))


def parse_line(line: str, *, where: str) -> Event:
    """The event of one line; `where` opens the sentence of the ResultError that it may raise."""
    try:
        return _EVENT.validate_json(line)
    except ValidationError as error:
        raise ResultError(f"{where}: {_problem(error)}") from error


def parse_log(lines: Iterable[str], *, where: str = "launcher's log") -> Results:
    """All events of a log; what cannot be read is kept as sentences in `malformed`."""
    events: list[Event] = []
    malformed: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not is_event(line):
            continue
        try:
            event = parse_line(line, where=f"{where}, line {number}")
        except ResultError as error:
            malformed.append(str(error))
            continue
        if events and isinstance(events[-1], VerdictEvent):
            malformed.append(
                f"{where}, line {number}: a {event.event!r} event after the verdict; "
                "the verdict must be the last one."
            )
        events.append(event)
    verdicts = _of_kind(events, VerdictEvent)
    return Results(
        phases=_of_kind(events, PhaseEvent),
        ranks=_of_kind(events, RankEvent),
        cases=_of_kind(events, CaseEvent),
        failures=_of_kind(events, FailureEvent),
        summaries=_of_kind(events, SummaryEvent),
        verdict=verdicts[-1] if verdicts else None,
        malformed=tuple(malformed),
    )


def _of_kind(events: Iterable[Event], kind: type[_Kind]) -> tuple[_Kind, ...]:
    return tuple(event for event in events if isinstance(event, kind))


def _problem(error: ValidationError) -> str:
    """The first problem of a refused line, as a sentence."""
    first = error.errors(include_url=False)[0]
    path = [str(part) for part in first["loc"]]
    kind = f"{path[0]} event: " if path and path[0] in _KINDS else ""
    field = ".".join(path[1:])
    match first["type"]:
        case "json_invalid":
            return f"not a whole JSON object ({first['ctx']['error']}); the log is cut or mixed."
        case "union_tag_invalid":
            return f"unknown event {first['ctx']['tag']!r}; known events are {', '.join(_KINDS)}."
        case "union_tag_not_found" | "model_attributes_type":
            return f"no event name; known events are {', '.join(_KINDS)}."
        case "extra_forbidden":
            return f"{kind}unknown key {field!r}; job and reader must be of one version."
        case "missing":
            return f"{kind}{field!r} is missing; job and reader must be of one version."
        case _:
            message = first["msg"][0].lower() + first["msg"][1:]
            return f"{kind}{field!r}: {message}, got {first['input']!r}."
