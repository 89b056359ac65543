"""Images: under which name pods ask for each of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from infra.names import PROJECT

VERSION: Final = "0.1.0"
"""Tag of our own images: the project's version."""


@dataclass(frozen=True, kw_only=True)
class Image:
    """One image."""

    name: str
    reference: str
    """Full name under which pods ask for it."""


IMAGES: Final[Mapping[str, Image]] = MappingProxyType(
    {
        name: Image(name=name, reference=f"localhost/{PROJECT}/{name}:{VERSION}")
        for name in ("launcher", "worker-cpu")
    }
)
