"""What a build is made from, as hashes: the same inputs have the same keys, on any machine."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from images import sources
from images.catalog import BASE, BASE_REFERENCE, UCC_ORIGIN, Image, with_parents
from images.sources import REPOSITORY, BuildError, Ucc

_RECIPE: Final = "1"
"""Part of every key: raised when images/builder.py builds the same inputs differently."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is asked for, resolved to files: the same plan gives the same keys."""

    images: tuple[Image, ...]
    """Parents first."""
    ucc: Ucc
    contexts: Mapping[tuple[str, str], Path]
    """(image, context) -> folder, without UCC's."""
    keys: Mapping[str, str]
    """Image or BASE -> hash of everything that goes in."""


def plan(names: Sequence[str], *, given: Mapping[str, Path], ucc: Ucc) -> Plan:
    """Resolves and hashes; builds nothing. Raises BuildError with the image's name."""
    images = with_parents(names)
    contexts: dict[tuple[str, str], Path] = {}
    dpkg = REPOSITORY / "images/scripts"
    keys = {BASE: _hash(BASE_REFERENCE, sources.digest(dpkg, ("dpkg.cfg",)))}
    for image in images:
        parts = [image.reference, image.target or "", sources.digest(REPOSITORY / image.folder, ())]
        parts += [f"{name}={value}" for name, value in sorted(image.arguments.items())]
        if image.parent is not None:
            parts.append(keys[image.parent])
        for context in image.contexts:
            if context is UCC_ORIGIN:
                parts += [ucc.origin, ucc.identity]
                continue
            try:
                folder = sources.folder_of(context, given)
            except BuildError as error:
                msg = f"{image.name}: {error}"
                raise BuildError(msg) from error
            contexts[image.name, context.name] = folder
            parts.append(f"{context.name}={sources.digest(folder, context.files)}")
        keys[image.name] = _hash(*parts)
    return Plan(images=images, ucc=ucc, contexts=contexts, keys=keys)


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join((_RECIPE, *parts)).encode()).hexdigest()[:16]
