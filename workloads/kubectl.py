"""The cluster through `kubectl`: short commands, and streams that come back after an interruption.

Owns no knowledge of jobs. kubectl does the authentication, so any kubeconfig works.
"""

import contextlib
import json
import queue
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

REQUEST_SECONDS: Final = 20
RETRY_SECONDS: Final = 0.5


class KubectlError(Exception):
    """A command that failed: one sentence that ends with what kubectl said."""


class NoKubectlError(KubectlError):
    """There is no such program: a whole sentence."""


@dataclass(frozen=True, kw_only=True)
class Kubectl:
    """One cluster."""

    program: str = "kubectl"
    kubeconfig: Path | None = None
    """None for kubectl's own choice: $KUBECONFIG or ~/.kube/config."""

    def command(self, *arguments: str) -> list[str]:
        """The whole command line."""
        chosen = () if self.kubeconfig is None else (f"--kubeconfig={self.kubeconfig}",)
        return [self.program, *chosen, *arguments]

    def run(self, *arguments: str, stdin: str | None = None) -> str:
        """What a command prints. Raises KubectlError."""
        try:
            # A session of its own: Ctrl-C is for this program, which then cleans up with kubectl.
            done = subprocess.run(
                self.command(f"--request-timeout={REQUEST_SECONDS}s", *arguments),
                input=stdin,
                capture_output=True,
                text=True,
                check=False,
                start_new_session=True,
            )
        except OSError as error:
            msg = f"{self.program} cannot be started: {error.strerror}; give its path as --kubectl."
            raise NoKubectlError(msg) from error
        if done.returncode != 0:
            raise KubectlError(said(done.stderr) or f"kubectl exited {done.returncode}")
        return done.stdout

    def get(self, *arguments: str) -> dict[str, Any]:
        """One object, or a list of them, as the API server has it. Raises KubectlError."""
        answer = json.loads(self.run("get", *arguments, "--output=json"))
        if not isinstance(answer, dict):
            msg = f"kubectl get {' '.join(arguments)} answered {type(answer).__name__}"
            raise KubectlError(msg)
        return answer

    def items(self, *arguments: str) -> list[dict[str, Any]]:
        """The objects of a list. Raises KubectlError."""
        return [*self.get(*arguments).get("items", [])]

    def create(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """The object as the API server made it. Raises KubectlError."""
        text = self.run("create", "--filename=-", "--output=json", stdin=json.dumps(manifest))
        made = json.loads(text)
        return made if isinstance(made, dict) else {}


def said(stderr: str) -> str:
    """The part of kubectl's complaint that matters: its last lines, as one."""
    lines = [" ".join(line.split()) for line in stderr.splitlines() if line.strip()]
    # klog's lines (E1121 14:22:01 ...) repeat each retry of what the last line says.
    plain = [line for line in lines if not (line[:1] in "EWI" and line[1:5].isdigit())]
    text = " ".join((plain if plain else lines[-1:])[-3:])
    return text.removeprefix("error: ").removeprefix("Error from server: ").rstrip(".?")


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line that a stream read, with its newline if it was whole."""

    source: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A stream's command has ended; it is started again unless the stream is stopped."""

    source: str
    exit_status: int
    complaint: str


@dataclass(kw_only=True)
class Stream:
    """A long command whose lines go to a queue; it is started again until it is stopped."""

    kubectl: Kubectl
    source: str
    arguments: Sequence[str]
    sink: "queue.Queue[Line | Ended]"
    is_repeated: bool = True
    """Whether the command is started again when it ends by itself."""
    _process: "subprocess.Popen[str] | None" = field(default=None, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _is_stopped: threading.Event = field(default_factory=threading.Event, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def start(self) -> None:
        """Begins to read."""
        self._thread = threading.Thread(target=self._read, name=self.source, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the command and waits for the thread; nothing is left behind."""
        self._is_stopped.set()
        with self._lock:
            if self._process is not None:
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
        if self._thread is not None:
            self._thread.join()

    def _read(self) -> None:
        while not self._is_stopped.is_set():
            self.sink.put(self._read_once())
            if not self.is_repeated:
                return
            self._is_stopped.wait(RETRY_SECONDS)

    def _read_once(self) -> Ended:
        with self._lock:
            if self._is_stopped.is_set():
                return Ended(source=self.source, exit_status=0, complaint="")
            try:
                self._process = subprocess.Popen(
                    self.kubectl.command(*self.arguments),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                    start_new_session=True,
                )
            except OSError as error:
                return Ended(source=self.source, exit_status=127, complaint=str(error))
        process = self._process
        with process:
            assert process.stdout is not None  # noqa: S101  # it was started with pipes
            assert process.stderr is not None  # noqa: S101
            for text in process.stdout:
                self.sink.put(Line(source=self.source, text=text))
            complaint = said(process.stderr.read())
        return Ended(source=self.source, exit_status=process.returncode, complaint=complaint)
