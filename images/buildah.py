"""Runs buildah in a storage of its own, in namespaces that end with the command.

Nothing that a killed build leaves behind outlives it: mounts and processes go with the namespaces,
half-written files are swept by the next command.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from images.sources import BuildError

NEEDS_VERSION: Final = (1, 26)
"""The first with `--build-context`."""

# pdeathsig ends the namespaces with this process, --kill-child everything in them.
ISOLATED: Final = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
)


@dataclass(frozen=True)
class Buildah:
    """One storage, below one folder."""

    folder: Path

    @property
    def options(self) -> list[str]:
        """What makes any buildah command use this storage."""
        folders = ["--root", str(self.folder / "storage"), "--runroot", str(self.folder / "run")]
        return [*folders, "--storage-driver", self._driver()]

    def prepare(self) -> None:
        """Checks the tool and sweeps what a killed command left. Raises BuildError."""
        if shutil.which("buildah") is None:
            msg = "buildah is missing; install it with apt-get install buildah."
            raise BuildError(msg)
        text = subprocess.run(
            ["buildah", "--version"], check=True, capture_output=True, text=True
        ).stdout
        found = re.search(r"(\d+)\.(\d+)", text)
        if found is None or tuple(map(int, found.groups())) < NEEDS_VERSION:
            needed = ".".join(map(str, NEEDS_VERSION))
            msg = f"{text.strip()} is too old; install buildah {needed} or newer."
            raise BuildError(msg)
        for leftover in ("run", "tmp"):
            shutil.rmtree(self.folder / leftover, ignore_errors=True)
            (self.folder / leftover).mkdir(parents=True)
        # The machine's own policy may be missing, and may be stricter than an own archive needs.
        (self.folder / "policy.json").write_text(
            json.dumps({"default": [{"type": "insecureAcceptAnything"}]}), encoding="utf-8"
        )

    def sweep(self) -> None:
        """Removes what only a running command needs."""
        for leftover in ("run", "tmp"):
            shutil.rmtree(self.folder / leftover, ignore_errors=True)

    def build(
        self,
        tag: str,
        dockerfile: Path,
        *,
        contexts: Mapping[str, Path],
        arguments: Mapping[str, str],
        target: str | None,
        log: Path,
    ) -> None:
        """Builds one Dockerfile, independent stages side by side. Raises BuildError."""
        command = ["build", "--layers", "--jobs=2", f"--tag={tag}", f"--file={dockerfile}"]
        command += [f"--build-arg={name}={value}" for name, value in arguments.items()]
        command += [f"--build-context={name}={path}" for name, path in contexts.items()]
        if target is not None:
            command.append(f"--target={target}")
        self.run([*command, str(dockerfile.parent)], log=log)

    def push(self, tag: str, archive: Path, reference: str, *, log: Path) -> None:
        """Writes an image as an OCI archive, whole or not at all. Raises BuildError.

        Hardly compressed: the archive stays on this machine, and writing less is all it is for.
        """
        partial = self.folder / "tmp" / archive.name
        target = f"oci-archive:{partial}:{reference}"
        fast = ["--compression-format=zstd", "--compression-level=1"]
        self.run(["push", "--quiet", *fast, tag, target], log=log)
        partial.rename(archive)

    def load(self, archive: Path, tag: str, *, log: Path) -> None:
        """Reads an OCI archive back into the storage. Raises BuildError."""
        output = self.run(["pull", "--quiet", f"oci-archive:{archive}"], log=log)
        self.run(["tag", output.split()[-1], tag], log=log)

    def created(self) -> dict[str, str]:
        """Every tag in the storage -> when its image was made, in a form that sorts."""
        output = self.run(["images", "--json"], log=None)
        images = json.loads(output or "null") or []
        return {
            name: image["createdatraw"] for image in images for name in (image.get("names") or [])
        }

    def remove(self, tags: Sequence[str]) -> None:
        """Forgets images, and the layers that nothing else needs. Raises BuildError."""
        if tags:
            # Forced, because children of a tag may still need its layers: those stay.
            self.run(["rmi", "--force", *tags], log=None)

    def run(
        self, command: Sequence[str], *, log: Path | None, timeout_seconds: float | None = None
    ) -> str:
        """One buildah command; its stdout. Its stderr goes to the log. Raises BuildError."""
        first, *rest = command
        if first in ("build", "push", "pull"):
            rest.insert(0, f"--signature-policy={self.folder / 'policy.json'}")
        environment = {
            **os.environ,
            "BUILDAH_ISOLATION": "chroot",
            "TMPDIR": str(self.folder / "tmp"),
        }
        whole = [*ISOLATED, "buildah", *self.options, first, *rest]
        return run(whole, log=log, env=environment, timeout_seconds=timeout_seconds)

    def _driver(self) -> str:
        """What the storage was made with; overlay unless this file system cannot carry it."""
        marker = self.folder / "driver"
        if not marker.exists():
            marker.write_text("overlay" if self._carries_overlay() else "vfs", encoding="ascii")
        return marker.read_text(encoding="ascii").strip()

    def _carries_overlay(self) -> bool:
        """Whether an overlay mount works here; not so inside most containers."""
        scratch = self.folder / "tmp" / "overlay"
        for part in ("lower", "upper", "work", "merged"):
            (scratch / part).mkdir(parents=True, exist_ok=True)
        options = f"lowerdir={scratch}/lower,upperdir={scratch}/upper,workdir={scratch}/work"
        tried = subprocess.run(
            [*ISOLATED, "mount", "-t", "overlay", "-o", options, "overlay", f"{scratch}/merged"],
            check=False,
            capture_output=True,
        )
        shutil.rmtree(scratch, ignore_errors=True)
        return tried.returncode == 0


def run(
    command: Sequence[str],
    *,
    log: Path | None,
    env: Mapping[str, str] | None = None,
    timeout_seconds: float | None = None,
) -> str:
    """One command; what it says, which also goes to the log as it comes. Raises BuildError."""
    with TemporaryFile() if log is None else log.open("a+b") as file:
        start = file.seek(0, os.SEEK_END)
        done = subprocess.run(
            list(command),
            check=False,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT if log is not None else subprocess.DEVNULL,
            timeout=timeout_seconds,
        )
        file.seek(start)
        output = file.read().decode(errors="replace")
    if done.returncode != 0:
        raise BuildError(_reason(output, log))
    return output


def _reason(output: str, log: Path | None) -> str:
    """The line that says why, as a sentence."""
    if re.search(r"no space left on device|disk quota exceeded", output, re.IGNORECASE):
        return "the disk is full; free some gigabytes and run it again."
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if re.match(r"(E:|verify:|\w+: BROKEN|make.*\*\*\*)", line)]
    line = (telling or lines or ["no reason given"])[-1]
    where = f"; see {log}" if log is not None else ""
    return f"{line.removeprefix('Error: ').rstrip('.')}{where}."
