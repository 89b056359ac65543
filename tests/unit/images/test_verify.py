"""The check inside the images says what is wrong, and does not pass what it does not know."""

import ctypes

import pytest

from images.scripts import verify


def broken(_: str | None) -> str:
    raise verify.BrokenPromiseError("this is wrong; mend it.")


def test_no_check_at_all_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert verify.main([]) == 2
    assert "name some of files, user, openmpi" in capsys.readouterr().out


def test_an_unknown_check_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert verify.main(["files2=1"]) == 2
    assert "['files2']" in capsys.readouterr().out


def test_one_broken_promise_fails_all_and_hides_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verify, "CHECKS", {"a": broken, "b": lambda version: f"is {version}"})
    assert verify.main(["a", "b=2"]) == 1
    assert capsys.readouterr().out == "a: BROKEN: this is wrong; mend it.\nb: is 2\n"


def test_checks_that_hold_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "CHECKS", {"b": lambda version: f"is {version}"})
    assert verify.main(["b", "b=1"]) == 0


def test_a_version_that_is_not_the_tables_is_broken() -> None:
    with pytest.raises(
        verify.BrokenPromiseError, match=r"UCX is 1\.22\.0, infra/versions\.py says"
    ):
        verify.expect("UCX", "1.22.0", "1.18.1")
    verify.expect("Open MPI", "v5.0.7", "5.0.7")
    verify.expect("UCC", "1.8.0", None)


def test_a_library_that_is_loaded_is_found_once() -> None:
    ctypes.CDLL("libm.so.6")
    assert verify.mapped("libm").endswith("/libm.so.6")


def test_a_library_that_is_not_loaded_is_a_broken_promise() -> None:
    with pytest.raises(verify.BrokenPromiseError, match="libnothing must be in the process once"):
        verify.mapped("libnothing")
