"""Images: what is built, from what, under which name. Pure data; images/build.py does the work.

To add one, add an entry to IMAGES and a folder with its Dockerfile. A vendor's worker is named as
`Accelerator.task` in infra/accelerators.py says.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from infra import versions
from infra.accelerators import Stack, Vendor
from infra.names import PROJECT

VERSION: Final = "0.1.0"
"""Tag of our own images: the project's version."""

BASE: Final = "base"
"""Parent of images that start from Debian; images/base.py makes it."""
BASE_REFERENCE: Final = (
    f"docker.io/library/debian:{versions.DEBIAN_RELEASE}-slim@{versions.DEBIAN_IMAGE_DIGEST}"
)


@dataclass(frozen=True, kw_only=True)
class Context:
    """A folder whose files a Dockerfile copies by name; BuildKit calls it a named build context."""

    name: str
    path: str | None = None
    """Inside the repository; None where the caller or the build provides the folder."""
    holds: str
    """What has to be in it, for the sentence that says it is missing."""
    files: tuple[str, ...] = ()
    """The only files that are taken; empty for all."""


@dataclass(frozen=True, kw_only=True)
class Image:
    """One image."""

    name: str
    reference: str
    """Full name under which pods ask for it."""
    folder: str
    """The Dockerfile's, inside the repository."""
    parent: str | None
    """Another entry's name, or BASE; None where nothing is inherited."""
    contexts: tuple[Context, ...] = ()
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Build arguments besides PARENT."""
    target: str | None = None
    """The Dockerfile's stage, where it has several that are images."""
    vendor: Vendor | None = None
    """Whose hardware it needs; None where it runs anywhere."""
    stack: Stack | None = None
    """Which software its torch is built for; None without torch."""
    is_published: bool = True
    """Whether pods run it; False for what only other images start from."""


UCC_ORIGIN: Final = Context(name="ucc-origin", holds="the UCC wheel or source tree")
"""The wheel by default; `--ucc-source` makes it a source tree."""


def _scripts(*files: str) -> Context:
    return Context(name="scripts", path="images/scripts", holds="build scripts", files=files)


def _training() -> Context:
    return Context(name="training", path="workloads/training", holds="the training package")


def _toolchain(*files: str) -> Context:
    return Context(name="toolchain", holds="the local toolchain's binaries", files=files)


def _ours(name: str) -> str:
    return f"localhost/{PROJECT}/{name}:{VERSION}"


def _volcano(component: str) -> str:
    return f"docker.io/volcanosh/vc-{component}:v{versions.VOLCANO_LOCAL}"


IMAGES: Final[Mapping[str, Image]] = MappingProxyType(
    {
        image.name: image
        for image in (
            Image(
                name="openmpi",
                reference=_ours("openmpi"),
                folder="images/openmpi",
                parent=BASE,
                contexts=(_scripts("apt-install", "dpkg.cfg"),),
                is_published=False,
            ),
            Image(
                name="launcher",
                reference=_ours("launcher"),
                folder="images/launcher",
                parent="openmpi",
                contexts=(_scripts("verify.py"), _training()),
                arguments={"OPENMPI": versions.DEBIAN_OPENMPI, "UCX": versions.DEBIAN_UCX},
            ),
            Image(
                name="worker-cpu",
                reference=_ours("worker-cpu"),
                folder="images/worker-cpu",
                parent="openmpi",
                contexts=(
                    _scripts("build_ucc.sh", "install_ucc.sh", "start-sshd", "verify.py"),
                    _training(),
                    UCC_ORIGIN,
                ),
                arguments={
                    "OPENMPI": versions.DEBIAN_OPENMPI,
                    "TORCH": versions.DEBIAN_TORCH,
                    "UCX": versions.DEBIAN_UCX,
                },
                stack=Stack.CPU,
            ),
            # Vendors' workers follow here, one entry each.
            Image(
                name="volcano-scheduler",
                reference=_volcano("scheduler"),
                folder="images/volcano",
                parent=None,
                contexts=(_toolchain("scheduler"),),
                arguments={"COMPONENT": "scheduler"},
                target="program",
            ),
            Image(
                name="volcano-controller-manager",
                reference=_volcano("controller-manager"),
                folder="images/volcano",
                parent=None,
                contexts=(_toolchain("controller-manager"),),
                arguments={"COMPONENT": "controller-manager"},
                target="program",
            ),
            Image(
                name="volcano-webhook-manager",
                reference=_volcano("webhook-manager"),
                folder="images/volcano",
                parent=BASE,
                contexts=(
                    _scripts("apt-install"),
                    _toolchain("webhook-manager", "kubectl"),
                    Context(
                        name="volcano",
                        holds="Volcano's Go module",
                        files=("installer/dockerfile/webhook-manager/gen-admission-secret.sh",),
                    ),
                ),
                arguments={"COMPONENT": "webhook-manager"},
                target="webhook",
            ),
            Image(
                name="pause",
                reference=_ours("pause"),
                folder="images/pause",
                parent=BASE,
                contexts=(_scripts("apt-install"),),
            ),
        )
    }
)


def references() -> dict[str, str]:
    """Name -> reference of every image that pods run."""
    return {image.name: image.reference for image in IMAGES.values() if image.is_published}


def with_parents(names: Iterable[str]) -> tuple[Image, ...]:
    """The named images and all that they start from, parents first; BASE is not one of them."""
    ordered: dict[str, Image] = {}

    def add(name: str) -> None:
        image = IMAGES[name]
        if image.parent is not None and image.parent != BASE:
            add(image.parent)
        ordered[name] = image

    for name in names:
        add(name)
    return tuple(ordered.values())
