"""Ends the process when a step does not: for what neither a carrier nor Python can interrupt."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

EXIT_DEADLINE: Final = 3


@contextmanager
def deadline(seconds: float, on_expiry: Callable[[], None]) -> Iterator[None]:
    """Calls `on_expiry` and exits with EXIT_DEADLINE if the block takes longer than this."""
    over = threading.Event()

    def watch() -> None:
        if not over.wait(seconds):
            try:
                on_expiry()
            finally:
                os._exit(EXIT_DEADLINE)  # whatever hangs would also hang an orderly exit

    threading.Thread(target=watch, name="deadline", daemon=True).start()
    try:
        yield
    finally:
        over.set()
