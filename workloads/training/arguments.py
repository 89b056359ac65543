"""The check's command line. Pure."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from .carriers import CARRIERS
from .cases import KIB, MIB
from .faults import FAULTS


@dataclass(frozen=True)
class Arguments:
    """What the command line says."""

    carrier: str
    max_bytes: int
    is_quick: bool
    deadline_seconds: float
    fault: str | None

    def for_agreement(self) -> dict[str, str]:
        """The ones that must be the same on every rank."""
        return {
            "--carrier": self.carrier,
            "--max-bytes": str(self.max_bytes),
            "--quick": str(self.is_quick),
        }


def read_arguments(arguments: Sequence[str] | None) -> Arguments:
    """The command line, checked; exits with status 2 on a wrong one."""
    parser = argparse.ArgumentParser(
        prog="training.allreduce_check", description="Are all-reduces right, and how fast?"
    )
    parser.add_argument("--carrier", required=True, choices=list(CARRIERS))
    parser.add_argument("--max-bytes", type=byte_count, default=256 * MIB, metavar="256MiB")
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    parser.add_argument("--deadline", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument(
        "--fault",
        choices=list(FAULTS),
        help="for tests of the check itself: make rank 1 do something wrong",
    )
    found = parser.parse_args(arguments)
    if not found.deadline > 0:
        parser.error(f"--deadline: {found.deadline} is not a positive number of seconds.")
    return Arguments(found.carrier, found.max_bytes, found.quick, found.deadline, found.fault)


def byte_count(text: str) -> int:
    """'256MiB', '64KiB' or '4' as a number of bytes."""
    for unit, factor in (("MiB", MIB), ("KiB", KIB), ("B", 1), ("", 1)):
        number = text.removesuffix(unit)
        if text.endswith(unit) and number.isascii() and number.isdigit() and int(number) > 0:
            return int(number) * factor
    msg = f"{text!r} is no size; write a whole number of B, KiB or MiB, such as 256MiB."
    raise argparse.ArgumentTypeError(msg)
