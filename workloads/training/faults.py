"""Faults that a test can ask the check for, to see that it notices. Never set in a real run.

spoil.py does them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

FAULT_RANK: Final = 1
"""Whoever holds it; a world of one has no fault."""
FAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "wrong-sum": "rank 1 doubles one element of its contribution",
        "doubled": "rank 1 doubles its whole contribution",
        "dropped": "rank 1 contributes nothing",
        "shifted": "rank 1 contributes its elements one place off",
        "wrong-result": "rank 1 loses one element of its result",
        "settings": "rank 1 states a setting of its own",
        "hang": "rank 1 never starts the collective",
        "die": "rank 1 is killed instead of starting the collective",
    }
)
ODD_SETTING: Final = ("UCC_CROSSVENDOR_FAULT", "1")
