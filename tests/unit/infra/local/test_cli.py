"""The command line of the local environment: what it refuses before it touches anything."""

from pathlib import Path

import pytest

from infra.local import cli
from infra.local.layout import Layout
from infra.local.machine import LocalError


def test_a_size_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("nvidia", "nvidia=", "nvidia=two", "=2", "nvidia=-1"):
        with pytest.raises(SystemExit) as ended:
            cli.main(["--size", text, "up"])
        assert ended.value.code == 2
        assert "is not POOL=N with N nodes, for example nvidia=2" in capsys.readouterr().err


def test_a_pool_that_the_stack_does_not_have_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--size", "nividia=2", "status"]) == 2
    [sentence] = capsys.readouterr().err.splitlines()
    assert "nividia" in sentence
    assert "nvidia" in sentence.replace("nividia", "")


def test_a_stack_that_is_not_local_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "Pulumi.other.yaml"
    file.write_text(
        "config:\n  crossvendor:environment: existing\n"
        "  crossvendor:node_pools:\n    system: {instance_type: m6i.large}\n"
    )
    assert cli.main(["--stack", str(file), "status"]) == 2
    [sentence] = capsys.readouterr().err.splitlines()
    assert "is not local but existing; use a stack whose environment is local." in sentence


def test_a_full_disk_anywhere_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "/some/file")

    monkeypatch.setattr(cli, "_stack_file", full)
    assert cli.main(["status"]) == 2
    [sentence] = capsys.readouterr().err.splitlines()
    assert sentence == "crossvendor: /some/file: No space left on device."


def test_logs_and_shell_of_an_environment_that_is_not_up_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CROSSVENDOR_CACHE", str(tmp_path))
    for word in ("logs", "shell"):
        assert cli.main([word]) == 2
        assert "the environment is not up" in capsys.readouterr().err


def test_the_cache_folder_is_the_chosen_one_else_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSVENDOR_CACHE", str(tmp_path / "chosen"))
    assert cli.cache_folder() == tmp_path / "chosen"
    monkeypatch.delenv("CROSSVENDOR_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cli.cache_folder() == tmp_path / "crossvendor"


def test_what_a_person_can_mend_is_told_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        msg = "something; do that."
        raise LocalError(msg)

    monkeypatch.setattr(Layout, "of", fail)
    assert cli.main(["status"]) == 2
    assert capsys.readouterr().err == "crossvendor: something; do that.\n"
