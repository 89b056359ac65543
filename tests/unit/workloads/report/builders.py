"""Builders of one good run, as the launcher and the cluster would tell it; tests change one thing.

Times follow from a link model, so that plots of built runs look like plots of real ones.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from infra.accelerators import ACCELERATORS, Vendor
from workloads.report.record import ClusterEvent, JobPhase, Node, Pod, Record, Request, Timing
from workloads.report.results import BYTES_PER_ELEMENT, Results, parse_log

JOB = "allreduce-x7k2p"
START = 1_790_000_000.0
LINKS_MBITS = {Vendor.NVIDIA: 5_000, Vendor.AMD: 2_000}
LINK_MBITS = min(LINKS_MBITS.values())
CARRIERS = ("libucc", "mpi", "gloo")
MAX_BYTES = 1 << 20
SIZES = (4, 36, 1_028, 65_540, 1_048_572)
OPS = ("sum", "max", "avg")
DTYPES = ("float32", "float64", "int64")
EFFICIENCY = {"libucc": 0.84, "mpi": 0.52, "gloo": 0.95}
LATENCY = {"libucc": 6e-5, "mpi": 3e-5, "gloo": 2.2e-4}

JsonObject = dict[str, Any]


def a_request(
    nvidia: int = 1, amd: int = 1, carriers: tuple[str, ...] = CARRIERS, **changes: Any
) -> Request:
    return Request(
        **{
            "job": JOB,
            "namespace": "crossvendor-training",
            "workers": {Vendor.NVIDIA: nvidia, Vendor.AMD: amd},
            "carriers": carriers,
            "max_bytes": MAX_BYTES,
            "link_mbits": LINK_MBITS,
            **changes,
        }
    )


def a_rank(request: Request, carrier: str, number: int) -> JsonObject:
    pod, vendor = list(request.worker_pods.items())[number]
    return {
        "event": "rank",
        "time": START + 14,
        "carrier": carrier,
        "rank": number,
        "hostname": pod,
        "pod": pod,
        "vendor": vendor.value,
        "device": "cpu",
        "versions": {"python": "3.13.5", "torch": "2.6.0", "ucc": "1.4.0", "ucx": "1.22.0"},
        "origins": {"ucc": "wheel nvidia-libcal-cu12 0.4.4.50.post1"},
        "settings": {
            "UCC_TL_UCP_ALLREDUCE_SRA_KN_PIPELINE": "n",
            "UCX_NET_DEVICES": "eth0",
            "UCX_TLS": "tcp,self,sm",
            "UCC_CLS": "basic",
        },
    }


def a_case(request: Request, carrier: str, **changes: Any) -> JsonObject:
    """One right case, timed by the link model; derived figures follow what is changed."""
    size = request.num_ranks
    case: JsonObject = {
        "event": "case",
        "time": START + 15,
        "carrier": carrier,
        "collective": "allreduce",
        "op": "sum",
        "dtype": "float32",
        "in_place": False,
        "team": "world",
        "team_ranks": list(range(size)),
        "num_elements": 1,
        "correct": True,
        "num_wrong_elements": 0,
        "first_wrong": None,
        "iterations": 5,
        "error": None,
        **changes,
    }
    num_bytes = case["num_elements"] * BYTES_PER_ELEMENT[case["dtype"]]
    factor = 2 * (size - 1) / size
    least = num_bytes * factor / (LINK_MBITS * 1e6 / 8)
    seconds = LATENCY.get(carrier, 1e-4) + least / EFFICIENCY.get(carrier, 0.5)
    algbw = num_bytes / seconds / 1e6
    derived = {
        "num_bytes": num_bytes,
        "seconds": seconds,
        "algbw_mbs": algbw,
        "busbw_mbs": algbw * factor,
        "link_share": least / seconds,
    }
    return {**derived, **case}


def cases_of(
    request: Request, carrier: str, sizes: Iterable[int] = SIZES, ops: Iterable[str] = OPS
) -> list[JsonObject]:
    """What a carrier tries: every combination on the whole team, and a reversed team."""
    size = request.num_ranks
    sizes = tuple(sizes)
    cases = [
        a_case(
            request,
            carrier,
            op=op,
            dtype=dtype,
            in_place=in_place,
            num_elements=max(1, num_bytes // BYTES_PER_ELEMENT[dtype]),
        )
        for op in ops
        for dtype in DTYPES
        for in_place in (False, True)
        for num_bytes in sizes
        if not (op == "avg" and dtype == "int64")
    ]
    backwards = list(reversed(range(size)))
    cases += [
        a_case(request, carrier, team="reversed", team_ranks=backwards, num_elements=n // 4)
        for n in sizes
    ]
    return [{**case, "time": START + 15 + i / 100} for i, case in enumerate(cases)]


def a_summary(carrier: str, cases: list[JsonObject], **changes: Any) -> JsonObject:
    wrong = [case for case in cases if not case["correct"]]
    return {
        "event": "summary",
        "time": START + 18,
        "carrier": carrier,
        "num_cases": len(cases),
        "num_wrong": len(wrong),
        "num_skipped": 0,
        "skipped": [],
        "passed": not wrong,
        "seconds": 3.2,
        **changes,
    }


def events(request: Request, sizes: Iterable[int] = SIZES) -> list[JsonObject]:
    """A whole good log."""
    sizes = tuple(sizes)
    log: list[JsonObject] = [
        _phase("waiting-for-workers", 11.0, detail=f"{request.num_ranks} workers"),
        _phase("workers-ready", 13.5),
    ]
    clock = 14.0
    for carrier in request.carriers:
        ops = ("sum", "max") if carrier == "mpi" else OPS
        cases = cases_of(request, carrier, sizes, ops)
        skipped = [{"what": "avg", "why": "MPI has no average"}] if carrier == "mpi" else []
        log.append(_phase("carrier-started", clock, carrier=carrier))
        log += [
            {**a_rank(request, carrier, number), "time": START + clock + 0.8}
            for number in range(request.num_ranks)
        ]
        for case in cases:
            clock += 5.0 / len(cases)
            log.append({**case, "time": START + clock + 1})
        clock += 1.5
        summary = a_summary(carrier, cases, skipped=skipped, num_skipped=len(skipped))
        log.append({**summary, "time": START + clock})
        log.append(_phase("carrier-finished", clock, carrier=carrier))
    log.append(_phase("done", clock))
    log.append(
        {
            "event": "verdict",
            "time": START + clock,
            "passed": True,
            "carriers": {carrier: True for carrier in request.carriers},
            "message": "every case is right",
        }
    )
    return log


def a_record(request: Request, **changes: Any) -> Record:
    """The cluster's side of a good run: one node per worker and one for the launcher."""
    end = START + 14 + 6.5 * len(request.carriers)
    nodes = [Node(name="crossvendor-system-0", pool="system", instance_type="m6i.large", cpus="2")]
    pods = [
        Pod(
            name=f"{request.job}-launcher-0",
            uid="u-launcher",
            task="launcher",
            node=nodes[0].name,
            phase="Succeeded",
            created=START + 8,
            scheduled=START + 8.5,
            started=START + 10,
            ready=START + 10,
            finished=end,
            exit_code=0,
        )
    ]
    indexes: dict[Vendor, int] = {}
    for name, vendor in request.worker_pods.items():
        index = indexes[vendor] = indexes.get(vendor, -1) + 1
        accelerator = ACCELERATORS[vendor]
        node = Node(
            name=f"crossvendor-{vendor.value}-{index}",
            vendor=vendor,
            pool=vendor.value,
            instance_type=f"{accelerator.instance_family}.xlarge",
            link_mbits=LINKS_MBITS[vendor],
            cpus="2",
            gpus={accelerator.resource: 1},
        )
        nodes.append(node)
        pods.append(
            Pod(
                name=name,
                uid=f"u-{name}",
                task=accelerator.task,
                node=node.name,
                phase="Succeeded",
                created=START + 1,
                scheduled=START + 2.2,
                started=START + 4 + index,
                ready=START + 8 + index,
                finished=end + 1,
                exit_code=0,
            )
        )
    record = Record(
        request=request,
        started=START,
        finished=end + 4,
        server="v1.35.4",
        nodes=tuple(nodes),
        pods=tuple(pods),
        phases=(
            JobPhase(phase="Pending", time=START + 0.5),
            JobPhase(phase="Running", time=START + 9),
            JobPhase(phase="Completing", time=end),
            JobPhase(phase="Completed", time=end + 2),
        ),
        phase="Completed",
        events=(
            ClusterEvent(
                time=START + 2.2,
                kind="Pod",
                name=f"{request.job}-worker-nvidia-0",
                type="Normal",
                reason="Scheduled",
                message="Successfully assigned to crossvendor-nvidia-0",
            ),
        ),
        timings=(
            Timing(step="control plane", seconds=3.9),
            Timing(step="nodes", seconds=11.2),
            Timing(step="platform", seconds=9.4),
            Timing(step="allreduce job", seconds=end - START),
        ),
    )
    return record.model_copy(update=changes)


def log_of(objects: Iterable[Mapping[str, Any]]) -> list[str]:
    """The lines of a launcher's log with these events, and text between them."""
    return ["Warning: Permanently added '[worker]:2222'", *(json.dumps(item) for item in objects)]


def results_of(
    request: Request, change: Callable[[list[JsonObject]], None] | None = None
) -> Results:
    """The results of a good log, after `change` has edited its events in place."""
    objects = events(request)
    if change is not None:
        change(objects)
    return parse_log(log_of(objects))


def _phase(phase: str, after: float, *, carrier: str | None = None, detail: str = "") -> JsonObject:
    return {
        "event": "phase",
        "time": START + after,
        "phase": phase,
        "carrier": carrier,
        "detail": detail,
    }
