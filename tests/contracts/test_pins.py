"""Every version is exact, and written once or compared here."""

import re
from pathlib import Path

import pytest

from infra import versions
from tests.builders import CHECKOUT

GO_MODULES = sorted(CHECKOUT.glob("infra/local/toolchain/*/go.mod"))
# Go module -> the version that infra/versions.py says.
EXPECTED = {
    "k8s.io/kubernetes": versions.KUBERNETES,
    "go.etcd.io/etcd/server/v3": versions.ETCD,
    "github.com/coredns/coredns": versions.COREDNS,
    "helm.sh/helm/v3": versions.HELM,
    "sigs.k8s.io/kwok": versions.KWOK,
    "volcano.sh/volcano": versions.VOLCANO_LOCAL,
}


def built() -> dict[str, set[str]]:
    """Module -> versions of what the toolchain builds: its tools, and what its own code imports."""
    found: dict[str, set[str]] = {}
    for file in GO_MODULES:
        text = file.read_text(encoding="utf-8")
        tools = re.findall(r"^(?:tool |\t)([a-z0-9.]+/[^\s]+)$", text, re.MULTILINE)
        requirement = re.compile(r"^(?:require |\t)(\S+) v(\d\S*)( // indirect)?$", re.MULTILINE)
        for module, version, indirect in requirement.findall(text):
            is_tool = any(tool == module or tool.startswith(f"{module}/") for tool in tools)
            if is_tool or not indirect:
                found.setdefault(module, set()).add(version)
    return found


@pytest.mark.parametrize("module", EXPECTED)
def test_the_toolchain_builds_the_version_of_the_table(module: str) -> None:
    assert built()[module] == {EXPECTED[module]}


@pytest.mark.parametrize("file", GO_MODULES, ids=lambda file: file.parent.name)
def test_the_toolchain_asks_for_the_go_of_the_table(file: Path) -> None:
    match = re.search(r"^go (\d+\.\d+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    assert match is not None
    needed, ours = (tuple(map(int, text.split("."))) for text in (match[1], versions.GO))
    assert needed <= ours


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt", "constraints.txt"])
def test_a_python_requirement_is_exact(name: str) -> None:
    for line in (CHECKOUT / name).read_text(encoding="utf-8").splitlines():
        text = line.partition("#")[0].strip()
        if text and not text.startswith(("-r ", "-c ")):
            assert re.fullmatch(r"[A-Za-z0-9_.\[\]-]+==[^=*]+", text), f"{name}: {line}"


def test_nothing_is_of_the_latest_version() -> None:
    for pattern in ("images/**/Dockerfile*", "workloads/manifests/*.yaml", "**/*.hcl"):
        for file in CHECKOUT.glob(pattern):
            assert ":latest" not in file.read_text(encoding="utf-8"), file
