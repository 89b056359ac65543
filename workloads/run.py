"""`python -m workloads.run allreduce`: submits the job, follows it, judges it, reports it.

Exit status 0 for PASS, 1 for FAIL, 2 when nothing could be run, 130 when interrupted.
"""

import argparse
import json
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from infra.accelerators import Vendor
from infra.names import ANNOTATION_OWNER, LABEL_JOB, LABEL_VENDOR, NAMESPACE_TRAINING
from workloads import jobs
from workloads.following import JOBS, Deadlines, Follower
from workloads.kubectl import Kubectl, KubectlError, NoKubectlError
from workloads.progress import view
from workloads.report import page, terminal
from workloads.report.judgement import judge
from workloads.report.record import (
    ClusterEvent,
    Node,
    Record,
    Request,
    Timing,
    append_timing,
    read_timings,
)
from workloads.report.results import is_event, parse_log
from workloads.watching import FINAL_PHASES, Watch, node_of

EXIT_FAILED: Final = 1
EXIT_UNUSABLE: Final = 2
EXIT_INTERRUPTED: Final = 130

PLAIN_WIDTH: Final = 140


class CannotRunError(Exception):
    """Nothing was run: one sentence with the remedy."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The command line."""

    workers: Mapping[Vendor, int | None]
    """None for as many as the cluster has nodes."""
    check: jobs.Check
    kubectl: Kubectl
    deadlines: Deadlines
    keeps_job: bool
    report: Path
    results: Path
    timings: Path | None


def main(arguments: Sequence[str]) -> int:
    """The command."""
    # Where lines cannot be redrawn they can be long: a log is read with its own wrapping.
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    try:
        options = parse(arguments)
    except CannotRunError as error:
        print(error, file=sys.stderr)
        return EXIT_UNUSABLE
    try:
        # Make and CI end a command with SIGTERM; it is to leave no job behind either.
        signal.signal(signal.SIGTERM, _interrupt)
        return run(options, console)
    except CannotRunError as error:
        print(error, file=sys.stderr)
        return EXIT_UNUSABLE
    except KeyboardInterrupt:
        left = "a job may be left" if options.keeps_job else "no job is left"
        print(f"interrupted; {left} in the cluster.", file=sys.stderr)
        return EXIT_INTERRUPTED


def parse(arguments: Sequence[str]) -> Options:
    """The options. Raises CannotRunError, or leaves with status 2 as argparse does."""
    defaults = jobs.Check()
    parser = argparse.ArgumentParser(prog="python -m workloads.run", description=__doc__)
    parser.add_argument("job", choices=[jobs.ALLREDUCE], help="which job")
    for vendor in Vendor:
        parser.add_argument(
            f"--{vendor.value}",
            type=int,
            metavar="N",
            help=f"{vendor.value} workers; default: as many as nodes",
        )
    add = parser.add_argument
    add("--carriers", default=",".join(defaults.carriers), help="default: %(default)s")
    add("--max-bytes", type=int, default=defaults.max_bytes, help="largest message")
    add("--quick", action="store_true", help="a few cases of each kind")
    add("--kubeconfig", type=Path, help="default: kubectl's own choice")
    add("--kubectl", default="kubectl", help="the program; default: the one on the PATH")
    add("--timeout", type=float, default=1800, metavar="S", help="for the whole job")
    add("--start-timeout", type=float, default=180, metavar="S", help="until all workers are ready")
    add("--keep", action="store_true", help="leave the job in the cluster")
    add("--report", type=Path, default=Path("build/report"), metavar="DIR")
    add("--results", type=Path, default=Path("build/results"), metavar="DIR")
    add("--timings", type=Path, metavar="FILE", help="timings of earlier steps; ours are added")
    add("--fault", help="a fault for the ranks to make; the verdict must then be FAIL")
    chosen = parser.parse_args(arguments)
    try:
        check = jobs.Check(
            carriers=tuple(_carrier(name) for name in chosen.carriers.split(",")),
            max_bytes=chosen.max_bytes,
            quick=chosen.quick,
            fault=chosen.fault,
        )
    except ValueError as error:
        raise CannotRunError(str(error)) from error
    if chosen.timeout <= 0 or chosen.start_timeout <= 0:
        msg = "--timeout, --start-timeout: must be positive numbers of seconds."
        raise CannotRunError(msg)
    if chosen.kubeconfig is not None and not chosen.kubeconfig.is_file():
        msg = f"--kubeconfig: {chosen.kubeconfig} does not exist; `make up` writes the local one."
        raise CannotRunError(msg)
    return Options(
        workers={vendor: getattr(chosen, vendor.value) for vendor in Vendor},
        check=check,
        kubectl=Kubectl(program=chosen.kubectl, kubeconfig=chosen.kubeconfig),
        deadlines=Deadlines(
            start_seconds=chosen.start_timeout, total_seconds=chosen.timeout
        ),
        keeps_job=chosen.keep,
        report=chosen.report,
        results=chosen.results,
        timings=chosen.timings,
    )  # fmt: skip


def run(options: Options, console: Console) -> int:
    """One job from its submission to its report. Raises CannotRunError before there is a job."""
    started = time.time()
    kubectl = options.kubectl
    earlier = _earlier(options.timings)
    server = _server(kubectl)
    nodes = _nodes(kubectl)
    workers = num_workers(options.workers, nodes)
    link = slowest_link(nodes, workers)
    try:
        job = jobs.allreduce(workers=workers, check=options.check, link_mbits=link)
    except ValueError as error:
        raise CannotRunError(str(error)) from error
    manifest = named(job.to_dict())
    request = Request(
        job=manifest["metadata"]["name"],
        namespace=job.namespace,
        workers=workers,
        carriers=tuple(carrier.value for carrier in options.check.carriers),
        max_bytes=options.check.max_bytes,
        quick=options.check.quick,
        link_mbits=link,
    )
    _remove_orphans(kubectl, console)
    watch = Watch(request=request, nodes=nodes, started=started)
    problem: str | None = None
    events: tuple[ClusterEvent, ...] = ()
    try:
        _create(kubectl, manifest)
        say(console, f"job {request.job} created in {request.namespace}")
        with view(console) as show:
            follower = Follower(
                kubectl=kubectl, watch=watch, deadlines=options.deadlines, on_change=show
            )
            problem = follower.follow()
        try:
            events = follower.events()
        except KubectlError as error:
            say(console, f"the cluster's events cannot be read: {error}")
    finally:
        if not options.keeps_job:
            _delete(kubectl, request.job, console)
    seconds = Timing(step="allreduce job", seconds=time.time() - started)
    record = watch.record(
        finished=time.time(),
        server=server,
        problem=problem,
        events=events,
        timings=(*earlier, seconds),
    )
    return _report(options, console, record, watch.lines)


def num_workers(asked: Mapping[Vendor, int | None], nodes: Sequence[Node]) -> dict[Vendor, int]:
    """Workers per vendor: what was asked for, else one per ready node. Raises CannotRunError."""
    workers: dict[Vendor, int] = {}
    for vendor, number in asked.items():
        present = [node for node in nodes if node.vendor is vendor and node.is_ready]
        if number is None and not present:
            msg = (
                f"cluster: no ready node is labelled {LABEL_VENDOR}={vendor.value}; add one, or "
                f"choose the number of workers with --{vendor.value}."
            )
            raise CannotRunError(msg)
        if number is not None and number < 0:
            msg = f"--{vendor.value}: {number} is negative; use 0 or more."
            raise CannotRunError(msg)
        workers[vendor] = len(present) if number is None else number
    return workers


def slowest_link(nodes: Sequence[Node], workers: Mapping[Vendor, int]) -> int | None:
    """The smallest link among the nodes that workers may get; None when none is known."""
    links = [node.link_mbits for node in nodes if node.vendor and workers.get(node.vendor, 0)]
    known = [link for link in links if link is not None]
    return min(known) if known else None


def named(manifest: dict[str, Any]) -> dict[str, Any]:
    """The job with a name of its own, chosen here so that it can be deleted at any moment."""
    metadata = {**manifest["metadata"]}
    prefix = metadata.pop("generateName")
    annotations = {**metadata.get("annotations", {}), ANNOTATION_OWNER: owner(os.getpid())}
    metadata |= {"name": f"{prefix}{secrets.token_hex(3)}", "annotations": annotations}
    return {**manifest, "metadata": metadata}


def owner(pid: int) -> str:
    """A process of this machine, such that a later one with the same number is another."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return f"{socket.gethostname()}/{pid}/{fields[19]}"  # its start, in ticks since boot


def is_orphan(job: Mapping[str, Any]) -> bool:
    """Whether an unfinished job was left by a command of this machine that is no more."""
    claimed = str(job["metadata"].get("annotations", {}).get(ANNOTATION_OWNER, ""))
    host, _, rest = claimed.partition("/")
    pid = rest.partition("/")[0]
    if host != socket.gethostname() or not pid.isdecimal():
        return False
    if job.get("status", {}).get("state", {}).get("phase") in FINAL_PHASES:
        return False
    try:
        return owner(int(pid)) != claimed
    except OSError:
        return True


def say(console: Console, text: str) -> None:
    """A line for a person; what a cluster said is never markup."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _carrier(name: str) -> jobs.Carrier:
    try:
        return jobs.Carrier(name.strip())
    except ValueError as error:
        msg = f"--carriers: {name!r} is not one; use {', '.join(jobs.Carrier)}."
        raise CannotRunError(msg) from error


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _earlier(timings: Path | None) -> tuple[Timing, ...]:
    if timings is None:
        return ()
    try:
        return read_timings(timings)
    except (OSError, ValueError) as error:
        msg = f'--timings: {timings} is not lines of {{"step", "seconds"}}; remove it.'
        raise CannotRunError(msg) from error


def _server(kubectl: Kubectl) -> str:
    try:
        version = json.loads(kubectl.run("get", "--raw", "/version"))
        return str(version["gitVersion"])
    except NoKubectlError as error:
        raise CannotRunError(str(error)) from error
    except (KubectlError, ValueError, KeyError, TypeError) as error:
        where = kubectl.kubeconfig if kubectl.kubeconfig is not None else "kubectl's own kubeconfig"
        msg = f"cluster of {where}: {error}; start one with `make up`, or give --kubeconfig."
        raise CannotRunError(msg) from error


def _nodes(kubectl: Kubectl) -> tuple[Node, ...]:
    try:
        return tuple(node_of(node) for node in kubectl.items("nodes"))
    except KubectlError as error:
        msg = f"cluster: its nodes cannot be listed: {error}; use a kubeconfig that may."
        raise CannotRunError(msg) from error


def _create(kubectl: Kubectl, manifest: Mapping[str, Any]) -> None:
    try:
        kubectl.create(manifest)
    except KubectlError as error:
        msg = (
            f"job {manifest['metadata']['name']}: the API server refused it: {error}; "
            "deploy the platform with `make up` or `pulumi up`."
        )
        raise CannotRunError(msg) from error


def _remove_orphans(kubectl: Kubectl, console: Console) -> None:
    """Frees the GPUs that a killed command's job still holds."""
    selector = f"--selector={LABEL_JOB}={jobs.ALLREDUCE}"
    try:
        left = kubectl.items(JOBS, f"--namespace={NAMESPACE_TRAINING}", selector)
    except KubectlError as error:
        msg = (
            f"cluster: its Volcano jobs cannot be listed: {error}; "
            "deploy the platform with `make up` or `pulumi up`."
        )
        raise CannotRunError(msg) from error
    for job in left:
        if is_orphan(job):
            name = job["metadata"]["name"]
            say(console, f"job {name} was left by a command that was killed: deleting it")
            _delete(kubectl, name, console)


def _delete(kubectl: Kubectl, name: str, console: Console) -> None:
    try:
        kubectl.run(
            "delete", JOBS, name, f"--namespace={NAMESPACE_TRAINING}",
            "--ignore-not-found", "--wait=false",
        )  # fmt: skip
    except KubectlError as error:
        command = f"kubectl delete {JOBS} {name} -n {NAMESPACE_TRAINING}"
        say(console, f"job {name} cannot be deleted: {error}; later run `{command}`.")


def _report(options: Options, console: Console, record: Record, lines: Sequence[str]) -> int:
    """Judges, writes the files, shows the short form."""
    begun = time.monotonic()
    results = parse_log(lines)
    judgement = judge(record, results)
    log = options.results / f"{record.request.job}.jsonl"
    index = options.report / "index.html"
    try:
        _save(log, record, lines)
        page.write(index, record, results, judgement)
    except OSError as error:
        terminal.show_verdict(console, judgement, None)
        why = f"cannot be written: {error.strerror}"
        msg = f"{error.filename}: {why}; make room, or choose --report and --results."
        raise CannotRunError(msg) from error
    steps = (*record.timings, Timing(step="report", seconds=time.monotonic() - begun))
    if options.timings is not None:
        for step in steps[-2:]:
            append_timing(options.timings, step)
    terminal.show(console, record, results, judgement)
    terminal.show_timings(console, steps)
    terminal.show_verdict(console, judgement, index)
    return 0 if judgement.passed else EXIT_FAILED


def _save(log: Path, record: Record, lines: Sequence[str]) -> None:
    """The events, the launcher's whole log, and what the cluster saw, beside each other."""
    log.parent.mkdir(parents=True, exist_ok=True)
    events = [line for line in lines if is_event(line)]
    for path, chosen in ((log, events), (log.with_suffix(".log"), lines)):
        path.write_text("".join(f"{line}\n" for line in chosen), encoding="utf-8")
    record.save(log.with_suffix(".record.json"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
