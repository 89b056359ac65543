"""What is known about a running job, from the API server's objects and the launcher's lines.

Pure: objects and lines go in, the state and what is wrong with it come out. Who fetches them is in
workloads/following.py.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from infra.accelerators import ACCELERATORS, Vendor
from infra.names import ANNOTATION_LINK_MBITS, LABEL_POOL, LABEL_VENDOR
from workloads.report.record import ClusterEvent, JobPhase, Node, Pod, Record, Request, Timing
from workloads.report.results import CaseEvent, Event, ResultError, is_event, parse_line

TASK_LAUNCHER: Final = "launcher"
LABEL_JOB_NAME: Final = "volcano.sh/job-name"
LABEL_TASK: Final = "volcano.sh/task-spec"
LABEL_INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"

FINAL_PHASES: Final = ("Completed", "Failed", "Aborted", "Terminated")
"""Volcano's phases that nothing follows."""

_HOPELESS: Final = ("ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError")
"""Reasons that no waiting cures."""
_UNLIKELY: Final = (
    "ErrImagePull",
    "ImagePullBackOff",
    "CrashLoopBackOff",
    "CreateContainerError",
    "RunContainerError",
)
UNLIKELY_SECONDS: Final = 30
"""How long a reason may last that a retry may cure."""

MAX_LOG_TAIL: Final = 60


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far one carrier is."""

    carrier: str
    num_cases: int = 0
    num_wrong: int = 0
    is_finished: bool = False


@dataclass(kw_only=True)
class Watch:
    """One job as far as it is known; fed by whoever follows it."""

    request: Request
    nodes: tuple[Node, ...]
    started: float
    phase: str = ""
    phase_message: str = ""
    num_retries: int = 0
    phases: list[JobPhase] = field(default_factory=list)
    pods: dict[str, Pod] = field(default_factory=dict)
    is_gone: bool = False
    """The job was deleted by somebody else."""
    lines: list[str] = field(default_factory=list)
    """The launcher's log so far, without newlines."""
    last_event: Event | None = None
    carriers: dict[str, Progress] = field(default_factory=dict)
    _stuck_since: dict[str, float] = field(default_factory=dict)
    _launcher_uid: str | None = None

    def see_job(self, job: Mapping[str, Any], *, is_deleted: bool = False) -> None:
        """Takes in the Volcano job."""
        self.is_gone = is_deleted
        status = job.get("status", {})
        state = status.get("state", {})
        self.phase = state.get("phase", self.phase)
        self.phase_message = state.get("message", "")
        self.num_retries = status.get("retryCount", 0)
        conditions = [
            JobPhase(phase=condition["status"], time=seconds(condition["lastTransitionTime"]))
            for condition in status.get("conditions", [])
            if condition.get("lastTransitionTime")
        ]
        if conditions:
            self.phases = sorted(conditions, key=lambda condition: condition.time)

    def see_pod(self, pod: Mapping[str, Any], *, now: float) -> None:
        """Takes in a pod of the job; moments that a later state no longer shows are kept."""
        seen = pod_of(pod)
        before = self.pods.get(seen.name)
        if before is not None and before.uid == seen.uid:
            kept = {
                name: getattr(before, name)
                for name in ("node", "scheduled", "started", "ready", "finished", "exit_code")
                if getattr(seen, name) is None
            }
            seen = seen.model_copy(update=kept)
        if _reason(seen) not in _UNLIKELY:
            # ErrImagePull and ImagePullBackOff take turns; together they last.
            self._stuck_since.pop(seen.name, None)
        else:
            self._stuck_since.setdefault(seen.name, now)
        self.pods[seen.name] = seen
        if seen.task == TASK_LAUNCHER and seen.uid != self._launcher_uid:
            # A launcher that Volcano has started anew tells its story from the beginning.
            self._launcher_uid = seen.uid
            self.lines.clear()
            self.carriers.clear()
            self.last_event = None

    def see_line(self, line: str) -> None:
        """Takes in one whole line of the launcher's log."""
        self.lines.append(line.rstrip("\n"))
        if not is_event(line):
            return
        try:
            event = parse_line(line, where="launcher's log")
        except ResultError:
            return  # the judgement names it
        self.last_event = event
        carrier = getattr(event, "carrier", None)
        if carrier is None:
            return
        before = self.carriers.get(carrier, Progress(carrier=carrier))
        is_case = isinstance(event, CaseEvent)
        self.carriers[carrier] = Progress(
            carrier=carrier,
            num_cases=before.num_cases + is_case,
            num_wrong=before.num_wrong + (isinstance(event, CaseEvent) and not event.is_right),
            is_finished=before.is_finished
            or (event.event == "phase" and event.phase == "carrier-finished"),
        )

    @property
    def launcher(self) -> Pod | None:
        """The launcher's pod, once there is one."""
        return next((pod for pod in self.pods.values() if pod.task == TASK_LAUNCHER), None)

    @property
    def is_final(self) -> bool:
        """Whether the job itself has come to an end."""
        return self.is_gone or self.phase in FINAL_PHASES

    @property
    def has_started(self) -> bool:
        """Whether the launcher has run, which needs every worker to be ready."""
        return self.launcher is not None and self.launcher.started is not None

    def hopeless(self, now: float) -> str | None:
        """A container that will never start, as a sentence; None when there is still hope."""
        for pod in self.pods.values():
            lasted = now - self._stuck_since.get(pod.name, now)
            if _reason(pod) in _HOPELESS or lasted > UNLIKELY_SECONDS:
                return (
                    f"pod {pod.name}: its container cannot start: {pod.waiting.rstrip('.')}; "
                    "build and load the images (`make images`), or see `kubectl describe pod`."
                )
        return None

    def not_started(self, waited: float, hints: Iterable[str]) -> str:
        """Why the launcher has not started, as a sentence; `hints` are the scheduler's reasons."""
        job = f"job {self.request.job}"
        hint = next((hint.rstrip(".") for hint in hints if hint), "")
        because = f": {hint}" if hint else ""
        homeless = [pod for pod in self.pods.values() if pod.scheduled is None]
        unready = [pod for pod in self.pods.values() if pod.ready is None]
        if not self.phase and not self.pods:
            return (
                f"{job}: Volcano has not taken it up after {waited:.0f} s{because}; "
                "see whether the pods in namespace volcano-system run."
            )
        if not self.pods:
            return (
                f"{job}: no pod was created within {waited:.0f} s{because}; "
                "see the namespace's quota and the queue's capacity."
            )
        if homeless:
            reason = next((f": {pod.waiting.rstrip('.')}" for pod in homeless if pod.waiting), "")
            return (
                f"{job}: {len(homeless)} of {len(self.pods)} pods have had no node for "
                f"{waited:.0f} s{because if because else reason}; ask for fewer workers "
                f"({options(self.request.workers)}), or add nodes."
            )
        if unready:
            pod = unready[0]
            state = pod.waiting.rstrip(".") if pod.waiting else f"phase {pod.phase}, not ready"
            return (
                f"pod {pod.name}: not ready after {waited:.0f} s: {state}; "
                "see `kubectl describe pod` and its log."
            )
        return (
            f"{job}: every worker is ready, but no launcher has started after {waited:.0f} s"
            f"{because}; see the job's events."
        )

    def record(
        self,
        *,
        finished: float,
        server: str,
        problem: str | None,
        events: tuple[ClusterEvent, ...],
        timings: tuple[Timing, ...],
    ) -> Record:
        """All of it as frozen data."""
        text = [line for line in self.lines if line.strip() and not is_event(line)]
        return Record(
            request=self.request,
            started=self.started,
            finished=finished,
            server=server,
            nodes=self.nodes,
            pods=tuple(self.pods.values()),
            phases=tuple(self.phases),
            phase=self.phase,
            phase_message=self.phase_message,
            num_retries=self.num_retries,
            events=events,
            problem=problem,
            log_tail=tuple(text[-MAX_LOG_TAIL:]),
            timings=timings,
        )


def options(workers: Mapping[Vendor, int]) -> str:
    """The command line's options for a number of workers."""
    return " ".join(f"--{vendor.value} {count}" for vendor, count in workers.items())


def node_of(node: Mapping[str, Any]) -> Node:
    """The report's node of a Kubernetes Node; a label or annotation that makes no sense is none."""
    metadata, status = node["metadata"], node.get("status", {})
    labels, annotations = metadata.get("labels", {}), metadata.get("annotations", {})
    vendors = [vendor for vendor in Vendor if vendor.value == labels.get(LABEL_VENDOR)]
    allocatable = status.get("allocatable", {})
    link = annotations.get(ANNOTATION_LINK_MBITS, "")
    ready = [c.get("status") for c in status.get("conditions", []) if c.get("type") == "Ready"]
    return Node(
        name=metadata["name"],
        vendor=vendors[0] if vendors else None,
        pool=labels.get(LABEL_POOL, ""),
        instance_type=labels.get(LABEL_INSTANCE_TYPE, ""),
        link_mbits=int(link) if link.isdecimal() and int(link) > 0 else None,
        cpus=str(allocatable.get("cpu", "")),
        gpus={
            row.resource: int(allocatable[row.resource])
            for row in ACCELERATORS.values()
            if str(allocatable.get(row.resource, "0")).isdecimal()
            and int(allocatable.get(row.resource, "0")) > 0
        },
        is_ready=ready == ["True"] and not node.get("spec", {}).get("unschedulable", False),
    )


def pod_of(pod: Mapping[str, Any]) -> Pod:
    """The report's pod of a Kubernetes Pod."""
    metadata, status = pod["metadata"], pod.get("status", {})
    conditions = {condition["type"]: condition for condition in status.get("conditions", [])}
    containers = status.get("containerStatuses", [])
    state = containers[0].get("state", {}) if containers else {}
    running, terminated = state.get("running", {}), state.get("terminated", {})
    begun = running.get("startedAt") or terminated.get("startedAt")
    return Pod(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        task=metadata.get("labels", {}).get(LABEL_TASK, ""),
        node=pod.get("spec", {}).get("nodeName"),
        phase=status.get("phase", "Pending"),
        created=seconds(metadata["creationTimestamp"]),
        scheduled=_since(conditions, "PodScheduled"),
        started=seconds(begun) if begun else None,
        ready=_since(conditions, "Ready"),
        finished=seconds(terminated["finishedAt"]) if terminated.get("finishedAt") else None,
        exit_code=terminated.get("exitCode"),
        waiting=_waiting(conditions, state, status),
    )


def event_of(event: Mapping[str, Any]) -> ClusterEvent | None:
    """The report's event of a Kubernetes Event; None when it carries no time."""
    moment = (
        event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"]["creationTimestamp"]
    )
    if not moment:
        return None
    about = event.get("involvedObject", {})
    return ClusterEvent(
        time=seconds(moment),
        kind=about.get("kind", ""),
        name=about.get("name", ""),
        type=event.get("type", "Normal"),
        reason=event.get("reason", ""),
        message=event.get("message", ""),
    )


def hints_of(
    request: Request, groups: Iterable[Mapping[str, Any]], events: Iterable[ClusterEvent]
) -> list[str]:
    """Why a gang does not start, best reason first: its PodGroup's conditions, then warnings."""
    reasons = [
        condition.get("message", "")
        for group in groups
        if any(
            owner.get("name") == request.job
            for owner in group["metadata"].get("ownerReferences", [])
        )
        for condition in group.get("status", {}).get("conditions", [])
        if condition.get("type") == "Unschedulable" and condition.get("status") == "True"
    ]
    warnings = [event.message for event in events if event.type == "Warning"]
    return [*reasons[::-1], *warnings[::-1]]


def seconds(timestamp: str) -> float:
    """Unix seconds of an RFC 3339 time."""
    return datetime.fromisoformat(timestamp).timestamp()


def _reason(pod: Pod) -> str:
    return pod.waiting.partition(":")[0]


def _since(conditions: Mapping[str, Mapping[str, Any]], name: str) -> float | None:
    condition = conditions.get(name, {})
    if condition.get("status") != "True" or not condition.get("lastTransitionTime"):
        return None
    return seconds(condition["lastTransitionTime"])


def _waiting(
    conditions: Mapping[str, Mapping[str, Any]],
    state: Mapping[str, Any],
    status: Mapping[str, Any],
) -> str:
    """Why a pod does not run: its container's reason, else the scheduler's, else the pod's own."""
    for reason in (
        state.get("waiting", {}),
        conditions.get("PodScheduled", {}),
        status if status.get("phase") == "Failed" else {},
    ):
        is_met = reason.get("status") == "True"
        if reason.get("reason") and not is_met:
            message = " ".join(str(reason.get("message", "")).split())
            return f"{reason['reason']}: {message}" if message else str(reason["reason"])
    return ""
