"""Where the base comes from: the registry if it answers, else packages of this machine's mirror."""

import socket
import stat
from pathlib import Path

import pytest

from images import base
from images.buildah import Buildah
from images.sources import BuildError
from infra import versions


def a_tool(folder: Path, name: str, script: str) -> None:
    """A command of this name, first on the PATH of the test."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


def mirrors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> list[str]:
    said = "\n".join(lines)
    a_tool(tmp_path / "bin", "apt-get", f"cat <<'EOF'\n{said}\nEOF")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return base.mirror()


def test_a_debian_machines_own_mirror_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = versions.DEBIAN_RELEASE
    assert mirrors(
        tmp_path,
        monkeypatch,
        "Other|Other|http://other.example/",
        "Debian|Debian|http://mirror.example/debian/",
        "Debian|Debian-Security|http://mirror.example/security/",
    ) == [
        f"deb http://mirror.example/debian/ {release} main",
        f"deb http://mirror.example/debian/ {release}-updates main",
        f"deb http://mirror.example/security/ {release}-security main",
    ]


def test_another_distributions_mirror_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert mirrors(tmp_path, monkeypatch, "Ubuntu|Ubuntu|http://mirror.example/ubuntu/") == []


def test_a_mirror_that_needs_certificates_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (
        mirrors(
            tmp_path,
            monkeypatch,
            "Debian|Debian|https://mirror.example/debian/",
            "Debian|Debian-Security|https://mirror.example/security/",
        )
        == []
    )


def test_a_registry_that_refuses_connections_is_given_up_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setattr(base, "_REGISTRY", f"http://127.0.0.1:{taken.getsockname()[1]}/v2/")
        assert not base.is_registry_reachable()


def test_a_registry_that_never_answers_is_given_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(base, "_REGISTRY", f"http://127.0.0.1:{silent.getsockname()[1]}/v2/")
        monkeypatch.setattr(base, "_REGISTRY_SECONDS", 0.2)
        assert not base.is_registry_reachable()


def test_what_makes_the_base_is_named_when_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "is_registry_reachable", lambda: False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match=r"and mmdebstrap, .* install it with apt-get install mmd"):
        base.make(Buildah(tmp_path), "tag", log=tmp_path / "log")
