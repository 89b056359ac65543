"""Versions of everything that a rank's numbers pass through, and where it came from."""

import ctypes
import hashlib
import platform
from importlib import metadata
from pathlib import Path
from typing import Final

NONE: Final = "none"
"""Stands for a library that this rank does not use."""

_SOURCES: Final = ("*.py", "libucc/*.py", "libucc/*.h", "libucc/*.cpp")


def versions(ucc: str = NONE, ucx: str = NONE) -> dict[str, str]:
    """Versions by name; those of UCC and UCX come from whoever has loaded them."""
    return {
        "python": platform.python_version(),
        "torch": _torch_version(),
        "ucc": ucc,
        "ucx": ucx,
        "openmpi": _openmpi_version(),
        "training": package_hash(),
    }


def package_hash(folder: Path = Path(__file__).parent) -> str:
    """A short hash of this package's sources, so that two images cannot differ unnoticed."""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in _SOURCES for path in folder.glob(pattern)}):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder)} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]


def origin(library: str) -> str:
    """Where a library below `<prefix>/lib` came from: what `<prefix>/ORIGIN` says, or its path."""
    if not library:
        return NONE
    note = Path(library).resolve().parent.parent / "ORIGIN"
    return note.read_text(encoding="utf-8").strip() if note.is_file() else library


def _torch_version() -> str:
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return NONE


def _openmpi_version() -> str:
    """The version of the libmpi that this process would use; may be asked before MPI starts."""
    try:
        library = ctypes.CDLL("libmpi.so.40")
    except OSError:
        return NONE
    text = ctypes.create_string_buffer(8192)  # above MPI_MAX_LIBRARY_VERSION_STRING
    length = ctypes.c_int()
    library.MPI_Get_library_version(text, ctypes.byref(length))
    # "Open MPI v5.0.7, package: Debian OpenMPI, ident: 5.0.7, ..."
    first = text.value.decode().partition(",")[0]
    return first.removeprefix("Open MPI v")
