"""How a running job looks in a terminal: a live table, or plain lines where nothing can be redrawn.

Shows a Watch; decides nothing.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from workloads.watching import Watch

PLAIN_SECONDS: Final = 10
"""Between two plain lines about the same carrier."""


class View(Protocol):
    """Something that shows a job's progress."""

    def __call__(self, watch: Watch) -> None:
        """Shows the state."""


@contextmanager
def view(console: Console) -> Iterator[View]:
    """The view that fits the console."""
    if not console.is_terminal:
        yield PlainView(console=console)
        return
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        spinner = Spinner("dots")

        def show(watch: Watch) -> None:
            live.update(_table(watch, spinner))

        yield show


@dataclass(kw_only=True)
class PlainView:
    """One short line for each thing that changed."""

    console: Console
    begun: float = field(default_factory=time.monotonic)
    _shown: dict[str, str] = field(default_factory=dict)
    _shown_at: dict[str, float] = field(default_factory=dict)

    def __call__(self, watch: Watch) -> None:
        """Prints what is new."""
        self._say("job", state(watch), always=True)
        for carrier, progress in watch.carriers.items():
            text = f"{carrier}: {progress.num_cases} cases, {progress.num_wrong} wrong"
            done = ", finished" if progress.is_finished else ""
            self._say(carrier, text + done, always=progress.is_finished)

    def _say(self, topic: str, text: str, *, always: bool) -> None:
        passed = time.monotonic() - self.begun
        is_due = always or passed - self._shown_at.get(topic, -PLAIN_SECONDS) >= PLAIN_SECONDS
        if text and is_due and self._shown.get(topic) != text:
            self._shown[topic], self._shown_at[topic] = text, passed
            self.console.print(f"{passed:6.1f} s  {text}", markup=False, highlight=False)


def state(watch: Watch) -> str:
    """The job and its pods in one line."""
    pods = list(watch.pods.values())
    phase = watch.phase if watch.phase else "not taken up yet"
    if watch.has_started or watch.is_final or not pods:
        return f"job {phase}"
    num_placed = sum(pod.scheduled is not None for pod in pods)
    num_ready = sum(pod.ready is not None for pod in pods)
    return f"job {phase}: {len(pods)} pods, {num_placed} on a node, {num_ready} ready"


def _table(watch: Watch, spinner: Spinner) -> Group:
    passed = time.time() - watch.started
    spinner.update(text=Text(f" {watch.request.job}  {state(watch)}  {passed:.0f} s"))
    table = Table(box=None, show_header=False, padding=(0, 2))
    for carrier in watch.request.carriers:
        progress = watch.carriers.get(carrier)
        if progress is None:
            table.add_row("", carrier, Text("waiting", style="dim"))
            continue
        wrong = Text(f"{progress.num_wrong} wrong", style="bold red" if progress.num_wrong else "")
        mark = "done" if progress.is_finished else "running"
        table.add_row("", carrier, Text(f"{progress.num_cases} cases"), wrong, Text(mark))
    waiting = [pod for pod in watch.pods.values() if pod.waiting and pod.started is None]
    reasons = [Text(f"  {pod.name}: {pod.waiting}", style="dim") for pod in waiting[:3]]
    return Group(spinner, table, *reasons)
