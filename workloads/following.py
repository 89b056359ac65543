"""Follows one job until it ends, cannot start, or takes too long: streams in, a Watch kept up.

Everything comes through `kubectl` streams, so nothing is polled while the job measures.
"""

import json
import queue
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from workloads.kubectl import Ended, Kubectl, KubectlError, Line, Stream
from workloads.report.record import ClusterEvent
from workloads.watching import LABEL_JOB_NAME, Watch, event_of, hints_of

JOBS: Final = "jobs.batch.volcano.sh"
POD_GROUPS: Final = "podgroups.scheduling.volcano.sh"

TICK_SECONDS: Final = 0.25
SILENCE_SECONDS: Final = 30
"""How long the API server may refuse to answer."""
WATCH_SECONDS: Final = 120
"""After which a watch ends and is started again: so those of a killed command end soon, too."""
LOG_RETRY_SECONDS: Final = 1
LOG_SECONDS: Final = 15
"""How long the rest of the log may take once the job has ended."""


@dataclass(frozen=True, kw_only=True)
class Deadlines:
    """How long a job may take."""

    start_seconds: float
    """Until the launcher runs, which needs every worker to be ready."""
    total_seconds: float


@dataclass(kw_only=True)
class Follower:
    """The streams of one job."""

    kubectl: Kubectl
    watch: Watch
    deadlines: Deadlines
    on_change: Callable[[Watch], None]
    """Called often; shows how far the job is."""
    _sink: "queue.Queue[Line | Ended]" = field(default_factory=queue.Queue, init=False)
    _log: Stream | None = field(default=None, init=False)
    _log_uid: str | None = field(default=None, init=False)
    _log_due: float = field(default=0.0, init=False)
    """Not before this may the log be asked for again."""
    _num_lines: int = field(default=0, init=False)
    """Whole lines that the current log stream has given."""
    _log_saw_end: bool = field(default=False, init=False)
    """Whether the current log stream began after the container's end, so gives all of it."""
    _log_is_whole: bool = field(default=False, init=False)
    _silent_since: dict[str, float] = field(default_factory=dict, init=False)
    _complaint: str = field(default="", init=False)

    def follow(self) -> str | None:
        """Returns when nothing more will come: None, or why it was given up, as a sentence."""
        request = self.watch.request
        base = f"namespaces/{request.namespace}"
        streams = [
            self._watching("job", f"/apis/batch.volcano.sh/v1alpha1/{base}/jobs", "fieldSelector",
                           f"metadata.name%3D{request.job}"),
            self._watching("pods", f"/api/v1/{base}/pods", "labelSelector",
                           f"{LABEL_JOB_NAME.replace('/', '%2F')}%3D{request.job}"),
        ]  # fmt: skip
        begun = time.monotonic()
        try:
            for stream in streams:
                stream.start()
            return self._loop(begun)
        finally:
            for stream in [*streams, *([self._log] if self._log is not None else [])]:
                stream.stop()

    def events(self) -> tuple[ClusterEvent, ...]:
        """What the cluster reported about the job and its pods so far, by time."""
        request = self.watch.request
        found = self.kubectl.items("events", f"--namespace={request.namespace}")
        about = (event for event in (event_of(item) for item in found) if event is not None)
        mine = [e for e in about if e.name == request.job or e.name.startswith(f"{request.job}-")]
        return tuple(sorted(mine, key=lambda event: event.time))

    def _watching(self, source: str, path: str, selector: str, chosen: str) -> Stream:
        url = f"{path}?watch=1&timeoutSeconds={WATCH_SECONDS}&{selector}={chosen}"
        arguments = ("get", "--raw", url)
        return Stream(kubectl=self.kubectl, source=source, arguments=arguments, sink=self._sink)

    def _loop(self, begun: float) -> str | None:
        ended: float | None = None
        while True:
            self._take()
            self.on_change(self.watch)
            now = time.monotonic()
            self._keep_log()
            if self.watch.is_gone:
                return f"job {self.watch.request.job}: was deleted while it ran; run it again."
            if self.watch.is_final:
                ended = now if ended is None else ended
                if self._log_is_whole or not self.watch.has_started or now - ended > LOG_SECONDS:
                    return None
                continue
            problem = self._problem(now, now - begun)
            if problem is not None:
                return problem

    def _take(self) -> None:
        """Waits a little for something to come, and takes in all that is there."""
        try:
            item = self._sink.get(timeout=TICK_SECONDS)
            while True:
                self._handle(item)
                item = self._sink.get_nowait()
        except queue.Empty:
            return

    def _handle(self, item: Line | Ended) -> None:
        match item:
            case Line(source="log", text=text):
                self._see_line(text)
            case Line(source=source, text=text):
                self._silent_since.pop(source, None)
                self._see_object(source, text)
            case Ended(source="log", exit_status=status):
                self._log = None
                self._log_is_whole = self._log_saw_end and status == 0
            case Ended(source=source, exit_status=status, complaint=complaint):
                if status != 0:
                    self._silent_since.setdefault(source, time.monotonic())
                    self._complaint = complaint

    def _see_object(self, source: str, text: str) -> None:
        if not text.endswith("\n"):
            return  # cut by a lost connection; the next watch begins with all that is there
        change = json.loads(text)
        kind, thing = change.get("type"), change.get("object", {})
        if kind not in ("ADDED", "MODIFIED", "DELETED"):
            return  # an expired watch says ERROR and ends; it is started again
        if source == "job":
            self.watch.see_job(thing, is_deleted=kind == "DELETED")
        else:
            self.watch.see_pod(thing, now=time.monotonic())

    def _see_line(self, text: str) -> None:
        if not text.endswith("\n") and not self._log_saw_end:
            return  # cut by a lost connection; the next stream gives it whole
        self._num_lines += 1
        if self._num_lines > len(self.watch.lines):
            self.watch.see_line(text)

    def _keep_log(self) -> None:
        """Reads the log while there is more of it; the last time after the container's end."""
        launcher = self.watch.launcher
        if launcher is None or launcher.started is None:
            return
        if launcher.uid != self._log_uid:
            self._log_uid = launcher.uid
            self._log_is_whole = False
            if self._log is not None:
                self._log.stop()
                self._log = None
        if self._log is not None or self._log_is_whole or time.monotonic() < self._log_due:
            return
        self._log_due = time.monotonic() + LOG_RETRY_SECONDS
        self._num_lines = 0
        self._log_saw_end = launcher.finished is not None
        arguments = ("logs", "--follow", f"--namespace={self.watch.request.namespace}",
                     f"pod/{launcher.name}")  # fmt: skip
        self._log = Stream(
            kubectl=self.kubectl, source="log", arguments=arguments, sink=self._sink,
            is_repeated=False,
        )  # fmt: skip
        self._log.start()

    def _problem(self, now: float, passed: float) -> str | None:
        silent = [now - since for since in self._silent_since.values()]
        if silent and max(silent) > SILENCE_SECONDS:
            return (
                f"API server: has not answered for {max(silent):.0f} s: {self._complaint}; "
                "see whether the cluster still runs."
            )
        hopeless = self.watch.hopeless(now)
        if hopeless is not None:
            return hopeless
        if not self.watch.has_started and passed > self.deadlines.start_seconds:
            return self.watch.not_started(passed, self._hints())
        if passed > self.deadlines.total_seconds:
            return (
                f"job {self.watch.request.job}: not finished after {passed:.0f} s; see the "
                "launcher's last lines, or give more time with --timeout."
            )
        return None

    def _hints(self) -> list[str]:
        try:
            namespace = f"--namespace={self.watch.request.namespace}"
            groups = self.kubectl.items(POD_GROUPS, namespace)
            return hints_of(self.watch.request, groups, self.events())
        except KubectlError:
            return []
