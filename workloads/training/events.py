"""One JSON object per line on standard output: how a run tells what it found."""

import json
import sys
import time
from typing import Any


def emit(event: str, **values: Any) -> None:
    """Writes one event at once, in one piece, so that other output cannot split it."""
    line = json.dumps({"event": event, "time": time.time(), **values}, allow_nan=False)
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
