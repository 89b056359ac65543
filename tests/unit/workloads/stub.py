"""A program that stands for kubectl and a cluster: answers from files, so that tests run offline.

What real streams do is what matters here: they come in pieces, break off, and start again.
"""

import json
import stat
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.unit.workloads.report.builders import START, a_record, a_request, events, log_of
from workloads.kubectl import Kubectl
from workloads.report.record import Pod, Request

PROGRAM = """#!{python} -SE
import json, sys, time
from pathlib import Path
folder = Path({folder!r})
arguments = [a for a in sys.argv[1:] if not a.startswith(("--kubeconfig", "--request-timeout"))]
command = " ".join(arguments)
with (folder / "calls").open("a") as calls:
    calls.write(command + chr(10))

def give(name, default=None):
    made = folder / "created.json"
    job = json.loads(made.read_text())["metadata"]["name"] if made.exists() else "none"
    file = folder / name
    if not file.exists():
        if default is None:
            sys.exit("Error from server (NotFound): " + name + " not found")
        return default
    return file.read_text().replace("@JOB@", job)

def stream(name):
    while not (folder / "created.json").exists():
        time.sleep(0.01)
    for line in give(name).splitlines(keepends=True):
        if line.startswith("@SLEEP@"):
            time.sleep(float(line.split()[1]))
        elif line.startswith("@CUT@"):
            # The first connection is lost here, in the middle of the next line.
            if not (folder / (name + ".cut")).exists():
                (folder / (name + ".cut")).touch()
                sys.stdout.write('{{"event": "phase", "ti')
                sys.exit(1)
        else:
            sys.stdout.write(line)
            sys.stdout.flush()

if "--raw /version" in command:
    print(give("version", '{{"gitVersion": "v1.35.4"}}'))
elif "--raw" in command:
    name = "pods" if "/pods?" in command else "job"
    stream(name)
    time.sleep(60)
elif arguments[0] == "create":
    if (folder / "refusal").exists():
        sys.exit(give("refusal"))
    text = sys.stdin.read()
    (folder / "created.json").write_text(text)
    print(text)
elif arguments[0] == "logs":
    stream("log")
elif arguments[0] == "delete":
    print("deleted")
elif arguments[:2] == ["get", "nodes"]:
    print(give("nodes"))
elif arguments[:2] == ["get", "events"]:
    print(give("events", '{{"items": []}}'))
elif arguments[1].startswith("podgroups"):
    print(give("groups", '{{"items": []}}'))
elif arguments[1].startswith("jobs"):
    print(give("jobs", '{{"items": []}}'))
else:
    sys.exit("stub: " + command)
"""


def iso(moment: float) -> str:
    """A Kubernetes time."""
    return datetime.fromtimestamp(moment, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Cluster:
    """The files of one stub."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.program = folder / "kubectl"
        self.program.write_text(PROGRAM.format(python=sys.executable, folder=str(folder)))
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)

    @property
    def kubectl(self) -> Kubectl:
        """The client of this cluster."""
        return Kubectl(program=str(self.program))

    @property
    def calls(self) -> list[str]:
        """Every command so far."""
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def write(self, name: str, *values: Any) -> None:
        """A file with one line per value: text as it is, anything else as JSON."""
        lines = [value if isinstance(value, str) else json.dumps(value) for value in values]
        (self.folder / name).write_text("".join(f"{line}\n" for line in lines))


def a_cluster(folder: Path, request: Request | None = None) -> Cluster:
    """A cluster in which the job runs well; a test overwrites one file."""
    cluster = Cluster(folder)
    request = a_request(job="@JOB@") if request is None else request
    record = a_record(request)
    cluster.write("nodes", {"items": [a_node(node) for node in record.nodes]})
    changes = [changed(a_pod(pod)) for pod in record.pods]
    cluster.write("pods", *changes)
    cluster.write("log", *log_of(events(request)))
    cluster.write("job", changed(a_job("Pending")), "@SLEEP@ 0.4", changed(a_job("Completed")))
    return cluster


def changed(thing: Any, kind: str = "MODIFIED") -> dict[str, Any]:
    """A line of a watch."""
    return {"type": kind, "object": thing}


def a_job(phase: str, **metadata: Any) -> dict[str, Any]:
    """A Volcano job as the API server shows it."""
    return {
        "metadata": {"name": "@JOB@", **metadata},
        "status": {
            "state": {"phase": phase},
            "conditions": [
                {"status": "Pending", "lastTransitionTime": iso(START)},
                {"status": phase, "lastTransitionTime": iso(START + 9)},
            ],
        },
    }


def a_node(node: Any, **annotations: str) -> dict[str, Any]:
    """A Kubernetes Node of the record's node."""
    link = {} if node.link_mbits is None else {"crossvendor.dev/link-mbits": str(node.link_mbits)}
    return {
        "metadata": {
            "name": node.name,
            "labels": {
                "crossvendor.dev/vendor": node.vendor.value if node.vendor else "none",
                "crossvendor.dev/pool": node.pool,
                "node.kubernetes.io/instance-type": node.instance_type,
            },
            "annotations": {**link, **annotations},
        },
        "status": {
            "allocatable": {"cpu": node.cpus, **{n: str(c) for n, c in node.gpus.items()}},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def a_pod(pod: Pod, **status: Any) -> dict[str, Any]:
    """A Kubernetes Pod of the record's pod, as it is while it runs, and then ended."""
    moments = {"PodScheduled": pod.scheduled, "Ready": pod.ready}
    state: dict[str, Any] = {}
    if pod.started is not None:
        state = {"running": {"startedAt": iso(pod.started)}}
    if pod.started is not None and pod.finished is not None:
        state = {
            "terminated": {
                "startedAt": iso(pod.started),
                "finishedAt": iso(pod.finished),
                "exitCode": pod.exit_code,
            }
        }
    return {
        "metadata": {
            "name": pod.name,
            "uid": pod.uid,
            "creationTimestamp": iso(pod.created),
            "labels": {"volcano.sh/task-spec": pod.task},
        },
        "spec": {"nodeName": pod.node} if pod.node else {},
        "status": {
            "phase": pod.phase,
            "conditions": [
                {"type": name, "status": "True", "lastTransitionTime": iso(moment)}
                for name, moment in moments.items()
                if moment is not None
            ],
            "containerStatuses": [{"state": state}] if state else [],
            **status,
        },
    }
