"""Are all-reduces right, and how fast? `python3 -m training.allreduce_check --carrier C`.

Every rank runs this; rank 0 prints the result protocol, one JSON object per line. Exit status 0:
everything right; 1: something is wrong or failed; 2: wrong arguments or environment; 3: a step did
not end by its deadline.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, Final, NoReturn

import torch

from . import settings, versions
from .agreement import DisagreementError, Statement, agree
from .arguments import Arguments, read_arguments
from .buffers import Tables
from .carriers import CARRIERS
from .cases import Case, cases, teams
from .deadline import deadline
from .events import emit
from .faults import FAULT_RANK, ODD_SETTING
from .groups import Team, connect, team, world
from .launch import Launch, LaunchError
from .measure import Memory, measure
from .outcomes import Outcome
from .reports import case_values, rank_values, summary_values

EXIT_WRONG: Final = 1
EXIT_USAGE: Final = 2
GRACE_SECONDS: Final = 3.0
"""How much longer than the carriers' own timeouts the last resort waits: they speak first."""
DEVICE: Final = "cpu"


class CheckError(Exception):
    """The check cannot go on; one sentence, and the stage of the result protocol."""

    def __init__(self, stage: str, sentence: str) -> None:
        super().__init__(sentence)
        self.stage = stage


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the check on this rank; returns the exit status."""
    chosen = read_arguments(arguments)
    try:
        launch = Launch.read()
    except LaunchError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_USAGE
    torch.set_num_threads(1)  # several ranks share a node, and the fills are not what is measured
    try:
        return Check(chosen, launch).run()
    except CheckError as error:
        fail(launch, chosen.carrier, error.stage, str(error))


def fail(launch: Launch, carrier: str, stage: str, sentence: str) -> NoReturn:
    """Says why and ends this rank at once: an orderly exit could wait for a dead peer."""
    tell(launch, carrier, stage, sentence)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_WRONG)


def tell(launch: Launch, carrier: str, stage: str, sentence: str) -> None:
    """A failure: rank 0 speaks the protocol, the others to people."""
    if launch.rank == 0:
        emit("failure", carrier=carrier, stage=stage, message=sentence)
    else:
        sys.stderr.write(f"rank {launch.rank} (pod {launch.pod}), {stage}: {sentence}\n")
        sys.stderr.flush()


class Check:
    """One run on one rank."""

    def __init__(self, chosen: Arguments, launch: Launch) -> None:
        self.chosen = chosen
        self.launch = launch
        self.carrier = CARRIERS[chosen.carrier]
        self.fault = chosen.fault if launch.rank == FAULT_RANK else None
        self.timeout = timedelta(seconds=chosen.deadline_seconds)
        self.started = time.monotonic()
        self.store: Any = None
        self.statements: list[Statement] = []

    def run(self) -> int:
        """Agreement, groups, cases, summary."""
        with self.within("init", "connecting to the other ranks"):
            try:
                self.store = connect(self.launch, self.timeout)
            except LaunchError as error:
                raise CheckError("init", str(error)) from error
        with self.within("agreement", "comparing settings and versions"):
            try:
                mine = self.statement()
                self.statements = agree(self.store, mine, self.launch.world_size, self.timeout)
            except DisagreementError as error:
                raise CheckError("agreement", str(error)) from error
            except (ImportError, RuntimeError) as error:
                raise CheckError("init", _first_line(error)) from error
        if self.is_first:
            for statement in self.statements:
                emit("rank", **rank_values(self.carrier.name, statement))
        return self.run_on_groups()

    @property
    def is_first(self) -> bool:
        """Only one rank prints the protocol."""
        return self.launch.rank == 0

    def within(self, stage: str, what: str) -> AbstractContextManager[None]:
        """The last resort against a step that hangs."""
        seconds = self.chosen.deadline_seconds

        def on_expiry() -> None:
            sentence = (
                f"{self.carrier.name}: rank {self.launch.rank} did not finish {what} within "
                f"{seconds:g} s; a peer died, stalled or does something else."
            )
            tell(self.launch, self.carrier.name, stage, sentence)

        return deadline(seconds + GRACE_SECONDS, on_expiry)

    def statement(self) -> Statement:
        """What this rank says about itself."""
        environment = self.launch.environment
        found = settings.communication_settings(environment)
        ucc_versions: dict[str, str] = {}
        origins: dict[str, str] = {}
        ucc_library = ""
        if self.carrier.name == "libucc":
            from . import libucc

            ucc_versions = libucc.versions()
            paths = libucc.paths()
            ucc_library = paths["ucc"]
            origins = {name: versions.origin(path) for name, path in paths.items()}
            found[settings.UCC_CONF] = settings.ucc_conf(environment, ucc_library)
        if self.fault == "settings":
            name, value = ODD_SETTING
            found[name] = value
        return Statement(
            rank=self.launch.rank,
            hostname=self.launch.hostname,
            pod=self.launch.pod,
            vendor=self.launch.vendor,
            device=DEVICE,
            versions=versions.versions(**ucc_versions),
            origins=origins,
            settings=found,
            arguments=self.chosen.for_agreement(),
        )

    def run_on_groups(self) -> int:
        """Starts the carrier, makes the teams, runs the cases."""
        launch, name = self.launch, self.carrier.name
        members = teams(launch.world_size)
        runs, skipped = cases(
            self.carrier, launch.world_size, self.chosen.max_bytes, is_quick=self.chosen.is_quick
        )
        groups: dict[str, Team | None] = {}
        with self.within("init", "making the teams"):
            opened = world(name, launch, self.store, self.timeout)
            try:
                groups["world"] = opened.__enter__()
                for team_name, ranks in members.items():
                    if team_name != "world":
                        groups[team_name] = team(
                            name, team_name, ranks, launch, self.store, self.timeout
                        )
            except (LaunchError, ImportError, RuntimeError) as error:
                raise CheckError("init", _first_line(error)) from error
        memory, tables = Memory(), Tables()
        num_wrong = num_patterns = 0
        for number, case in enumerate(runs):
            ranks = members[case.team]
            what = f"case {number} ({describe(case)})"
            with self.within("case", what):
                group = groups[case.team]
                outcome = None
                if group is not None:
                    outcome = measure(
                        case, group, ranks, launch.rank, memory, tables, num_patterns, self.fault
                    )
                num_patterns += case.iterations
                num_wrong += self.settle(number, case, ranks, outcome)
        with self.within("case", "the last words"):
            passed = self.agree_on_verdict(num_wrong == 0)
            if self.is_first:
                seconds = time.monotonic() - self.started
                emit("summary", **summary_values(name, len(runs), num_wrong, skipped, seconds))
            groups.clear()
            opened.__exit__(None, None, None)
            self.leave()
        return 0 if passed else EXIT_WRONG

    def settle(
        self, number: int, case: Case, ranks: tuple[int, ...], outcome: Outcome | None
    ) -> int:
        """Sends the outcome to rank 0, which prints the case; 1 if it was wrong."""
        if outcome is not None:
            self.store.set(f"case/{number}/{self.launch.rank}", json.dumps(outcome.to_dict()))
        if not self.is_first:
            if outcome is not None and outcome.error:
                raise CheckError("case", outcome.error)
            return 0
        outcomes = self.collect(number, ranks)
        nodes = {statement.rank: statement.hostname for statement in self.statements}
        values = case_values(
            self.carrier.name, case, ranks, outcomes, nodes, self.launch.link_mbits
        )
        emit("case", **values)
        if values["error"] is not None:
            raise CheckError("case", f"{self.carrier.name}, {describe(case)}: {values['error']}.")
        return int(not values["correct"])

    def collect(self, number: int, ranks: tuple[int, ...]) -> list[Outcome]:
        """All ranks' outcomes of a case; after an error, those that come soon."""
        outcomes: list[Outcome] = []
        end = time.monotonic() + self.chosen.deadline_seconds
        for rank in sorted(ranks):
            key = f"case/{number}/{rank}"
            has_failed = any(outcome.error for outcome in outcomes)
            left = GRACE_SECONDS / 2 if has_failed else max(0.1, end - time.monotonic())
            try:
                self.store.wait([key], timedelta(seconds=left))
            except RuntimeError:
                continue
            outcomes.append(Outcome.from_dict(json.loads(self.store.get(key))))
        return outcomes

    def agree_on_verdict(self, passed: bool) -> bool:
        """Rank 0's verdict, on every rank, so that all exit alike."""
        if self.is_first:
            self.store.set("verdict", "passed" if passed else "failed")
        self.store.wait(["verdict"], self.timeout)
        return bool(self.store.get("verdict") == b"passed")

    def leave(self) -> None:
        """Rank 0 may serve the store, so it leaves last."""
        self.store.set(f"left/{self.launch.rank}", "")
        if self.is_first:
            keys = [f"left/{rank}" for rank in range(self.launch.world_size)]
            self.store.wait(keys, self.timeout)


def describe(case: Case) -> str:
    """The case in a few words."""
    place = "in place" if case.in_place else "out of place"
    return f"{case.operation} of {case.num_elements} {case.dtype} {place}, team {case.team}"


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


if __name__ == "__main__":
    sys.exit(main())
