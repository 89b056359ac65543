"""The jobs: one small pure function each, from the vendor table and a few typed choices.

Owns what runs where, with which settings. How Volcano spells it is in workloads/volcano.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from images.catalog import IMAGES
from infra.accelerators import ACCELERATORS, Accelerator, Vendor
from infra.names import (
    LABEL_JOB,
    LABEL_ROLE,
    LABEL_VENDOR,
    NAMESPACE_TRAINING,
    PRIORITY_TRAINING,
    QUEUE_TRAINING,
    SERVICE_ACCOUNT_TRAINING,
    SSH_PORT,
)
from workloads.volcano import (
    Action,
    Container,
    Event,
    NodeLabel,
    Operator,
    Policy,
    Resources,
    Scratch,
    Task,
    VolcanoJob,
)

MIB: Final = 1024**2

ALLREDUCE: Final = "allreduce"
ROLE_LAUNCHER: Final = "launcher"
ROLE_WORKER: Final = "worker"

HOME: Final = "/home/mpiuser"
SSH_KEY_FOLDER: Final = f"{HOME}/.ssh-volcano"
"""Where Volcano's ssh plugin puts the job's key; each container copies it from there."""
HOSTS_FOLDER: Final = "/etc/volcano"
"""Where Volcano's svc plugin puts the workers' names; the plugin cannot be told otherwise."""
INTERFACE: Final = "eth0"
"""A pod's only one besides lo, whatever its node's are called."""
MASTER_PORT: Final = 29500
"""First port of the ranks' meeting point; each carrier of a job takes the next one."""

GRACE_SECONDS: Final = 60
"""What a pod's deadline leaves beyond the deadlines inside it, so that those speak first."""


class Carrier(StrEnum):
    """Which library carries a collective."""

    LIBUCC = "libucc"
    MPI = "mpi"
    GLOO = "gloo"


# The communication settings; every rank gets all of them, with the same values, because UCC and
# Open MPI choose algorithms by them and ranks that choose differently hang or truncate.
_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        # Open MPI: UCX for point to point even where there is no InfiniBand, UCC for collectives.
        "OMPI_MCA_pml": "ucx",
        "OMPI_MCA_opal_common_ucx_tls": "any",
        "OMPI_MCA_opal_common_ucx_devices": "any",
        "OMPI_MCA_btl_tcp_if_include": INTERFACE,
        "OMPI_MCA_coll_ucc_enable": "1",
        "OMPI_MCA_coll_ucc_priority": "100",
        # UCC: no vendor's own transport, which only one side of a mixed team has.
        "UCC_CLS": "basic",
        "UCC_TLS": "ucp,self",
        "UCC_CL_BASIC_TLS": "ucp,self",
        # One rank per pod, so shared memory never serves; leaving it out also proves that what
        # arrived went over the network where several pods share a kernel.
        "UCX_TLS": "tcp,self,cuda,rocm",
        "UCX_NET_DEVICES": INTERFACE,
        "UCX_MAX_RNDV_RAILS": "1",
        "GLOO_SOCKET_IFNAME": INTERFACE,
        # UCC picks algorithms from the local CPU (a configuration file), from the memory type of
        # the buffer (pipelining) and from both (allgather): pinned, or switched off.
        "UCC_CONFIG_FILE": "",
        "UCC_TL_UCP_ALLREDUCE_SRA_KN_PIPELINE": "n",
        "UCC_TL_UCP_REDUCE_SRG_KN_PIPELINE": "n",
        "UCC_TL_UCP_TUNE": "allgather:0-inf:@knomial",
        # Debian's torch has no libuv; the store must be the same kind on both ends.
        "USE_LIBUV": "0",
        **{
            name: value
            for accelerator in ACCELERATORS.values()
            for name, value in accelerator.environment.items()
        },
    }
)

# Settings of mpirun itself, which ranks have no use for.
_MPIRUN_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {"PRTE_MCA_prte_if_include": INTERFACE}
)

# Set by the image of the launcher; sshd gives the ranks none of their image's environment.
_EXPORTED_FROM_IMAGE: Final = ("PYTHONPATH",)

_PLUGINS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "env": (),
        # The launcher waits for the workers itself, by name.
        "svc": ("--publish-not-ready-addresses=true",),
        "ssh": (f"--ssh-key-file-path={SSH_KEY_FOLDER}",),
    }
)

_HOME_SCRATCH: Final = Scratch(name="home", path=HOME, size="64Mi")
_TMP_SCRATCH: Final = Scratch(name="tmp", path="/tmp", size="256Mi")  # noqa: S108
_SHM_SCRATCH: Final = Scratch(name="shm", path="/dev/shm", size="1Gi", in_memory=True)  # noqa: S108


_LAUNCHER: Final = Resources(cpu="250m", cpu_limit="1", memory="128Mi", memory_limit="512Mi")
_WORKER: Final = Resources(cpu="500m", cpu_limit="2", memory="1Gi", memory_limit="3Gi")


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What the pods ask for; the defaults fit 2 CPUs per node."""

    launcher: Resources = _LAUNCHER
    worker: Resources = _WORKER
    """Without the GPU. The check of 256 MiB holds several copies of it."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """What the allreduce check goes through."""

    carriers: tuple[Carrier, ...] = tuple(Carrier)
    max_bytes: int = 256 * MIB
    """Largest tensor."""
    quick: bool = False
    """A few cases of each kind instead of all."""
    fault: str | None = None
    """A fault for the ranks to make on purpose, to see that the check finds it."""
    wait_seconds: int = 120
    """For the workers' names and ports, once Volcano has found the workers ready."""
    carrier_seconds: int = 900

    def __post_init__(self) -> None:
        if not self.carriers or len(set(self.carriers)) != len(self.carriers):
            named = ", ".join(self.carriers) or "none"
            msg = f"check: carriers are {named}; name each at most once of {', '.join(Carrier)}."
            raise ValueError(msg)
        if self.max_bytes < 4:
            msg = f"check: max_bytes {self.max_bytes} holds no element; use at least 4."
            raise ValueError(msg)
        for name in ("wait_seconds", "carrier_seconds"):
            if getattr(self, name) < 1:
                msg = f"check: {name} {getattr(self, name)} is not positive; use at least 1."
                raise ValueError(msg)

    @property
    def program(self) -> tuple[str, ...]:
        """What every rank runs; the launcher adds the carrier."""
        return (
            *("python3", "-m", "training.allreduce_check"),
            *("--max-bytes", str(self.max_bytes)),
            *(("--quick",) if self.quick else ()),
            *(("--fault", self.fault) if self.fault is not None else ()),
        )

    @property
    def deadline_seconds(self) -> int:
        """When the launcher has given its verdict at the latest."""
        return self.wait_seconds + len(self.carriers) * self.carrier_seconds + GRACE_SECONDS


def allreduce(
    *,
    workers: Mapping[Vendor, int],
    check: Check = Check(),
    sizes: Sizes = Sizes(),
    link_mbits: int | None = None,
) -> VolcanoJob:
    """An allreduce over all workers of all vendors on every carrier, each value checked.

    `workers` is the number of pods, and so of ranks and GPUs, per vendor. `link_mbits` is the
    slowest link between them, against which the check states its bandwidth; None if unknown.
    """
    negative = [vendor for vendor, number in workers.items() if number < 0]
    if negative or sum(workers.values()) < 2:
        asked = ", ".join(f"{number} {vendor}" for vendor, number in workers.items()) or "none"
        msg = f"allreduce: workers are {asked}; a sum needs at least two, and no fewer than 0 each."
        raise ValueError(msg)
    if link_mbits is not None and link_mbits < 1:
        msg = f"allreduce: link_mbits {link_mbits} is not positive; leave it out if unknown."
        raise ValueError(msg)
    tasks = tuple(
        _worker(accelerator, workers[accelerator.vendor], check, sizes)
        for accelerator in ACCELERATORS.values()
        if workers.get(accelerator.vendor, 0) > 0
    )
    link = {} if link_mbits is None else {"CROSSVENDOR_LINK_MBITS": str(link_mbits)}
    launcher = _launcher({**_SETTINGS, **link}, tuple(task.name for task in tasks), check, sizes)
    return VolcanoJob(
        generate_name=f"{ALLREDUCE}-",
        namespace=NAMESPACE_TRAINING,
        queue=QUEUE_TRAINING,
        service_account=SERVICE_ACCOUNT_TRAINING,
        priority_class=PRIORITY_TRAINING,
        labels={LABEL_JOB: ALLREDUCE},
        plugins=_PLUGINS,
        # The launcher is created when the workers are ready, so they alone are the gang. They
        # come first because Volcano sums up a gang's resources in the order of the tasks.
        tasks=(*tasks, launcher),
        min_available=sum(task.replicas for task in tasks),
        policies=(
            # A check is not retried: what is lost is a result. The delay lets the launcher, which
            # notices within a second, state it first; Volcano keeps the logs of failed pods only.
            Policy(
                events=(Event.POD_FAILED, Event.POD_EVICTED),
                action=Action.TERMINATE_JOB,
                delay_seconds=30,
            ),
        ),
        ttl_seconds=3600,
    )


def _worker(accelerator: Accelerator, replicas: int, check: Check, sizes: Sizes) -> Task:
    resources = Resources(
        cpu=sizes.worker.cpu,
        cpu_limit=sizes.worker.cpu_limit,
        memory=sizes.worker.memory,
        memory_limit=sizes.worker.memory_limit,
        devices={accelerator.resource: 1},
    )
    container = Container(
        name=ROLE_WORKER,
        # Runs on every vendor's nodes, on host memory.
        image=IMAGES["worker-cpu"].reference,
        command=("/usr/local/bin/start-sshd",),
        resources=resources,
        environment={"CROSSVENDOR_VENDOR": accelerator.vendor.value},
        pod_fields={"CROSSVENDOR_POD": "metadata.name"},
        scratch=(_HOME_SCRATCH, _TMP_SCRATCH, _SHM_SCRATCH),
        ready_port=SSH_PORT,
    )
    return Task(
        name=accelerator.task,
        replicas=replicas,
        container=container,
        node=NodeLabel(key=LABEL_VENDOR, operator=Operator.IN, values=(accelerator.vendor.value,)),
        tolerations=(accelerator.taint.toleration,),
        labels={LABEL_ROLE: ROLE_WORKER, LABEL_VENDOR: accelerator.vendor.value},
        # Longer than the launcher, which is created later and perhaps on a node yet to come.
        deadline_seconds=check.deadline_seconds + 10 * GRACE_SECONDS,
    )


def _launcher(
    settings: Mapping[str, str], worker_tasks: tuple[str, ...], check: Check, sizes: Sizes
) -> Task:
    environment = {
        "CROSSVENDOR_CARRIERS": " ".join(check.carriers),
        "CROSSVENDOR_TASKS": " ".join(worker_tasks),
        "CROSSVENDOR_WAIT_SECONDS": str(check.wait_seconds),
        "CROSSVENDOR_CARRIER_SECONDS": str(check.carrier_seconds),
        "CROSSVENDOR_HOSTS_FOLDER": HOSTS_FOLDER,
        "CROSSVENDOR_SSH_KEY": f"{SSH_KEY_FOLDER}/id_rsa",
        "CROSSVENDOR_SSH_PORT": str(SSH_PORT),
        "CROSSVENDOR_MASTER_PORT": str(MASTER_PORT),
        "CROSSVENDOR_EXPORT": " ".join((*_EXPORTED_FROM_IMAGE, *settings)),
        **_MPIRUN_SETTINGS,
        **settings,
    }
    container = Container(
        name=ROLE_LAUNCHER,
        image=IMAGES["launcher"].reference,
        command=("python3", "-m", "training.launcher", *check.program),
        resources=sizes.launcher,
        environment=environment,
        scratch=(_HOME_SCRATCH, _TMP_SCRATCH),
    )
    return Task(
        name=ROLE_LAUNCHER,
        replicas=1,
        container=container,
        node=NodeLabel(
            key=LABEL_VENDOR, operator=Operator.NOT_IN, values=tuple(v.value for v in Vendor)
        ),
        labels={LABEL_ROLE: ROLE_LAUNCHER},
        depends_on=worker_tasks,
        policies=(
            Policy(events=(Event.TASK_COMPLETED,), action=Action.COMPLETE_JOB),
            Policy(events=(Event.POD_FAILED, Event.POD_EVICTED), action=Action.TERMINATE_JOB),
        ),
        # Ends mpirun and says so.
        grace_seconds=20,
        deadline_seconds=check.deadline_seconds,
    )
