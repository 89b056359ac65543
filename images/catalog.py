"""Names and references of the images.

Owns how an image is referred to; what is in it is in its Dockerfile.
"""

from typing import Final

VERSION: Final = "0.1.0"
NAMES: Final = ("launcher", "worker-cpu", "pause")


def reference(name: str) -> str:
    """The reference of one of our images. Raises ValueError for a name that there is not."""
    if name not in NAMES:
        msg = f"images/catalog.py has no image {name!r}; it has {', '.join(NAMES)}."
        raise ValueError(msg)
    return f"localhost/crossvendor/{name}:{VERSION}"
