"""The launcher against real sockets and processes; only `mpirun` is a stand-in script."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import pytest

from workloads.training import launcher
from workloads.training.launcher import LauncherError, Settings, SettingsError, Statements

REPOSITORY = Path(__file__).parents[4]
HOSTS = ("127.0.0.1", "127.0.0.2")

MPIRUN = f"""#!{sys.executable}
import json, os, pathlib, signal, sys, time
carrier = sys.argv[sys.argv.index("--carrier") + 1]
home = pathlib.Path(os.environ["HOME"])
record = {{"argv": sys.argv[1:], "environment": dict(os.environ), "pid": os.getpid()}}
(home / f"mpirun-{{carrier}}.json").write_text(json.dumps(record))
exec(compile((home / "ranks.py").read_text(), "ranks.py", "exec"))
"""

# What the ranks of a carrier print when all is well.
GOOD = """
def say(**event): print(json.dumps({"time": 0.0, "carrier": carrier, **event}), flush=True)
def good():
    print("some text")
    for rank, pod in enumerate(("127", "127")):
        say(event="rank", rank=rank, pod=pod)
    for number in range(2):
        say(event="case", correct=True)
    say(event="summary", num_cases=2, num_wrong=0, num_skipped=0, passed=True)
"""


class Worker:
    """A listening socket that greets like sshd."""

    def __init__(self, address: str, port: int, greeting: bytes = b"SSH-2.0-test\r\n") -> None:
        self.socket = socket.create_server((address, port))
        self.port = int(self.socket.getsockname()[1])
        self.greeting = greeting
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                connection.sendall(self.greeting)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends it; its port then refuses."""
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()


@pytest.fixture
def port() -> Iterator[int]:
    """A port on which both hosts greet like sshd."""
    with Worker(HOSTS[0], 0) as first, Worker(HOSTS[1], first.port):
        yield first.port


@pytest.fixture
def environment(tmp_path: Path, port: int) -> dict[str, str]:
    """A launcher container's environment, with two workers that answer."""
    for folder in ("bin", "hosts", "key", "home"):
        (tmp_path / folder).mkdir()
    mpirun = tmp_path / "bin" / "mpirun"
    mpirun.write_text(MPIRUN, encoding="utf-8")
    mpirun.chmod(0o755)
    # Volcano writes no newline at the end.
    (tmp_path / "hosts" / "worker_nvidia.host").write_text(HOSTS[0], encoding="ascii")
    (tmp_path / "hosts" / "worker_amd.host").write_text(HOSTS[1], encoding="ascii")
    key = tmp_path / "key" / "id_rsa"
    key.write_text("secret", encoding="ascii")
    key.chmod(0o644)
    return {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "HOME": str(tmp_path / "home"),
        "PYTHONPATH": str(REPOSITORY),
        "CROSSVENDOR_CARRIERS": "libucc gloo",
        "CROSSVENDOR_TASKS": "worker-nvidia worker-amd",
        "CROSSVENDOR_WAIT_SECONDS": "5",
        "CROSSVENDOR_CARRIER_SECONDS": "20",
        "CROSSVENDOR_HOSTS_FOLDER": str(tmp_path / "hosts"),
        "CROSSVENDOR_SSH_KEY": str(key),
        "CROSSVENDOR_SSH_PORT": str(port),
        "CROSSVENDOR_MASTER_PORT": "29500",
        "CROSSVENDOR_EXPORT": "UCX_TLS UCC_CONFIG_FILE",
        "UCX_TLS": "tcp,self",
        "UCC_CONFIG_FILE": "",
    }


def ranks(environment: dict[str, str], code: str) -> None:
    """What the stand-in for mpirun does."""
    path = Path(environment["HOME"]) / "ranks.py"
    path.write_text(GOOD + code, encoding="utf-8")


def start(environment: dict[str, str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "workloads.training.launcher", "program", "--flag"],
        env=environment,
        cwd=environment["HOME"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def events(output: str) -> list[dict[str, Any]]:
    lines = [line for line in output.splitlines() if line.startswith("{")]
    return [json.loads(line) for line in lines]


def run(environment: dict[str, str]) -> tuple[int, list[dict[str, Any]], str]:
    """The launcher's exit status, its events and its output."""
    process = start(environment)
    output, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors
    return process.returncode, events(output), output


def failures(statements: list[dict[str, Any]]) -> list[str]:
    return [event["message"] for event in statements if event["event"] == "failure"]


def mpirun_record(environment: dict[str, str], carrier: str) -> dict[str, Any]:
    path = Path(environment["HOME"]) / f"mpirun-{carrier}.json"
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_when_every_carrier_says_that_it_passed_the_verdict_is_pass(
    environment: dict[str, str],
) -> None:
    ranks(environment, "good()")
    status, statements, output = run(environment)
    assert status == 0
    last = statements[-1]
    assert (last["event"], last["passed"]) == ("verdict", True)
    assert last["carriers"] == {"libucc": True, "gloo": True}
    assert output.count("some text\n") == 2
    assert failures(statements) == []


def test_the_phases_are_told_in_order_and_each_with_its_time(environment: dict[str, str]) -> None:
    ranks(environment, "good()")
    before = time.time()
    _, statements, _ = run(environment)
    phases = [event for event in statements if event["event"] == "phase"]
    assert [(phase["phase"], phase["carrier"]) for phase in phases] == [
        ("waiting-for-workers", None),
        ("workers-ready", None),
        ("carrier-started", "libucc"),
        ("carrier-finished", "libucc"),
        ("carrier-started", "gloo"),
        ("carrier-finished", "gloo"),
        ("done", None),
    ]
    times = [phase["time"] for phase in phases]
    assert times == sorted(times)
    assert before <= times[0] <= times[-1] <= time.time()


def test_one_carriers_failure_does_not_hide_the_other(environment: dict[str, str]) -> None:
    ranks(environment, "sys.exit(9) if carrier == 'libucc' else good()")
    status, statements, _ = run(environment)
    assert status == 1
    assert statements[-1]["carriers"] == {"libucc": False, "gloo": True}
    assert statements[-1]["message"].startswith("libucc: mpirun exited with status 9")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("", "the ranks printed 0 summaries, not one"),
        ("good(); good()", "the ranks printed 2 summaries, not one"),
        (
            "say(event='summary', num_cases=0, num_wrong=0, passed=True)",
            "the summary counts 0 cases, so nothing was checked",
        ),
        ("say(event='case', correct=True); good()", "counts 2 cases, but 3 were printed"),
        (
            "say(event='case', correct=False)\n"
            "say(event='summary', num_cases=1, num_wrong=0, passed=True)",
            "1 of 1 cases are wrong",
        ),
        (
            "say(event='case', correct=True)\n"
            "say(event='summary', num_cases=1, num_wrong=0, passed=False)",
            "the summary says that the carrier did not pass",
        ),
        ("good(); sys.exit(1)", "mpirun exited with status 1"),
        ("good(); os.kill(os.getpid(), signal.SIGKILL)", "mpirun exited with status -9"),
        ("say(event='failure', stage='init', message='No UCC.'); good()", "No UCC."),
        ("carrier = 'other'; good()", "the ranks printed 0 summaries, not one"),
        (
            "say(event='case', correct=True)\n"
            "say(event='summary', num_cases=1, num_wrong=0, passed=True)",
            "ranks ran in no pod, not once in each of 127, 127",
        ),
    ],
)
def test_a_carrier_passes_only_if_everything_that_it_said_agrees(
    environment: dict[str, str], code: str, reason: str
) -> None:
    environment["CROSSVENDOR_CARRIERS"] = "libucc"
    ranks(environment, code)
    status, statements, _ = run(environment)
    assert status == 1
    assert statements[-1]["passed"] is False
    assert reason in statements[-1]["message"]
    assert any(reason in message for message in failures(statements))


def test_a_failure_that_the_ranks_told_is_not_told_twice(environment: dict[str, str]) -> None:
    environment["CROSSVENDOR_CARRIERS"] = "libucc"
    ranks(environment, "say(event='failure', stage='init', message='No UCC.')")
    _, statements, _ = run(environment)
    assert failures(statements) == ["No UCC."]


def test_a_carrier_that_hangs_is_ended_and_the_next_one_runs(environment: dict[str, str]) -> None:
    environment["CROSSVENDOR_CARRIER_SECONDS"] = "1"
    # mpirun must be asked, or it leaves the ranks on the workers to themselves.
    asked = "signal.signal(signal.SIGTERM, lambda *_: sys.exit((home / 'asked').write_text('')))"
    ranks(environment, f"{asked}\ntime.sleep(100) if carrier == 'libucc' else good()")
    status, statements, _ = run(environment)
    assert status == 1
    assert statements[-1]["carriers"] == {"libucc": False, "gloo": True}
    assert "mpirun did not end within 1 s" in statements[-1]["message"]
    assert (Path(environment["HOME"]) / "asked").exists()
    assert not is_running(mpirun_record(environment, "libucc")["pid"])


def test_output_that_stays_open_after_mpirun_ended_does_not_hold_the_launcher(
    environment: dict[str, str],
) -> None:
    environment["CROSSVENDOR_CARRIERS"] = "libucc"
    child = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(30)'])"
    ranks(environment, f"import subprocess\n{child}\ngood()")
    start_time = time.monotonic()
    status, _, _ = run(environment)
    assert status == 0
    assert time.monotonic() - start_time < 15


def test_sigterm_ends_mpirun_and_still_gives_a_verdict(environment: dict[str, str]) -> None:
    ranks(environment, "good() if carrier == 'libucc' else time.sleep(100)")
    process = start(environment)
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if '"carrier-started"' in line and '"gloo"' in line:
            break
    record = Path(environment["HOME"]) / "mpirun-gloo.json"
    while not record.exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=30)
    last = events(rest)[-1]
    assert process.returncode == 128 + signal.SIGTERM
    assert last["carriers"] == {"libucc": True, "gloo": False}
    assert "was told to stop" in last["message"]
    assert not is_running(mpirun_record(environment, "gloo")["pid"])


def test_mpirun_gets_the_hosts_in_rank_order_and_the_exports(environment: dict[str, str]) -> None:
    ranks(environment, "good()")
    run(environment)
    record = mpirun_record(environment, "gloo")
    argv = record["argv"]
    hostfile = Path(argv[argv.index("--hostfile") + 1])
    assert hostfile.read_text(encoding="ascii") == "127.0.0.1 slots=1\n127.0.0.2 slots=1\n"
    assert argv[argv.index("-np") + 1] == "2"
    assert argv[-4:] == ["program", "--flag", "--carrier", "gloo"]
    exported = [argv[i + 1] for i, argument in enumerate(argv) if argument == "-x"]
    assert exported == ["MASTER_ADDR", "MASTER_PORT", "UCX_TLS", "UCC_CONFIG_FILE"]
    assert record["environment"]["UCC_CONFIG_FILE"] == ""
    assert record["environment"]["MASTER_ADDR"] == HOSTS[0]


def test_each_carrier_meets_on_a_port_of_its_own(environment: dict[str, str]) -> None:
    ranks(environment, "good()")
    run(environment)
    ports = [
        mpirun_record(environment, carrier)["environment"]["MASTER_PORT"]
        for carrier in ("libucc", "gloo")
    ]
    assert ports == ["29500", "29501"]


def test_ssh_gets_a_private_copy_of_the_key_and_the_workers_port(
    environment: dict[str, str], port: int
) -> None:
    ranks(environment, "good()")
    run(environment)
    folder = Path(environment["HOME"]) / "launcher"
    assert (folder / "id_rsa").read_text(encoding="ascii") == "secret"
    assert (folder / "id_rsa").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    config = (folder / "ssh_config").read_text(encoding="ascii").split("\n")
    assert f"  Port {port}" in config
    assert "  StrictHostKeyChecking no" in config
    argv = mpirun_record(environment, "gloo")["argv"]
    assert f"-F {folder / 'ssh_config'}" in argv


def test_a_worker_that_never_answers_is_named_with_the_reason(
    environment: dict[str, str], tmp_path: Path
) -> None:
    environment["CROSSVENDOR_WAIT_SECONDS"] = "1"
    (tmp_path / "hosts" / "worker_amd.host").write_text("127.0.0.3\nno-such.invalid")
    status, statements, _ = run(environment)
    assert status == 1
    [failure] = [event for event in statements if event["event"] == "failure"]
    assert failure["stage"] == "workers"
    assert "127.0.0.3 (Connection refused)" in failure["message"]
    assert "no-such.invalid (its name does not resolve)" in failure["message"]
    assert HOSTS[0] not in failure["message"]
    assert statements[-1]["carriers"] == {"libucc": False, "gloo": False}


def test_a_worker_that_answers_late_is_waited_for() -> None:
    with socket.create_server((HOSTS[0], 0)) as reserved:
        port = int(reserved.getsockname()[1])
    with ExitStack() as stack:
        timer = threading.Timer(0.6, lambda: stack.enter_context(Worker(HOSTS[0], port)))
        timer.start()
        stack.callback(timer.join)
        begin = time.monotonic()
        launcher.wait_for([HOSTS[0]], port, 10)
        assert time.monotonic() - begin >= 0.5


def test_something_else_on_the_port_is_no_worker() -> None:
    with Worker(HOSTS[0], 0, greeting=b"HTTP/1.1") as worker:
        assert launcher.probe(HOSTS[0], worker.port) == "answers b'HTTP'"


def test_a_worker_that_is_gone_when_a_carrier_failed_is_named(
    environment: dict[str, str], tmp_path: Path
) -> None:
    environment["CROSSVENDOR_CARRIERS"] = "libucc"
    (tmp_path / "hosts" / "worker_amd.host").write_text("127.0.0.2\n127.0.0.3")
    # Ends, as PRRTE 3.0 does when it lost a worker, with status 0; here after the worker is gone.
    ranks(environment, "time.sleep(1.5)")
    with Worker("127.0.0.3", int(environment["CROSSVENDOR_SSH_PORT"])):
        process = start(environment)
        assert process.stdout is not None
        for line in process.stdout:
            if '"carrier-started"' in line:
                break
    output, _ = process.communicate(timeout=30)
    message = events(output)[-1]["message"]
    assert "No longer answering: 127.0.0.3 (Connection refused)." in message
    assert process.returncode == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read"),
        ("", "names no pod"),
        ("127.0.0.1", "is there twice"),
        ("-oProxyCommand=x", "is no host name"),
    ],
)
def test_host_files_that_are_not_what_volcano_writes_are_refused(
    tmp_path: Path, content: str | None, reason: str
) -> None:
    (tmp_path / "worker_nvidia.host").write_text("127.0.0.1", encoding="ascii")
    if content is not None:
        (tmp_path / "worker_amd.host").write_text(content, encoding="ascii")
    with pytest.raises(LauncherError, match=reason):
        launcher.read_hosts(tmp_path, ("worker-nvidia", "worker-amd"))


def test_hosts_are_in_the_order_of_the_tasks(tmp_path: Path) -> None:
    (tmp_path / "worker_amd.host").write_text("a-0.j\na-1.j", encoding="ascii")
    (tmp_path / "worker_nvidia.host").write_text("n-0.j", encoding="ascii")
    assert launcher.read_hosts(tmp_path, ("worker-nvidia", "worker-amd")) == [
        "n-0.j",
        "a-0.j",
        "a-1.j",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "CROSSVENDOR_CARRIERS",
        "CROSSVENDOR_TASKS",
        "CROSSVENDOR_EXPORT",
        "CROSSVENDOR_HOSTS_FOLDER",
        "CROSSVENDOR_SSH_KEY",
        "CROSSVENDOR_WAIT_SECONDS",
        "HOME",
    ],
)
def test_a_missing_setting_is_named(environment: dict[str, str], name: str) -> None:
    del environment[name]
    with pytest.raises(SettingsError, match=f"{name} is not set"):
        Settings.read(environment, ["program"])


@pytest.mark.parametrize("value", ["0", "-1", "soon", "1e3"])
def test_a_number_must_be_one(environment: dict[str, str], value: str) -> None:
    environment["CROSSVENDOR_WAIT_SECONDS"] = value
    with pytest.raises(SettingsError, match=f"CROSSVENDOR_WAIT_SECONDS is '{value}'"):
        Settings.read(environment, ["program"])


def test_a_variable_that_cannot_be_exported_is_refused(environment: dict[str, str]) -> None:
    del environment["UCX_TLS"]
    with pytest.raises(SettingsError, match="names UCX_TLS, which the container does not set"):
        Settings.read(environment, ["program"])


def test_a_launcher_without_a_program_says_so_and_exits_with_2(
    environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert launcher.main([], environment) == 2
    last = events(capsys.readouterr().out)[-1]
    assert (last["event"], last["passed"]) == ("verdict", False)
    assert "was given no program" in last["message"]


def test_text_and_broken_lines_are_not_statements() -> None:
    statements = Statements(carrier="mpi")
    for line in (b"text\n", b'{"event": "case", \n', b"{}\n", b"[1]\n", b'{"carrier": "mpi"}\n'):
        statements.add(line)
    assert statements == Statements(carrier="mpi")
