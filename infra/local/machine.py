"""This machine: what commands it has, what it must have, and running them.

Owns the error type that every part of the local environment raises for a person to read.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final


class LocalError(Exception):
    """Something a person can mend: one sentence that ends with the remedy."""


@dataclass(frozen=True, kw_only=True)
class Package:
    """A Debian and Ubuntu package, and the file that shows that it, or its equal, is there."""

    name: str
    provides: tuple[str, ...]
    """Commands or absolute paths; any one is enough."""

    def is_present(self) -> bool:
        """Whether the machine has it already, from this package or another."""
        return any(
            Path(item).exists() if item.startswith("/") else shutil.which(item) is not None
            for item in self.provides
        )


CNI_FOLDERS: Final = ("/usr/lib/cni", "/opt/cni/bin")
"""Where Debian's package and upstream's archive put the CNI plugins."""

PACKAGES: Final = (
    Package(name="containerd", provides=("containerd",)),
    Package(name="runc", provides=("runc",)),
    Package(
        name="containernetworking-plugins",
        provides=tuple(f"{folder}/bridge" for folder in CNI_FOLDERS),
    ),
    Package(name="iproute2", provides=("ip",)),
    Package(name="nftables", provides=("nft",)),
    Package(name="openssl", provides=("openssl",)),
    Package(name="buildah", provides=("buildah",)),
    Package(name="mmdebstrap", provides=("mmdebstrap",)),
    Package(
        name="debian-archive-keyring",
        provides=("/usr/share/keyrings/debian-archive-keyring.gpg",),
    ),
    Package(name="util-linux", provides=("nsenter",)),
)

MIN_FREE_BYTES: Final = 12 * 2**30
"""Cold: Go's build cache and modules 6 GiB, images and their snapshots 4 GiB, state 1 GiB."""
MIN_FREE_BYTES_WARM: Final = 2 * 2**30


def require_root() -> None:
    """Network namespaces, mounts and cgroups need root; rootless Kubernetes is another product."""
    if os.geteuid() != 0:
        msg = (
            f"this command runs as user {os.geteuid()}: the local environment makes network "
            "namespaces, mounts and cgroups, which only root may; run it with sudo."
        )
        raise LocalError(msg)


def cni_folder() -> Path:
    """Where the CNI plugins are."""
    for folder in CNI_FOLDERS:
        if Path(folder, "bridge").exists():
            return Path(folder)
    msg = (
        f"no CNI plugins in {' or '.join(CNI_FOLDERS)}; "
        "install the package containernetworking-plugins."
    )
    raise LocalError(msg)


def missing_packages() -> list[str]:
    """Names of the packages that have to be installed."""
    return [package.name for package in PACKAGES if not package.is_present()]


def install(packages: Sequence[str]) -> None:
    """Install packages with apt-get, without starting the services that they bring."""
    wanted = " ".join(packages)
    remedy = f"install {wanted} by hand and run the command again"
    if shutil.which("apt-get") is None:
        msg = f"missing {wanted}, and this machine has no apt-get; {remedy}."
        raise LocalError(msg)
    # RUNLEVEL=1 keeps invoke-rc.d from starting a system-wide containerd beside ours.
    environment = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
    try:
        run(command, environment=environment, timeout=600)
    except LocalError:
        try:  # the package lists may be old or missing, which only an update can tell
            run(["apt-get", "update", "-qq"], environment=environment, timeout=300)
            run(command, environment=environment, timeout=600)
        except LocalError as error:
            msg = f"missing {wanted}, and apt-get cannot install it ({error}); {remedy}."
            raise LocalError(msg) from error


def require_space(folder: Path, num_bytes: int) -> None:
    """Refuse to begin what the disk cannot hold."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free < num_bytes:
        msg = (
            f"{folder} has {free / 2**30:.1f} GiB free and {num_bytes / 2**30:.0f} GiB are "
            "needed; free some, or set CROSSVENDOR_CACHE to a folder on a larger disk."
        )
        raise LocalError(msg)


def run(
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    stdin: str | None = None,
    timeout: float = 120,
) -> str:
    """Run a command and return its standard output.

    `environment` is added to this process's. Raises LocalError with the command's last words.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            env={**os.environ, **(environment or {})},
            cwd=folder,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except FileNotFoundError as error:
        msg = f"{words[0]} is not on this machine; install it and run the command again."
        raise LocalError(msg) from error
    except subprocess.TimeoutExpired as error:
        msg = f"{' '.join(words)} did not end within {timeout:.0f} s; look at the machine's load."
        raise LocalError(msg) from error
    if done.returncode != 0:
        said = " / ".join((done.stderr or done.stdout).strip().splitlines()[-3:])
        if "No space left on device" in done.stderr + done.stdout:
            msg = f"the disk is full ({' '.join(words[:2])}); free some space and run it again."
            raise LocalError(msg)
        msg = f"{' '.join(words[:8])} failed with exit status {done.returncode}: {said}"
        raise LocalError(msg)
    return done.stdout
