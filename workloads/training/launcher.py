"""The launcher pod's program: waits for the workers, runs `mpirun` per carrier, gives the verdict.

Started as `python3 -m training.launcher PROGRAM ARGUMENT...`; every rank runs PROGRAM with
`--carrier NAME` added. Everything else comes from the environment, read in Settings alone; who sets
it is workloads/jobs.py. Needs the standard library only.
"""

import contextlib
import json
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn, Self

POLL_SECONDS: Final = 0.25
CONNECT_SECONDS: Final = 3.0
END_SECONDS: Final = 10.0
"""How long mpirun may take to end the ranks when it is told to; PRRTE needs about half a second."""
DRAIN_SECONDS: Final = 2.0
"""How long output may still arrive after mpirun has ended."""
MAX_PROBES: Final = 32

EXIT_FAILED: Final = 1
EXIT_SETTINGS: Final = 2
EXIT_STOPPED: Final = 128 + signal.SIGTERM

_HOST = re.compile(r"[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?")


class LauncherError(Exception):
    """Something that ends the job: one sentence, and the stage of the result protocol."""

    def __init__(self, stage: str, sentence: str) -> None:
        super().__init__(sentence)
        self.stage = stage


class SettingsError(LauncherError):
    """An environment that jobs.py did not write."""

    def __init__(self, sentence: str) -> None:
        super().__init__("settings", sentence)


class StoppedError(LauncherError):
    """The pod is being ended from outside."""

    def __init__(self) -> None:
        super().__init__("mpirun", "the launcher was told to stop; see the job's events for why.")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the job's manifest decided."""

    program: tuple[str, ...]
    carriers: tuple[str, ...]
    tasks: tuple[str, ...]
    """Worker tasks in rank order: rank 0 runs in the first pod of the first one."""
    exports: tuple[str, ...]
    """Variables of this container that every rank gets with the same value."""
    hosts_folder: Path
    """Volcano's svc plugin writes one file of host names per task here."""
    ssh_key: Path
    ssh_port: int
    home: Path
    master_port: int
    wait_seconds: float
    carrier_seconds: float

    @classmethod
    def read(cls, environment: Mapping[str, str], program: Sequence[str]) -> Self:
        """The settings in a container's environment. Raises SettingsError."""

        def text(name: str) -> str:
            value = environment.get(name, "")
            if not value:
                msg = f"{name} is not set; start the launcher from a manifest of workloads/."
                raise SettingsError(msg)
            return value

        def number(name: str) -> float:
            value = text(name)
            if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", value) or float(value) == 0:
                msg = f"{name} is {value!r}, not a positive number; correct it in the manifest."
                raise SettingsError(msg)
            return float(value)

        if not program:
            msg = "the launcher was given no program; name what the ranks run as its arguments."
            raise SettingsError(msg)
        exports = tuple(text("CROSSVENDOR_EXPORT").split())
        # mpirun only warns about a name that it cannot export; the ranks would then run without.
        unset = [name for name in exports if name not in environment]
        if unset:
            msg = f"CROSSVENDOR_EXPORT names {', '.join(unset)}, which the container does not set."
            raise SettingsError(msg)
        return cls(
            program=tuple(program),
            carriers=tuple(text("CROSSVENDOR_CARRIERS").split()),
            tasks=tuple(text("CROSSVENDOR_TASKS").split()),
            exports=exports,
            hosts_folder=Path(text("CROSSVENDOR_HOSTS_FOLDER")),
            ssh_key=Path(text("CROSSVENDOR_SSH_KEY")),
            ssh_port=int(number("CROSSVENDOR_SSH_PORT")),
            home=Path(text("HOME")),
            master_port=int(number("CROSSVENDOR_MASTER_PORT")),
            wait_seconds=number("CROSSVENDOR_WAIT_SECONDS"),
            carrier_seconds=number("CROSSVENDOR_CARRIER_SECONDS"),
        )


@dataclass(kw_only=True)
class Statements:
    """What the ranks of one carrier said about it."""

    carrier: str
    summaries: list[dict[str, Any]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    pods: list[str] = field(default_factory=list)
    num_cases: int = 0
    num_wrong: int = 0

    def add(self, line: bytes) -> None:
        """Takes in one line of output; anything but an event of this carrier is just text."""
        if not line.startswith(b"{"):
            return
        try:
            statement = json.loads(line)
        except ValueError:
            return
        if not isinstance(statement, dict) or statement.get("carrier") != self.carrier:
            return
        match statement.get("event"):
            case "rank":
                self.pods.append(str(statement.get("pod")))
            case "case":
                self.num_cases += 1
                self.num_wrong += statement.get("correct") is not True
            case "failure":
                self.failures.append(str(statement.get("message")))
            case "summary":
                self.summaries.append(statement)

    def problem(self, exit_status: int, hosts: Sequence[str]) -> str | None:
        """Why the carrier did not pass, or None.

        The exit status alone proves nothing: PRRTE 3.0's mpirun exits 0 when it lost a worker.
        """
        if self.failures:
            return self.failures[0]
        if exit_status != 0:
            return f"mpirun exited with status {exit_status}; see its output above."
        if len(self.summaries) != 1:
            return f"the ranks printed {len(self.summaries)} summaries, not one; see their output."
        [summary] = self.summaries
        num_cases = summary.get("num_cases")
        if not isinstance(num_cases, int) or num_cases < 1:
            return f"the summary counts {num_cases} cases, so nothing was checked."
        if num_cases != self.num_cases:
            return f"the summary counts {num_cases} cases, but {self.num_cases} were printed."
        if self.num_wrong:
            return f"{self.num_wrong} of {num_cases} cases are wrong; see their lines above."
        if summary.get("num_wrong") != 0 or summary.get("passed") is not True:
            return "the summary says that the carrier did not pass; see its line above."
        expected = [pod_name(host) for host in hosts]
        if sorted(self.pods) != sorted(expected):
            said = ", ".join(sorted(self.pods)) or "no pod"
            return f"ranks ran in {said}, not once in each of {', '.join(expected)}."
        return None


def main(program: Sequence[str], environment: Mapping[str, str]) -> int:
    """Runs the job and returns the exit status; 0 only when every carrier passed and said so."""
    try:
        settings = Settings.read(environment, program)
    except SettingsError as error:
        emit("failure", carrier=None, stage=error.stage, message=str(error))
        emit("verdict", passed=False, carriers={}, message=str(error))
        return EXIT_SETTINGS
    results: dict[str, str | None] = {}
    exit_status = EXIT_FAILED
    try:
        with stop_on_signals():
            hosts = prepare(settings)
            for index, carrier in enumerate(settings.carriers):
                results[carrier] = run_carrier(settings, environment, hosts, index)
    except LauncherError as error:
        emit("failure", carrier=None, stage=error.stage, message=str(error))
        for carrier in settings.carriers:
            results.setdefault(carrier, str(error))
        if isinstance(error, StoppedError):
            exit_status = EXIT_STOPPED
    passed = not any(results.values())
    emit("phase", phase="done", carrier=None, detail="passed" if passed else "failed")
    emit(
        "verdict",
        passed=passed,
        carriers={carrier: said is None for carrier, said in results.items()},
        message=verdict(results),
    )
    return 0 if passed else exit_status


def emit(event: str, **values: object) -> None:
    """Prints one event of the result protocol."""
    print(json.dumps({"event": event, "time": time.time(), **values}), flush=True)


def verdict(results: Mapping[str, str | None]) -> str:
    """The outcome of all carriers in one sentence."""
    if not any(results.values()):
        return f"Every carrier passed: {', '.join(results)}."
    first, said = next((carrier, said) for carrier, said in results.items() if said)
    others = len([said for said in results.values() if said]) - 1
    more = f" ({others} more failed)" if others else ""
    return f"{first}: {said}{more}"


@contextlib.contextmanager
def stop_on_signals() -> Iterator[None]:
    """Turns the first SIGTERM or SIGINT into StoppedError and ignores further ones."""
    signals = (signal.SIGTERM, signal.SIGINT)

    def stop(_number: int, _frame: FrameType | None) -> NoReturn:
        for number in signals:
            signal.signal(number, signal.SIG_IGN)
        raise StoppedError

    before = {number: signal.signal(number, stop) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def prepare(settings: Settings) -> list[str]:
    """Waits until every worker answers; writes what mpirun needs. Returns hosts in rank order."""
    hosts = read_hosts(settings.hosts_folder, settings.tasks)
    emit(
        "phase",
        phase="waiting-for-workers",
        carrier=None,
        detail=f"{len(hosts)}: {', '.join(hosts)}",
    )
    start = time.monotonic()
    wait_for(hosts, settings.ssh_port, settings.wait_seconds)
    try:
        write_files(settings, hosts)
    except OSError as error:
        msg = f"mpirun's files cannot be written: {error}; the home folder must be writable."
        raise LauncherError("workers", msg) from error
    detail = f"{len(hosts)} after {time.monotonic() - start:.1f} s"
    emit("phase", phase="workers-ready", carrier=None, detail=detail)
    return hosts


def pod_name(host: str) -> str:
    """A pod's name from its host name `<pod>.<job>`."""
    return host.partition(".")[0]


def read_hosts(folder: Path, tasks: Sequence[str]) -> list[str]:
    """Host names of all workers, in rank order, from the files of Volcano's svc plugin."""
    hosts: list[str] = []
    for task in tasks:
        file = folder / f"{task.replace('-', '_')}.host"
        try:
            names = file.read_text(encoding="ascii").split()
        except (OSError, UnicodeDecodeError) as error:
            msg = f"{file} cannot be read: {error}; the job needs Volcano's svc plugin."
            raise LauncherError("workers", msg) from error
        if not names:
            msg = f"{file} names no pod; leave a task without replicas out of CROSSVENDOR_TASKS."
            raise LauncherError("workers", msg)
        hosts += names
    for host in hosts:
        if not _HOST.fullmatch(host) or hosts.count(host) > 1:
            msg = (
                f"{folder}: {host!r} is no host name or is there twice; each worker needs its own."
            )
            raise LauncherError("workers", msg)
    return hosts


def wait_for(hosts: Sequence[str], port: int, seconds: float) -> None:
    """Returns when every host resolves and its sshd answers; names those that do not in time."""
    deadline = time.monotonic() + seconds
    while waiting := silent(hosts, port):
        if time.monotonic() >= deadline:
            missing = ", ".join(f"{host} ({problem})" for host, problem in waiting.items())
            msg = f"no sshd on port {port} within {seconds:g} s at {missing}; see those pods."
            raise LauncherError("workers", msg)
        hosts = list(waiting)
        time.sleep(POLL_SECONDS)


def silent(hosts: Sequence[str], port: int) -> dict[str, str]:
    """Hosts whose sshd does not answer now, each with the reason."""
    with ThreadPoolExecutor(max_workers=min(len(hosts), MAX_PROBES)) as pool:
        problems = pool.map(lambda host: probe(host, port), hosts)
        return {host: why for host, why in zip(hosts, problems, strict=True) if why is not None}


def probe(host: str, port: int) -> str | None:
    """Why a worker cannot be used yet, or None when its sshd answers."""
    try:
        with socket.create_connection((host, port), timeout=CONNECT_SECONDS) as connection:
            # A listening socket is not yet a server: sshd says its name first.
            greeting = connection.recv(4)
    except socket.gaierror:
        return "its name does not resolve"
    except TimeoutError:
        return "no answer"
    except OSError as error:
        return error.strerror or str(error)
    return None if greeting == b"SSH-" else f"answers {greeting!r}"


def launcher_folder(settings: Settings) -> Path:
    """Where the launcher keeps its key and mpirun's files."""
    return settings.home / "launcher"


def write_files(settings: Settings, hosts: Sequence[str]) -> None:
    """The ssh key with the mode that ssh insists on, ssh's configuration, mpirun's host file."""
    folder = launcher_folder(settings)
    folder.mkdir(mode=0o700, exist_ok=True)
    try:
        key = settings.ssh_key.read_bytes()
    except OSError as error:
        msg = f"{settings.ssh_key} cannot be read: {error}; the job needs Volcano's ssh plugin."
        raise LauncherError("workers", msg) from error
    # The mounted key is readable by all, which ssh refuses to use.
    _write_private(folder / "id_rsa", key)
    # Volcano's own configuration matches the pods' short names, mpirun is given the full ones.
    # The workers made their host keys a moment ago, so there is nothing to compare them with.
    options = {
        "Port": settings.ssh_port,
        "IdentityFile": folder / "id_rsa",
        "IdentitiesOnly": "yes",
        "BatchMode": "yes",
        "ConnectTimeout": 10,
        "StrictHostKeyChecking": "no",
        "UserKnownHostsFile": "/dev/null",
        "LogLevel": "ERROR",
    }
    lines = ["Host *", *(f"  {name} {value}" for name, value in options.items())]
    _write_private(folder / "ssh_config", "\n".join([*lines, ""]).encode())
    hostfile = "".join(f"{host} slots=1\n" for host in hosts)
    _write_private(folder / "hostfile", hostfile.encode())


def _write_private(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def mpirun_command(settings: Settings, num_ranks: int, carrier: str) -> list[str]:
    """One carrier's command line, in PRRTE's spelling (Open MPI 5)."""
    folder = launcher_folder(settings)
    exports = ("MASTER_ADDR", "MASTER_PORT", *settings.exports)
    return [
        "mpirun",
        *("--hostfile", str(folder / "hostfile")),
        *("-np", str(num_ranks)),
        # Fill the hosts in the file's order, so that rank 0 is where MASTER_ADDR points.
        *("--map-by", "slot"),
        # A pod's CPUs are its cgroup's; pinning inside it would share one core between pods.
        *("--bind-to", "none"),
        *("--prtemca", "plm_ssh_args", f"-F {folder / 'ssh_config'}"),
        # Else workers start each other, and need each other's configuration for that.
        *("--prtemca", "plm_ssh_no_tree_spawn", "1"),
        *(argument for name in exports for argument in ("-x", name)),
        *settings.program,
        *("--carrier", carrier),
    ]


def run_carrier(
    settings: Settings, environment: Mapping[str, str], hosts: Sequence[str], index: int
) -> str | None:
    """Runs one carrier and returns why it did not pass, or None."""
    carrier = settings.carriers[index]
    command = mpirun_command(settings, len(hosts), carrier)
    # A port of its own: what a killed carrier left behind must not answer the next one.
    master = {"MASTER_ADDR": hosts[0], "MASTER_PORT": str(settings.master_port + index)}
    statements = Statements(carrier=carrier)
    emit("phase", phase="carrier-started", carrier=carrier, detail=" ".join(command))
    start = time.monotonic()
    try:
        status = run_until(
            command,
            {**environment, **master},
            deadline=start + settings.carrier_seconds,
            on_line=lambda line: _pass_on(line, statements),
        )
        problem = statements.problem(status, hosts)
    except TimeoutError:
        problem = f"mpirun did not end within {settings.carrier_seconds:g} s and was killed."
    except OSError as error:
        problem = f"mpirun cannot be started: {error}; the launcher image must contain it."
    if problem is not None:
        lost = [f"{host} ({why})" for host, why in silent(hosts, settings.ssh_port).items()]
        problem += f" No longer answering: {', '.join(lost)}." if lost else ""
    outcome = "passed" if problem is None else "failed"
    if problem is not None and problem not in statements.failures:
        emit("failure", carrier=carrier, stage="mpirun", message=problem)
    detail = f"{outcome} after {time.monotonic() - start:.1f} s"
    emit("phase", phase="carrier-finished", carrier=carrier, detail=detail)
    return problem


def _pass_on(line: bytes, statements: Statements) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
    statements.add(line)


def run_until(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    deadline: float,
    on_line: Callable[[bytes], None],
) -> int:
    """Runs a command, hands on its lines, and returns its exit status.

    Raises TimeoutError at the deadline. However it ends, nothing of the command is left running.
    """
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=dict(environment),
        start_new_session=True,
    ) as process:
        try:
            for line in _lines(process, deadline):
                on_line(line)
            return process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise TimeoutError from error
        finally:
            _end(process)


def _lines(process: "subprocess.Popen[bytes]", deadline: float) -> Iterator[bytes]:
    """Lines of a process's output, each ending in a newline, until its end or the deadline."""
    assert process.stdout is not None  # noqa: S101  # it was started with a pipe
    rest = b""
    ended_at: float | None = None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            now = time.monotonic()
            if now >= deadline:
                raise TimeoutError
            if ended_at is None and process.poll() is not None:
                ended_at = now
            # Something that outlives mpirun may hold the pipe open for ever.
            if ended_at is not None and now >= ended_at + DRAIN_SECONDS:
                break
            if not selector.select(min(POLL_SECONDS, deadline - now)):
                continue
            chunk = os.read(process.stdout.fileno(), 1 << 16)
            if not chunk:
                break
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (line + b"\n" for line in lines)
    if rest:
        yield rest + b"\n"


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ends a process and its group: asks first, because mpirun then ends the ranks."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(END_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
