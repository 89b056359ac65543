"""The Debian base that images start from: pulled by digest, or made here where it cannot be.

Made by mmdebstrap from the same packages as the published image, with the security updates.
"""

import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

from images.buildah import ISOLATED, Buildah, run
from images.catalog import BASE_REFERENCE
from images.sources import REPOSITORY, BuildError
from infra import versions

_REGISTRY: Final = "https://registry-1.docker.io/v2/"
_REGISTRY_SECONDS: Final = 4
_PULL_SECONDS: Final = 120
_KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
"""Ubuntu has it in a package of its own; mmdebstrap finds it there by itself."""

_DOCKERFILE: Final = """\
FROM scratch
ADD base.tar /
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
CMD ["bash"]
"""


def make(buildah: Buildah, tag: str, *, log: Path) -> str:
    """Puts the base into the storage; says where it came from. Raises BuildError."""
    if is_registry_reachable():
        try:
            _pull(buildah, tag, log=log)
        except (BuildError, subprocess.TimeoutExpired) as error:
            with log.open("a", encoding="utf-8") as file:
                file.write(f"pulling failed: {error}\n")
        else:
            return "pulled"
    _bootstrap(buildah, tag, log=log)
    return "made from packages"


def is_registry_reachable() -> bool:
    """Asked first, because buildah would try again and again for minutes."""
    try:
        with urllib.request.urlopen(_REGISTRY, timeout=_REGISTRY_SECONDS):
            return True
    except urllib.error.HTTPError as error:
        # It asks for a token: it is there. A proxy's refusal is not.
        return error.code == 401
    except OSError:
        return False


def _pull(buildah: Buildah, tag: str, *, log: Path) -> None:
    output = buildah.run(
        ["pull", "--quiet", BASE_REFERENCE], log=log, timeout_seconds=_PULL_SECONDS
    )
    buildah.run(["tag", output.split()[-1], tag], log=log)


def _bootstrap(buildah: Buildah, tag: str, *, log: Path) -> None:
    for package, is_there in (
        ("mmdebstrap", shutil.which("mmdebstrap") is not None),
        (_KEYRING.stem, _KEYRING.exists()),
    ):
        if not is_there:
            msg = (
                f"the base image cannot be pulled, and {package}, which making it needs, "
                f"is missing; install it with apt-get install {package}."
            )
            raise BuildError(msg)
    context = buildah.folder / "tmp" / "base"
    context.mkdir(parents=True)
    command = ["mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--format=tar"]
    options = [f"--dpkgopt={REPOSITORY / 'images/scripts/dpkg.cfg'}", "--skip=output/dev"]
    run(
        [*ISOLATED, *command, *options, versions.DEBIAN_RELEASE, f"{context}/base.tar", *mirror()],
        log=log,
    )
    dockerfile = context / "Dockerfile"
    dockerfile.write_text(_DOCKERFILE, encoding="ascii")
    buildah.build(tag, dockerfile, contexts={}, arguments={}, target=None, log=log)
    shutil.rmtree(context)


def mirror() -> list[str]:
    """This machine's own mirrors as sources of the release; empty for mmdebstrap's default."""
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)"],
        check=False,
        capture_output=True,
        text=True,
    ).stdout
    found: dict[str, str] = {}
    for line in listed.splitlines():
        origin, label, uri = line.split("|", 2)
        # The base has no certificates, so https would fail in every later step.
        if origin == "Debian" and uri.startswith("http://"):
            found.setdefault(label, uri)
    if not {"Debian", "Debian-Security"} <= found.keys():
        return []
    release = versions.DEBIAN_RELEASE
    return [
        f"deb {found['Debian']} {release} main",
        f"deb {found['Debian']} {release}-updates main",
        f"deb {found['Debian-Security']} {release}-security main",
    ]
