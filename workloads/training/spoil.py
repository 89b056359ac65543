"""Does what faults.py names, to the tensors of the rank that has the fault."""

import os
import signal
import time

import torch


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
