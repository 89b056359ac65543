"""Steps of a build: in order, a few at once, each said in one line when it is done."""

import contextlib
import graphlib
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Final

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from images.sources import BuildError

_NUM_AT_ONCE: Final = 2


class Report:
    """Says what is done, as short lines; on a terminal also what is being done."""

    def __init__(self, console: Console) -> None:
        self._console = console
        columns = (SpinnerColumn(), TextColumn("images  {task.description}"), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console, transient=True)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """While open, unfinished steps are shown, where the console is a terminal."""
        if not self._console.is_terminal:
            yield
            return
        with self._progress:
            yield

    def say(self, text: str) -> None:
        """One line."""
        self._console.print(f"images  {text}", highlight=False, soft_wrap=True)

    def step(self, name: str, action: Callable[[], str]) -> None:
        """Runs one step and says how long it took."""
        task = self._progress.add_task(name)
        start = time.monotonic()
        result = action()
        seconds = time.monotonic() - start
        self._progress.remove_task(task)
        self.say(f"{name:<28} {seconds:5.1f} s  {result}")


def run_in_order(
    graph: Mapping[str, set[str]], steps: Mapping[str, Callable[[], str]], report: Report
) -> None:
    """Runs each step after those it needs, a few at once. Raises the first failure."""
    sorter = graphlib.TopologicalSorter(graph)
    sorter.prepare()
    running: dict[Future[None], str] = {}
    with report.running(), ThreadPoolExecutor(_NUM_AT_ONCE) as pool:
        while sorter.is_active():
            for name in sorter.get_ready():
                running[pool.submit(report.step, name, steps[name])] = name
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                name = running.pop(future)
                try:
                    future.result()
                except BuildError as error:
                    pool.shutdown(cancel_futures=True)
                    msg = f"{name}: {error}"
                    raise type(error)(msg) from error
                sorter.done(name)
