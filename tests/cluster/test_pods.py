"""A job's pods from inside: where they run, as whom, with what rights, and what they serve."""

import re
from typing import Any

import pytest

from infra.accelerators import ACCELERATORS, Vendor
from infra.names import LABEL_VENDOR, SSH_PORT
from tests.cluster.conftest import TASKS, Host, Submitted

pytestmark = pytest.mark.cluster

_NO_CAPABILITIES = 0
_SECCOMP_FILTER = 2
_LISTEN = "0A"


def process_status(host: Any) -> dict[str, str]:
    """The fields of the container's first process."""
    lines = host.file("/proc/1/status").content_string.splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


@pytest.mark.parametrize("vendor", Vendor)
def test_workers_run_on_their_vendors_nodes(
    open_job: Submitted, nodes: dict[str, dict[str, Any]], vendor: Vendor
) -> None:
    pods = open_job.pods(ACCELERATORS[vendor].task)
    assert pods
    for pod in pods:
        assert nodes[pod["spec"]["nodeName"]]["metadata"]["labels"][LABEL_VENDOR] == vendor


def test_the_launcher_runs_on_a_node_without_gpu(
    open_job: Submitted, nodes: dict[str, dict[str, Any]]
) -> None:
    [pod] = open_job.pods("launcher")
    label = nodes[pod["spec"]["nodeName"]]["metadata"]["labels"].get(LABEL_VENDOR)
    assert label not in {vendor.value for vendor in Vendor}


@pytest.mark.parametrize("task", TASKS)
def test_nobody_is_root(host: Host, task: str) -> None:
    assert host(task).check_output("id -u") == "1000"
    uids = process_status(host(task))["Uid"].split()
    assert uids == ["1000"] * 4


@pytest.mark.parametrize("task", TASKS)
def test_nobody_has_a_capability_or_can_get_one(host: Host, task: str) -> None:
    status = process_status(host(task))
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[kind], 16) == _NO_CAPABILITIES, kind
    assert status["NoNewPrivs"] == "1"


@pytest.mark.parametrize("task", TASKS)
def test_system_calls_are_filtered(host: Host, task: str) -> None:
    assert int(process_status(host(task))["Seccomp"]) == _SECCOMP_FILTER


@pytest.mark.parametrize("task", TASKS)
def test_the_root_file_system_is_read_only(host: Host, task: str) -> None:
    done = host(task).run("touch /opt/crossvendor/new /usr/new")
    assert done.rc != 0
    assert "Read-only file system" in done.stderr
    assert host(task).run("touch /tmp/new ~/new").rc == 0


@pytest.mark.parametrize("task", TASKS)
def test_no_token_of_the_api_server_is_mounted(host: Host, task: str) -> None:
    assert not host(task).file("/var/run/secrets/kubernetes.io/serviceaccount").exists


def listening_ports(host: Any) -> set[int]:
    """TCP ports on which anything in the pod's network namespace listens."""
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in host.file(table).content_string.splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTEN:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


@pytest.mark.parametrize("vendor", Vendor)
def test_workers_listen_on_the_ssh_port_only(host: Host, vendor: Vendor) -> None:
    assert listening_ports(host(ACCELERATORS[vendor].task)) == {SSH_PORT}


def test_the_launcher_listens_nowhere(host: Host) -> None:
    assert listening_ports(host("launcher")) == set()


@pytest.mark.parametrize("vendor", Vendor)
def test_a_worker_can_use_no_file_system_path_of_its_node(
    open_job: Submitted, vendor: Vendor
) -> None:
    for pod in open_job.pods(ACCELERATORS[vendor].task):
        assert not [v for v in pod["spec"]["volumes"] if "hostPath" in v]
        assert not pod["spec"].get("hostNetwork", False)


@pytest.mark.parametrize("vendor", Vendor)
def test_the_launcher_resolves_and_reaches_every_worker(
    host: Host, open_job: Submitted, vendor: Vendor
) -> None:
    for pod in open_job.pods(ACCELERATORS[vendor].task):
        name = f"{pod['metadata']['name']}.{open_job.name}"
        found = host("launcher").check_output(f"getent hosts {name}")
        assert found.split()[0] == pod["status"]["podIP"]
        connect = f"exec 3<>/dev/tcp/{name}/{SSH_PORT}; head -c 8 <&3"
        banner = host("launcher").check_output("timeout 5 bash -c %s", connect)
        assert re.match(r"SSH-2\.0-", banner)
