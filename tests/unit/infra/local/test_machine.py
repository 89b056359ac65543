"""What the local environment demands of a machine, and how it says so."""

import os
import shutil
from pathlib import Path

import pytest

from infra.local import machine
from infra.local.machine import LocalError, Package


def test_a_package_is_present_when_any_of_its_equals_is(tmp_path: Path) -> None:
    there = tmp_path / "bridge"
    there.touch()
    assert Package(name="x", provides=(str(tmp_path / "no"), str(there))).is_present()
    assert not Package(name="x", provides=(str(tmp_path / "no"),)).is_present()


def test_a_command_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=r"no-such-command is not on this machine; install it"):
        machine.run(["no-such-command"])


def test_a_command_that_fails_is_told_with_its_last_words() -> None:
    with pytest.raises(LocalError, match=r"failed with exit status 3: two / three"):
        machine.run(["sh", "-c", "echo one; echo two >&2; echo three >&2; exit 3"])


def test_a_full_disk_is_told_as_one() -> None:
    with pytest.raises(LocalError, match=r"the disk is full .*; free some space"):
        machine.run(["sh", "-c", "echo x: No space left on device >&2; exit 1"])


def test_a_command_that_hangs_is_ended() -> None:
    with pytest.raises(LocalError, match=r"did not end within 0 s"):
        machine.run(["sleep", "30"], timeout=0.2)


def test_too_little_space_is_refused_with_both_figures(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    with pytest.raises(LocalError, match=r"GiB free and .* GiB are needed; free some"):
        machine.require_space(tmp_path / "not" / "there" / "yet", free + 2**30)
    machine.require_space(tmp_path, 1)


def test_a_package_that_cannot_be_installed_is_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "apt-get"
    tool.write_text("#!/bin/sh\necho 'E: Unable to locate package' >&2\nexit 100\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(
        LocalError, match=r"missing nothere, .*Unable to locate.*install nothere by hand"
    ):
        machine.install(["nothere"])


def test_a_machine_without_apt_get_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalError, match=r"missing a b, and this machine has no apt-get"):
        machine.install(["a", "b"])
