"""Ranks state their settings and versions, and nobody starts unless all are the same.

The comparison is pure; `agree` carries the statements over a torch store, before any collective.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Final

ABSENT: Final = "not set"

REMEDY: Final[Mapping[str, str]] = {
    "setting": "set it identically in the job",
    "version": "build the images from the same versions",
    "argument": "start every rank with the same arguments",
}


class DisagreementError(Exception):
    """Ranks differ, or one did not say; one sentence."""


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What one rank says about itself."""

    rank: int
    hostname: str
    pod: str
    vendor: str
    device: str
    versions: Mapping[str, str]
    origins: Mapping[str, str]
    """Where libraries came from; may differ."""
    settings: Mapping[str, str]
    arguments: Mapping[str, str]

    def to_json(self) -> str:
        """For the store."""
        return json.dumps(asdict(self))


def disagreement(statements: Sequence[Statement]) -> str | None:
    """The first thing that is not the same everywhere, as one sentence, or None."""
    for kind, values_of in (
        ("argument", [statement.arguments for statement in statements]),
        ("version", [statement.versions for statement in statements]),
        ("setting", [statement.settings for statement in statements]),
    ):
        for name in sorted({name for values in values_of for name in values}):
            values = [values.get(name) for values in values_of]
            if len(set(values)) > 1:
                said = _who_says_what(name, statements, values)
                return f"{said}; {REMEDY[kind]}."
    return None


def _who_says_what(name: str, statements: Sequence[Statement], values: Iterable[str | None]) -> str:
    """Each distinct value with the first rank that has it, and how many more do."""
    holders: dict[str | None, list[Statement]] = {}
    for statement, value in zip(statements, values, strict=True):
        holders.setdefault(value, []).append(statement)
    parts = []
    for value, group in holders.items():
        first = group[0]
        more = f" and {len(group) - 1} more" if len(group) > 1 else ""
        shown = f"has {name}={value}" if value is not None else f"has {name} {ABSENT}"
        parts.append(f"rank {first.rank} (pod {first.pod}){more} {shown}")
    return ", ".join(parts)


def agree(store: Any, mine: Statement, world_size: int, timeout: timedelta) -> list[Statement]:
    """Everybody's statements, when they agree; raises DisagreementError on every rank otherwise."""
    keys = [f"agreement/{rank}" for rank in range(world_size)]
    store.set(keys[mine.rank], mine.to_json())
    try:
        store.wait(keys, timeout)
    except RuntimeError as error:
        msg = (
            f"{_silent(store, keys)} said nothing about its settings within "
            f"{timeout.total_seconds():g} s; look at its pod."
        )
        raise DisagreementError(msg) from error
    statements = [Statement(**json.loads(store.get(key))) for key in keys]
    # Rank 0 may serve the store, so it must not leave before the others have read it.
    store.set(f"agreement/read/{mine.rank}", "")
    if mine.rank == 0:
        store.wait([f"agreement/read/{rank}" for rank in range(world_size)], timeout)
    problem = disagreement(statements)
    if problem is not None:
        raise DisagreementError(problem)
    return statements


def _silent(store: Any, keys: Sequence[str]) -> str:
    try:
        return ", ".join(f"rank {rank}" for rank, key in enumerate(keys) if not store.check([key]))
    except RuntimeError:
        return "rank 0, whose store is gone,"
