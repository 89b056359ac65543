#!/usr/bin/python3
"""Asserts what an image promises: `verify CHECK[=VERSION]...`, in a build, a test or a pod.

Prints one line per check. Exits 1 with one sentence per broken promise.
"""

import ctypes
import os
import pwd
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

UCC = Path("/opt/ucc")
PACKAGE = Path("/opt/crossvendor/training")
COMPILERS = ("cc", "c++", "gcc", "g++", "gfortran", "clang", "cpp", "ld", "as", "ar", "make")


class BrokenPromiseError(Exception):
    """What is wrong in the image, as one sentence."""


def files(_: str | None) -> str:
    """No file gives its reader more rights, and nothing is left over from the build."""
    for path, mode in _walk():
        if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
            raise BrokenPromiseError(
                f"{path} is setuid or setgid; clear the bit in the Dockerfile."
            )
        if path.name == "ucc.conf" and path.parent != Path("/etc/ld.so.conf.d"):
            raise BrokenPromiseError(f"{path} exists; UCC would tune by the local CPU, remove it.")
        if path.match("/etc/ssh/ssh_host_*"):
            raise BrokenPromiseError(f"{path} is a host key; keys are made when sshd starts.")
        if path.suffix == ".deb" or path.match("/var/lib/apt/lists/*_*"):
            raise BrokenPromiseError(f"{path} is a package cache; remove it in the same layer.")
        if path.match("/usr/share/doc/*/*") and path.name != "copyright" and stat.S_ISREG(mode):
            raise BrokenPromiseError(f"{path} is documentation; exclude it in dpkg.cfg.")
    for name in COMPILERS:
        if found := shutil.which(name):
            raise BrokenPromiseError(f"{found} is a compiler's; build in a stage of its own.")
    return "no setuid, host key, ucc.conf, compiler, package cache or documentation"


def _walk() -> Iterator[tuple[Path, int]]:
    """Every path of the root file system that this user can list, with its mode."""
    device = Path("/").stat().st_dev
    for folder, folders, names in os.walk("/"):
        folders[:] = [name for name in folders if _is_on(device, Path(folder, name))]
        for name in names:
            path = Path(folder, name)
            yield path, path.lstat().st_mode


def _is_on(device: int, folder: Path) -> bool:
    # A build may have /proc, /sys and /dev on the image's own device, as plain folders.
    is_virtual = str(folder) in ("/proc", "/sys", "/dev")
    return not is_virtual and folder.lstat().st_dev == device


def user(_: str | None) -> str:
    """The process is the unprivileged user that the pod's security context demands."""
    entry = pwd.getpwuid(os.getuid())
    found = (os.getuid(), os.getgid(), entry.pw_name, entry.pw_dir)
    expected = (1000, 1000, "mpiuser", "/home/mpiuser")
    if found != expected:
        raise BrokenPromiseError(f"the user is {found}; it must be {expected}.")
    status = Path("/proc/self/status").read_text(encoding="ascii")
    [capabilities] = [line for line in status.splitlines() if line.startswith("CapEff:")]
    if int(capabilities.split()[1], 16) != 0:
        raise BrokenPromiseError(f"the user has capabilities ({capabilities}); it must have none.")
    return f"{entry.pw_name} {os.getuid()}:{os.getgid()}, no capability"


def openmpi(version: str | None) -> str:
    """Open MPI has the ucx point-to-point layer; its version is the table's."""
    lines = _output("ompi_info", "--parsable", "--all").splitlines()
    [found] = {line.rpartition(":")[2] for line in lines if line.startswith("ompi:version:full:")}
    expect("Open MPI", found, version)
    if not any(line.startswith("mca:pml:ucx:version:") for line in lines):
        raise BrokenPromiseError("Open MPI has no pml ucx; install one that was built with UCX.")
    return found


def ucx(version: str | None) -> str:
    """The UCX that the loader finds is the table's."""
    library = ctypes.CDLL("libucp.so.0")
    library.ucp_get_version_string.restype = ctypes.c_char_p
    found = library.ucp_get_version_string().decode()
    expect("UCX", found, version)
    return f"{found} at {mapped('libucp')}"


def sshd(_: str | None) -> str:
    """The server is there, and its keys are not."""
    return _output("/usr/sbin/sshd", "-V").strip()


def torch(version: str | None) -> str:
    """Torch loads, has the carriers that a worker offers, and brings one UCX."""
    import torch
    import torch.distributed as dist

    found = torch.__version__.partition("+")[0]
    expect("torch", found, version)
    missing = [
        name
        for name, is_there in (("mpi", dist.is_mpi_available()), ("gloo", dist.is_gloo_available()))
        if not is_there
    ]
    if missing:
        raise BrokenPromiseError(f"torch {found} lacks the backends {missing}; install Debian's.")
    return f"{torch.__version__} with mpi and gloo"


def ucc(version: str | None) -> str:
    """UCC loads beside torch with all its components, on the same UCX."""
    import torch  # noqa: F401  the clash would be with the UCX that torch's Open MPI loads

    library = ctypes.CDLL("libucc.so.1")
    major, minor, release = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_uint()
    library.ucc_get_version(ctypes.byref(major), ctypes.byref(minor), ctypes.byref(release))
    found = f"{major.value}.{minor.value}.{release.value}"
    expect("UCC", found, version)
    config = ctypes.c_void_p()
    # Reading the configuration loads the components, of which tl_ucp is linked to UCX.
    if library.ucc_lib_config_read(None, None, ctypes.byref(config)) != 0:
        raise BrokenPromiseError("UCC cannot read its configuration; see UCC_LOG_LEVEL=debug.")
    loaded = mapped("libucc_tl_ucp")
    libraries = [mapped(name) for name in ("libucc", "libucp", "libuct", "libucs", "libmpi")]
    origin = (UCC / "ORIGIN").read_text(encoding="utf-8").strip()
    return f"{found} from {origin}; with torch in one process: {', '.join([loaded, *libraries])}"


def backend(_: str | None) -> str:
    """Our c10d backend over libucc loads into torch."""
    import torch  # noqa: F401  resolves the extension's symbols

    extensions = sorted((PACKAGE / "libucc").glob("*.so"))
    if not extensions:
        raise BrokenPromiseError(f"{PACKAGE}/libucc has no *.so; the backend was not compiled.")
    for extension in extensions:
        ctypes.CDLL(str(extension))
    mapped("libucp")
    return ", ".join(extension.name for extension in extensions)


def expect(what: str, found: str, version: str | None) -> None:
    """Refuses a version that is not the given one. Raises BrokenPromiseError."""
    if version is not None and found.removeprefix("v") != version:
        raise BrokenPromiseError(
            f"{what} is {found}, infra/versions.py says {version}; change one."
        )


def mapped(name: str) -> str:
    """Path of the one library of this name in this process."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").split()
    paths = {path for path in maps if Path(path).name.partition(".so")[0] == name}
    if len(paths) != 1:
        raise BrokenPromiseError(f"{name} must be in the process once; it has {sorted(paths)}.")
    return paths.pop()


def _output(*command: str) -> str:
    done = subprocess.run(
        command, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode != 0:
        raise BrokenPromiseError(f"{command[0]} ends with {done.returncode}: {done.stdout}")
    return done.stdout


CHECKS: dict[str, Callable[[str | None], str]] = {
    check.__name__: check for check in (files, user, openmpi, ucx, sshd, torch, ucc, backend)
}


def main(arguments: list[str]) -> int:
    """Runs the named checks, or says which there are."""
    wanted = [argument.partition("=") for argument in arguments]
    unknown = [name for name, _, _ in wanted if name not in CHECKS]
    if unknown or not wanted:
        print(f"verify: unknown checks {unknown}; name some of {', '.join(CHECKS)}.")
        return 2
    num_broken = 0
    for name, _, version in wanted:
        try:
            print(f"{name}: {CHECKS[name](version or None)}", flush=True)
        except (BrokenPromiseError, ImportError, OSError, RuntimeError) as error:
            num_broken += 1
            print(f"{name}: BROKEN: {error}", flush=True)
    return 1 if num_broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
