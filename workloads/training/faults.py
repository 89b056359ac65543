"""Faults that a test can ask the check for, to see that it notices. Never set in a real run."""

import os
import signal
import time
from typing import Final

import torch

FAULT_RANK: Final = 1
"""Whoever holds it; a world of one has no fault."""
FAULTS: Final = {
    "wrong-sum": "rank 1 doubles one element of its contribution",
    "doubled": "rank 1 doubles its whole contribution",
    "dropped": "rank 1 contributes nothing",
    "shifted": "rank 1 contributes its elements one place off",
    "wrong-result": "rank 1 loses one element of its result",
    "settings": "rank 1 states a setting of its own",
    "hang": "rank 1 never starts the collective",
    "die": "rank 1 is killed instead of starting the collective",
}
ODD_SETTING: Final = ("UCC_CROSSVENDOR_FAULT", "1")


def spoil_input(fault: str | None, tensor: torch.Tensor, operation: str) -> None:
    """Changes what this rank is about to contribute."""
    middle = tensor.numel() // 2
    match fault:
        case "wrong-sum":
            tensor[middle] *= 2
        case "doubled":
            tensor *= 2
        case "dropped":
            # what the operation ignores: a rank whose part got lost
            tensor.fill_(tensor.min() if operation == "max" else 0)
        case "shifted":
            tensor.copy_(tensor.roll(1))
        case "hang":
            time.sleep(3600)
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)


def spoil_result(fault: str | None, tensor: torch.Tensor) -> None:
    """Changes what this rank has received."""
    if fault == "wrong-result":
        tensor[tensor.numel() // 2] = 0
