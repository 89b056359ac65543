"""Volcano jobs as data: frozen dataclasses that refuse what Volcano would refuse, and a plain dict.

Owns the spelling of batch.volcano.sh and of pods under Pod Security `restricted`. What a job is
made of is decided in workloads/jobs.py; nothing here talks to a cluster.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from infra.names import MAX_DNS_LABEL

API_VERSION: Final = "batch.volcano.sh/v1alpha1"
KIND: Final = "Job"
GENERATED_SUFFIX: Final = 5
"""Characters that the API server appends to `generateName`."""
USER: Final = 1000
"""uid and gid of every container; the images' `mpiuser`."""

_DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_GENERATE_NAME = re.compile(r"[a-z][-a-z0-9]*")


class Event(StrEnum):
    """What may trigger a policy. `*` is Volcano's any event."""

    ANY = "*"
    POD_FAILED = "PodFailed"
    POD_EVICTED = "PodEvicted"
    POD_PENDING = "PodPending"
    UNKNOWN = "Unknown"
    TASK_COMPLETED = "TaskCompleted"
    TASK_FAILED = "TaskFailed"


class Action(StrEnum):
    """What a policy does."""

    ABORT_JOB = "AbortJob"
    RESTART_JOB = "RestartJob"
    RESTART_TASK = "RestartTask"
    RESTART_POD = "RestartPod"
    TERMINATE_JOB = "TerminateJob"
    COMPLETE_JOB = "CompleteJob"


class Operator(StrEnum):
    """How a node's label is compared."""

    IN = "In"
    NOT_IN = "NotIn"


@dataclass(frozen=True, kw_only=True)
class Policy:
    """On any of `events`, or on one exit code, do `action`, after `delay_seconds`."""

    action: Action
    events: tuple[Event, ...] = ()
    exit_code: int | None = None
    delay_seconds: int = 0

    def __post_init__(self) -> None:
        where = f"policy {self.action}"
        if bool(self.events) == (self.exit_code is not None):
            msg = f"{where}: has events {_listed(self.events)} and exit code {self.exit_code}; "
            raise ValueError(msg + "give either events or an exit code.")
        if self.exit_code == 0:
            msg = f"{where}: exit code 0 is no failure; use {Event.TASK_COMPLETED}."
            raise ValueError(msg)
        if len(set(self.events)) != len(self.events):
            msg = f"{where}: events {_listed(self.events)} repeat one; name each once."
            raise ValueError(msg)
        if self.delay_seconds < 0:
            msg = f"{where}: delay_seconds {self.delay_seconds} is negative; use 0 or more."
            raise ValueError(msg)
        if Event.POD_PENDING in self.events and self.delay_seconds == 0:
            msg = f"{where}: {Event.POD_PENDING} does nothing without a delay; set delay_seconds."
            raise ValueError(msg)

    def to_dict(self) -> dict[str, Any]:
        """The entry of `policies`."""
        body: dict[str, Any] = {"action": self.action.value}
        if self.exit_code is None:
            body["events"] = [event.value for event in self.events]
        else:
            body["exitCode"] = self.exit_code
        if self.delay_seconds:
            body["timeout"] = f"{self.delay_seconds}s"
        return body


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What a container asks for and may use, in Kubernetes' quantities."""

    cpu: str
    cpu_limit: str
    memory: str
    memory_limit: str
    devices: Mapping[str, int] = field(default_factory=dict)
    """Extended resource -> number; request and limit are always equal."""

    def __post_init__(self) -> None:
        for resource, number in self.devices.items():
            if "/" not in resource or number < 1:
                msg = f"resources: {number} of device {resource!r} cannot be asked for; "
                raise ValueError(msg + "use at least 1 of a <domain>/<name> resource.")

    def to_dict(self) -> dict[str, Any]:
        """A container's `resources`."""
        devices = {resource: str(number) for resource, number in self.devices.items()}
        return {
            "requests": {"cpu": self.cpu, "memory": self.memory, **devices},
            "limits": {"cpu": self.cpu_limit, "memory": self.memory_limit, **devices},
        }


@dataclass(frozen=True, kw_only=True)
class Scratch:
    """A writable folder of one pod, gone with it."""

    name: str
    path: str
    size: str
    in_memory: bool = False
    """A tmpfs; what it holds counts against the container's memory limit."""

    def volume(self) -> dict[str, Any]:
        """The entry of a pod's `volumes`."""
        empty_dir = {"medium": "Memory"} if self.in_memory else {}
        return {"name": self.name, "emptyDir": {**empty_dir, "sizeLimit": self.size}}

    def mount(self) -> dict[str, str]:
        """The entry of a container's `volumeMounts`."""
        return {"name": self.name, "mountPath": self.path}


@dataclass(frozen=True, kw_only=True)
class Container:
    """The one container of a task's pods; Volcano's exit-code policies know only the first."""

    name: str
    image: str
    command: tuple[str, ...]
    resources: Resources
    environment: Mapping[str, str] = field(default_factory=dict)
    pod_fields: Mapping[str, str] = field(default_factory=dict)
    """Environment variable -> path of a field of the pod itself (downward API)."""
    scratch: tuple[Scratch, ...] = ()
    ready_port: int | None = None
    """TCP port that accepts connections when the container is ready."""

    def __post_init__(self) -> None:
        where = f"container {self.name}"
        _check_label(where, "name", self.name)
        twice = self.environment.keys() & self.pod_fields.keys()
        if twice:
            msg = f"{where}: {_listed(twice)} is set both as text and from the pod; choose one."
            raise ValueError(msg)
        paths = [scratch.path for scratch in self.scratch]
        if len(set(paths)) != len(paths):
            msg = f"{where}: scratch paths {_listed(paths)} repeat one; mount each path once."
            raise ValueError(msg)

    def to_dict(self) -> dict[str, Any]:
        """The entry of a pod's `containers`."""
        environment: list[dict[str, Any]] = [
            *({"name": name, "value": value} for name, value in self.environment.items()),
            *(
                {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
                for name, path in self.pod_fields.items()
            ),
        ]
        body: dict[str, Any] = {
            "name": self.name,
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "command": list(self.command),
        }
        if environment:
            body["env"] = environment
        if self.ready_port is not None:
            body["ports"] = [{"name": "ready", "containerPort": self.ready_port}]
            body["readinessProbe"] = {
                "tcpSocket": {"port": self.ready_port},
                "periodSeconds": 1,
                "failureThreshold": 3,
            }
        body["resources"] = self.resources.to_dict()
        body["securityContext"] = {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        body["volumeMounts"] = [scratch.mount() for scratch in self.scratch]
        return body


@dataclass(frozen=True, kw_only=True)
class NodeLabel:
    """A condition on the nodes that may run a task."""

    key: str
    operator: Operator
    values: tuple[str, ...]

    def affinity(self) -> dict[str, Any]:
        """A pod's `affinity` that requires it."""
        expression = {
            "key": self.key,
            "operator": self.operator.value,
            "values": list(self.values),
        }
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


@dataclass(frozen=True, kw_only=True)
class Task:
    """Equal pods of a job."""

    name: str
    replicas: int
    container: Container
    node: NodeLabel
    tolerations: tuple[Mapping[str, str], ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    depends_on: tuple[str, ...] = ()
    """Tasks whose pods must all be ready before the first pod of this one is created."""
    policies: tuple[Policy, ...] = ()
    grace_seconds: int = 5
    deadline_seconds: int
    """A pod that has run this long fails, so that nothing holds a GPU for ever."""

    def __post_init__(self) -> None:
        where = f"task {self.name}"
        _check_label(where, "name", self.name)
        if self.replicas < 1:
            msg = f"{where}: replicas {self.replicas} is less than 1; leave the task out."
            raise ValueError(msg)
        if self.deadline_seconds < 1:
            msg = f"{where}: deadline_seconds {self.deadline_seconds} is not positive; use seconds."
            raise ValueError(msg)
        _check_policies(where, self.policies)

    def to_dict(self, job: "VolcanoJob") -> dict[str, Any]:
        """The entry of `tasks`."""
        body: dict[str, Any] = {"name": self.name, "replicas": self.replicas}
        if self.depends_on:
            body["dependsOn"] = {"name": list(self.depends_on), "iteration": "all"}
        if self.policies:
            body["policies"] = [policy.to_dict() for policy in self.policies]
        body["template"] = {
            "metadata": {
                "labels": {**job.labels, **self.labels},
                # Moving a pod elsewhere means losing the whole job.
                "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
            },
            "spec": self._pod(job),
        }
        return body

    def _pod(self, job: "VolcanoJob") -> dict[str, Any]:
        return {
            "restartPolicy": "Never",
            "serviceAccountName": job.service_account,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "priorityClassName": job.priority_class,
            "activeDeadlineSeconds": self.deadline_seconds,
            "terminationGracePeriodSeconds": self.grace_seconds,
            "affinity": self.node.affinity(),
            "tolerations": [dict(toleration) for toleration in self.tolerations],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [self.container.to_dict()],
            "volumes": [scratch.volume() for scratch in self.container.scratch],
        }


@dataclass(frozen=True, kw_only=True)
class VolcanoJob:
    """A whole job. `kubectl create` gives each run its own name from `generate_name`."""

    generate_name: str
    namespace: str
    queue: str
    service_account: str
    priority_class: str
    tasks: tuple[Task, ...]
    min_available: int
    """Pods that start together or not at all."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """On the job and on its pods."""
    plugins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    policies: tuple[Policy, ...] = ()
    """For tasks that have none of their own for the event."""
    max_retry: int = 1
    """RestartJob actions until the job has failed."""
    ttl_seconds: int
    """How long a finished job and its logs stay."""

    def __post_init__(self) -> None:
        where = f"job {self.generate_name}"
        if not _GENERATE_NAME.fullmatch(self.generate_name):
            msg = f"{where}: generate_name is no start of a DNS label; use a-z, 0-9 and '-'."
            raise ValueError(msg)
        if not self.tasks:
            msg = f"{where}: has no tasks; give at least one."
            raise ValueError(msg)
        if self.max_retry < 1:
            # Volcano reads 0 as "not set" and makes it 3.
            msg = f"{where}: max_retry {self.max_retry} is less than 1; use 1 or more."
            raise ValueError(msg)
        if self.ttl_seconds < 0:
            msg = f"{where}: ttl_seconds {self.ttl_seconds} is negative; use 0 or more."
            raise ValueError(msg)
        self._check_tasks(where)
        self._check_gang(where)
        _check_policies(where, self.policies)

    def _check_tasks(self, where: str) -> None:
        names = [task.name for task in self.tasks]
        if len(set(names)) != len(names):
            msg = f"{where}: task names {_listed(names)} repeat one; name each task once."
            raise ValueError(msg)
        for task in self.tasks:
            length = (
                len(self.generate_name)
                + GENERATED_SUFFIX
                + len(f"-{task.name}-{task.replicas - 1}")
            )
            if length > MAX_DNS_LABEL:
                msg = (
                    f"{where}: pod names of task {task.name} have {length} characters; "
                    f"shorten the job's or the task's name to at most {MAX_DNS_LABEL} in all."
                )
                raise ValueError(msg)
        # A task may depend only on earlier ones: no cycles, and a list in the order of starting.
        earlier: set[str] = set()
        for task in self.tasks:
            unknown = set(task.depends_on) - earlier
            if unknown:
                msg = (
                    f"{where}: task {task.name} depends on {_listed(unknown)}; "
                    f"it may depend on tasks before it: {_listed(earlier)}."
                )
                raise ValueError(msg)
            earlier.add(task.name)

    def _check_gang(self, where: str) -> None:
        # Pods of a dependent task do not exist until the others are ready, so a gang that counts
        # them never starts.
        num_at_once = sum(task.replicas for task in self.tasks if not task.depends_on)
        if not 1 <= self.min_available <= num_at_once:
            msg = (
                f"{where}: min_available {self.min_available} is not between 1 and the "
                f"{num_at_once} pods that depend on no other task; change one of them."
            )
            raise ValueError(msg)

    def to_dict(self) -> dict[str, Any]:
        """The manifest."""
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {
                "generateName": self.generate_name,
                "namespace": self.namespace,
                "labels": dict(self.labels),
            },
            "spec": {
                "schedulerName": "volcano",
                "queue": self.queue,
                "priorityClassName": self.priority_class,
                "minAvailable": self.min_available,
                "maxRetry": self.max_retry,
                "ttlSecondsAfterFinished": self.ttl_seconds,
                "plugins": {name: list(arguments) for name, arguments in self.plugins.items()},
                "policies": [policy.to_dict() for policy in self.policies],
                "tasks": [task.to_dict(self) for task in self.tasks],
            },
        }


def _check_label(where: str, what: str, value: str) -> None:
    if not _DNS_LABEL.fullmatch(value) or len(value) > MAX_DNS_LABEL:
        msg = (
            f"{where}: {what} {value!r} is not a DNS label; use a-z, 0-9 and '-', "
            f"at most {MAX_DNS_LABEL} characters."
        )
        raise ValueError(msg)


def _check_policies(where: str, policies: tuple[Policy, ...]) -> None:
    triggers: list[Event | int] = []
    for policy in policies:
        triggers += policy.events if policy.exit_code is None else [policy.exit_code]
    for trigger in triggers:
        if triggers.count(trigger) > 1:
            msg = f"{where}: {trigger} is in more than one policy; decide on one action."
            raise ValueError(msg)
    events = [trigger for trigger in triggers if isinstance(trigger, Event)]
    if Event.ANY in events and len(events) > 1:
        msg = f"{where}: event * stands beside {_listed(events)}; it must stand alone."
        raise ValueError(msg)


def _listed(values: Iterable[object]) -> str:
    """Values in a sentence: sorted, or `none`."""
    return ", ".join(sorted(str(value) for value in values)) or "none"
