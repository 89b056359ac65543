"""kubectl as a client: sentences for failures, streams that come back."""

import queue
import stat
import time
from pathlib import Path

import pytest

from workloads.kubectl import Ended, Kubectl, KubectlError, Line, NoKubectlError, Stream, said


def a_program(folder: Path, text: str) -> Kubectl:
    """A shell script in kubectl's place."""
    program = folder / "kubectl"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return Kubectl(program=str(program), kubeconfig=Path("the.kubeconfig"))


def test_the_kubeconfig_is_passed_on_only_where_one_was_chosen() -> None:
    assert Kubectl().command("get") == ["kubectl", "get"]
    assert Kubectl(kubeconfig=Path("k")).command("get") == ["kubectl", "--kubeconfig=k", "get"]


def test_a_manifest_goes_in_and_the_object_comes_out(tmp_path: Path) -> None:
    assert a_program(tmp_path, "cat").create({"kind": "Job"}) == {"kind": "Job"}


def test_what_kubectl_complains_about_becomes_the_error(tmp_path: Path) -> None:
    kubectl = a_program(tmp_path, "echo 'error: no such\n thing.' >&2; exit 1")
    with pytest.raises(KubectlError, match=r"^no such thing$"):
        kubectl.get("pods")


def test_a_missing_program_is_a_sentence_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(NoKubectlError, match=r"nope cannot be started: .*; give its path as --k"):
        Kubectl(program=str(tmp_path / "nope")).run("version")


def test_retries_in_kubectls_log_are_left_out_of_its_complaint() -> None:
    noise = 'E1121 14:22:01.123456   42 memcache.go:265] "Unhandled Error" err="refused"\n'
    assert said(f"{noise}{noise}The connection was refused?\n") == "The connection was refused"
    assert said(noise).endswith('err="refused"')
    assert said("") == ""


def test_a_stream_gives_its_lines_its_end_and_begins_again(tmp_path: Path) -> None:
    sink: queue.Queue[Line | Ended] = queue.Queue()
    kubectl = a_program(tmp_path, "echo one; printf tw; echo bad >&2; exit 3")
    stream = Stream(kubectl=kubectl, source="s", arguments=("x",), sink=sink)
    stream.start()
    once = [
        Line(source="s", text="one\n"),
        Line(source="s", text="tw"),
        Ended(source="s", exit_status=3, complaint="bad"),
    ]
    assert [sink.get(timeout=30) for _ in range(6)] == [*once, *once]
    stream.stop()


def test_a_stream_that_is_stopped_leaves_no_process(tmp_path: Path) -> None:
    sink: queue.Queue[Line | Ended] = queue.Queue()
    kubectl = a_program(tmp_path, "echo $$; exec sleep 60")
    stream = Stream(kubectl=kubectl, source="s", arguments=(), sink=sink)
    stream.start()
    first = sink.get(timeout=30)
    assert isinstance(first, Line)
    begun = time.monotonic()
    stream.stop()
    assert time.monotonic() - begun < 5
    assert not Path(f"/proc/{first.text.strip()}").exists()


def test_a_stream_of_a_missing_program_says_so() -> None:
    sink: queue.Queue[Line | Ended] = queue.Queue()
    stream = Stream(
        kubectl=Kubectl(program="/nope"), source="s", arguments=(), sink=sink, is_repeated=False
    )
    stream.start()
    ended = sink.get(timeout=30)
    stream.stop()
    assert isinstance(ended, Ended)
    assert ended.exit_status == 127
