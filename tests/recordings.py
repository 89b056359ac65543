"""Recordings of the shipped stacks, made once per process: each takes seconds.

Tests that use them say `pytestmark = ON_ONE_WORKER`, so that one process has them all.
"""

from functools import cache
from typing import Final

import pytest

from infra.recording import Recording
from infra.render import run_program
from tests.builders import CHECKOUT

ON_ONE_WORKER: Final = pytest.mark.xdist_group("recordings")


@cache
def recorded(stack: str) -> Recording:
    """What the program registers for `Pulumi.<stack>.yaml`."""
    return run_program(CHECKOUT / f"Pulumi.{stack}.yaml")
