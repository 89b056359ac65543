"""Long work, told as it happens: one line per step with its time, kept for the summary."""

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console


class Progress:
    """Prints steps and appends them to a timings file: one JSON object per line.

    Steps may run in threads of their own; lines stay whole.
    """

    def __init__(self, timings: Path | None = None) -> None:
        self._console = Console(stderr=False, highlight=False, soft_wrap=True)
        self._lock = threading.Lock()
        self._timings = timings

    def say(self, text: str) -> None:
        """Print one line."""
        with self._lock:
            self._console.print(text, markup=False)
            sys.stdout.flush()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a step and tell how long it took."""
        start = time.monotonic()
        try:
            yield
        except BaseException:
            self.say(f"  {name}: failed after {time.monotonic() - start:.1f} s")
            raise
        seconds = time.monotonic() - start
        self.say(f"  {name}: {seconds:.1f} s")
        self.record(name, seconds)

    def record(self, name: str, seconds: float) -> None:
        """Append a step that was timed elsewhere."""
        if self._timings is None:
            return
        with self._lock, self._timings.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": name, "seconds": round(seconds, 2)}) + "\n")
