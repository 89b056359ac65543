"""The carriers and what each of them lacks, with reasons. Pure; groups.py starts them.

What a carrier lacks is skipped and reported, never imitated: a check of a stand-in proves nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

OPERATIONS: Final = ("sum", "max", "min", "avg")

ITEM_SIZES: Final[Mapping[str, int]] = MappingProxyType(
    {"float32": 4, "float64": 8, "int64": 8, "int32": 4, "bfloat16": 2, "float16": 2}
)
"""Types that the check knows, with their size in bytes."""

INTEGERS: Final = frozenset({"int32", "int64"})


@dataclass(frozen=True, kw_only=True)
class Lack:
    """Operations of types that a carrier does not have."""

    why: str
    operations: frozenset[str] = frozenset(OPERATIONS)
    dtypes: frozenset[str] = frozenset(ITEM_SIZES)


@dataclass(frozen=True, kw_only=True)
class Carrier:
    """One library that can carry torch.distributed's collectives."""

    name: str
    title: str
    lacks: tuple[Lack, ...]

    def why_not(self, operation: str, dtype: str) -> str | None:
        """Why it cannot do this, or None when it can."""
        for lack in (*self.lacks, _NO_INTEGER_AVERAGE):
            if operation in lack.operations and dtype in lack.dtypes:
                return lack.why
        return None


_AVERAGE: Final = frozenset({"avg"})
_NO_INTEGER_AVERAGE: Final = Lack(
    operations=_AVERAGE,
    dtypes=INTEGERS,
    why="an average of integers is not defined: nothing says how to round",
)

CARRIERS: Final[Mapping[str, Carrier]] = MappingProxyType(
    {
        carrier.name: carrier
        for carrier in (
            Carrier(
                name="libucc",
                title="our backend over UCC",
                lacks=(
                    Lack(
                        dtypes=frozenset({"float16"}),
                        why="UCC reduces no float16 in host memory",
                    ),
                ),
            ),
            Carrier(
                name="mpi",
                title="torch's backend over Open MPI",
                lacks=(
                    Lack(operations=_AVERAGE, why="torch 2.6's mpi backend has no average"),
                    Lack(
                        dtypes=frozenset({"bfloat16", "float16"}),
                        why="torch 2.6's mpi backend has no 16-bit floating-point types",
                    ),
                ),
            ),
            Carrier(
                name="gloo",
                title="torch's backend over gloo",
                lacks=(Lack(operations=_AVERAGE, why="torch 2.6's gloo backend has no average"),),
            ),
        )
    }
)
