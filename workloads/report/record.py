"""What the cluster saw of one job, as frozen data: nodes, pods, phases, events, and the request.

Owns no access to a cluster; workloads/watching.py fills it in, the report reads it.
"""

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from infra.accelerators import ACCELERATORS, Vendor


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Request(_Frozen):
    """What was asked for, and so what the results must show."""

    job: str
    namespace: str
    workers: Mapping[Vendor, int]
    carriers: tuple[str, ...]
    max_bytes: int
    """Largest message; the scan must reach it."""
    quick: bool = False
    """A shorter scan: fewer types and sizes."""
    link_mbits: int | None = None
    """Smallest link of the workers' nodes; None when unknown."""

    @property
    def num_ranks(self) -> int:
        """Ranks of the world."""
        return sum(self.workers.values())

    @property
    def worker_pods(self) -> Mapping[str, Vendor]:
        """Name of every worker pod, as Volcano names it -> whose GPU it must have."""
        return {
            f"{self.job}-{ACCELERATORS[vendor].task}-{index}": vendor
            for vendor, count in self.workers.items()
            for index in range(count)
        }


class Node(_Frozen):
    """One node, as far as the report shows it."""

    name: str
    vendor: Vendor | None = None
    pool: str = ""
    instance_type: str = ""
    link_mbits: int | None = None
    cpus: str = ""
    gpus: Mapping[str, int] = Field(default_factory=dict)
    """Extended resource -> allocatable number."""
    is_ready: bool = True


class Pod(_Frozen):
    """One pod and the moments of its life, Unix seconds; None where it did not come so far."""

    name: str
    uid: str
    task: str
    node: str | None = None
    phase: str = "Pending"
    created: float
    scheduled: float | None = None
    started: float | None = None
    """The container, not the pod's sandbox."""
    ready: float | None = None
    finished: float | None = None
    exit_code: int | None = None
    waiting: str = ""
    """Why it does not run: the kubelet's or the scheduler's reason."""


class JobPhase(_Frozen):
    """Volcano's phase of the job, from when on."""

    phase: str
    time: float


class ClusterEvent(_Frozen):
    """A Kubernetes event about the job or one of its pods."""

    time: float
    kind: str
    name: str
    type: str
    reason: str
    message: str


class Timing(_Frozen):
    """How long one step took."""

    step: str
    seconds: float


class Record(_Frozen):
    """One run as the cluster saw it."""

    request: Request
    started: float
    """When the command began, Unix seconds."""
    finished: float
    server: str = ""
    """Version of the API server."""
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    phases: tuple[JobPhase, ...] = ()
    phase: str = ""
    """Volcano's last phase; empty when it never gave one."""
    phase_message: str = ""
    num_retries: int = 0
    events: tuple[ClusterEvent, ...] = ()
    problem: str | None = None
    """What ended the watch early, as a sentence with its remedy; None when the job ended itself."""
    log_tail: tuple[str, ...] = ()
    """The launcher's last lines that are no events."""
    timings: tuple[Timing, ...] = ()

    def pod(self, name: str) -> Pod | None:
        """The pod of that name."""
        return next((pod for pod in self.pods if pod.name == name), None)

    def node(self, name: str | None) -> Node | None:
        """The node of that name."""
        return next((node for node in self.nodes if node.name == name), None)

    def save(self, path: Path) -> None:
        """Writes the record beside the job's events."""
        path.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Record":
        """Reads what `save` wrote."""
        return cls.model_validate_json(path.read_text(encoding="utf-8"))


_TIMINGS: TypeAdapter[Timing] = TypeAdapter(Timing)


def read_timings(path: Path) -> tuple[Timing, ...]:
    """Steps that other commands wrote, one JSON object per line; none when there is no file."""
    if not path.is_file():
        return ()
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(_TIMINGS.validate_json(line) for line in lines if line.strip())


def append_timing(path: Path, timing: Timing) -> None:
    """Adds one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(timing.model_dump_json() + "\n")
