"""Build contexts: which folder stands for which name, what it holds, and where UCC comes from.

Whatever is staged here is also what a key is made from, so a key cannot miss a file.
"""

import fnmatch
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from images.catalog import Context
from infra import versions

REPOSITORY: Final = Path(__file__).resolve().parents[1]

_LEFT_OUT: Final = (".git", "__pycache__", "*.pyc", "*.o", "*.so", "*.a", ".*.sw?", "*~")
"""What a checkout collects beside its sources."""


class BuildError(Exception):
    """Why images cannot be built: one sentence for the person who asked for them."""


@dataclass(frozen=True, kw_only=True)
class Ucc:
    """Where the workers' UCC comes from."""

    origin: str
    """One line; stays in the image and is part of the verdict."""
    identity: str
    """Changes when the UCC does."""
    version: str
    """What the image must find; empty where only the source knows."""
    source: Path | None
    """A source tree, or None for the wheel."""


def wheel() -> Ucc:
    """The UCC inside a wheel: no compiler, no source, seconds."""
    package = f"nvidia-libcal-cu12 {versions.LIBCAL_WHEEL}"
    return Ucc(
        origin=f"PyPI {package}",
        identity=versions.LIBCAL_WHEEL_SHA256,
        version=versions.LIBCAL_UCC,
        source=None,
    )


def source_tree(path: Path) -> Ucc:
    """A UCC source tree, named by git where it is a checkout. Raises BuildError."""
    if not (path / "configure.ac").is_file() or not (path / "src/ucc/api").is_dir():
        msg = f"--ucc-source {path} is not a UCC source tree; name a checkout of openucx/ucc."
        raise BuildError(msg)
    identity = digest(path, ())
    described = subprocess.run(
        ["git", "-c", "safe.directory=*", "-C", str(path), "describe", "--tags", "--always"],
        check=False,
        capture_output=True,
        text=True,
    )
    name = described.stdout.strip() if (path / ".git").exists() else ""
    origin = f"source {name or identity[:12]}"
    return Ucc(origin=origin, identity=identity, version="", source=path)


def download_wheel(folder: Path) -> Path:
    """The folder with the UCC wheel, checked against its pinned hash. Raises BuildError.

    On this machine and not in the Dockerfile: the base has no certificates for https.
    """
    ready = folder / f"libcal-{versions.LIBCAL_WHEEL}"
    if ready.is_dir():
        return ready
    partial = folder / f".{ready.name}.{os.getpid()}"
    partial.mkdir(parents=True)
    requirement = partial / "requirement.txt"
    requirement.write_text(
        f"nvidia-libcal-cu12=={versions.LIBCAL_WHEEL} "
        f"--hash=sha256:{versions.LIBCAL_WHEEL_SHA256}\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--only-binary=:all:", "--platform=manylinux_2_28_x86_64"]
    done = subprocess.run(
        [*command, *options, f"--dest={partial}", f"--requirement={requirement}"],
        check=False,
        capture_output=True,
        text=True,
    )
    requirement.unlink()
    if done.returncode != 0:
        shutil.rmtree(partial)
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        reason = lines[-1].removeprefix("ERROR: ") if lines else done.stderr.strip()[-200:]
        msg = (
            f"the UCC wheel cannot be downloaded: {reason.rstrip('.')}; "
            "check the network, or pass --ucc-source with a checkout of openucx/ucc."
        )
        raise BuildError(msg)
    partial.rename(ready)
    return ready


def folder_of(context: Context, given: Mapping[str, Path]) -> Path:
    """The folder that stands for a context, complete. Raises BuildError."""
    if context.name in given:
        folder = given[context.name]
        option = f"--context {context.name}={folder}"
    elif context.path is not None:
        folder = REPOSITORY / context.path
        option = f"context {context.name} ({context.path})"
    else:
        msg = f"{context.holds} must be given; pass --context {context.name}=FOLDER."
        raise BuildError(msg)
    if not folder.is_dir():
        msg = f"{option} is not a folder; name one with {context.holds}."
        raise BuildError(msg)
    for file in context.files:
        if not (folder / file).is_file():
            msg = f"{option} has no file {file}; name a folder with {context.holds}."
            raise BuildError(msg)
    return folder


def digest(folder: Path, names: tuple[str, ...]) -> str:
    """Hash of names, modes and contents of the files that staging would take."""
    total = hashlib.sha256()
    for name in _files(folder, names):
        path = folder / name
        is_executable = os.access(path, os.X_OK)
        if path.is_symlink():
            content = hashlib.sha256(os.fsencode(path.readlink())).hexdigest()
        else:
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
        total.update(f"{name}\0{is_executable}\0{content}\n".encode())
    return total.hexdigest()


def stage(folder: Path, names: tuple[str, ...], destination: Path) -> None:
    """Puts the files that a context stands for, and no others, into a new folder."""
    destination.mkdir(parents=True)
    for name in _files(folder, names):
        target = destination / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(folder / name, target, follow_symlinks=False)


def _files(folder: Path, names: tuple[str, ...]) -> Iterator[str]:
    if names:
        yield from sorted(names)
        return
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        is_left_out = any(
            fnmatch.fnmatch(part, pattern) for part in name.parts for pattern in _LEFT_OUT
        )
        if not is_left_out and (path.is_file() or path.is_symlink()):
            yield str(name)
