"""A real API server on this machine, without nodes or root: etcd and kube-apiserver."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from infra.tools import Tools

BINARIES: Final = ("kube-apiserver", "kubectl", "helm")
START_SECONDS: Final = 60


def _etcd() -> str | None:
    return shutil.which("etcd") or shutil.which("server")  # `go build` names it after its folder


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    """Kubectl and Helm on a fresh API server."""
    missing = [name for name in BINARIES if shutil.which(name) is None]
    etcd = _etcd()
    if missing or etcd is None:
        pytest.skip(f"needs etcd, {', '.join(BINARIES)} on the PATH; the local toolchain has them")
    folder = tmp_path_factory.mktemp("apiserver")
    client, peer, api = _free_ports(3)
    key = folder / "sa.key"
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    (folder / "tokens.csv").write_text('token,admin,1,"system:masters"\n')
    (folder / "kubeconfig").write_text(
        "{apiVersion: v1, kind: Config, current-context: c,"
        f" clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:{api}',"
        " insecure-skip-tls-verify: true}}],"
        " users: [{name: u, user: {token: token}}],"
        " contexts: [{name: c, context: {cluster: c, user: u}}]}\n"
    )
    commands = [
        [
            etcd,
            f"--data-dir={folder}/etcd",
            f"--listen-client-urls=http://127.0.0.1:{client}",
            f"--advertise-client-urls=http://127.0.0.1:{client}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
            "--unsafe-no-fsync",
        ],
        [
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{client}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={api}",
            f"--cert-dir={folder}/certificates",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.97.0.0/16",
            "--authorization-mode=RBAC",
            f"--token-auth-file={folder}/tokens.csv",
            "--endpoint-reconciler-type=none",
        ],
    ]
    processes = []
    try:
        for number, command in enumerate(commands):
            with (folder / f"{number}.log").open("w") as log:
                processes.append(subprocess.Popen(command, stdout=log, stderr=log))
        kubeconfig = folder / "kubeconfig"
        _wait_until_ready(kubeconfig, processes, folder)
        yield Tools(kubeconfig=kubeconfig)
    finally:
        for process in reversed(processes):
            process.kill()  # nothing of them is kept
        for process in processes:
            process.wait(timeout=30)


def _wait_until_ready(
    kubeconfig: Path, processes: list[subprocess.Popen[bytes]], folder: Path
) -> None:
    command = ["kubectl", "get", "namespace", "kube-system"]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    end = time.monotonic() + START_SECONDS
    while subprocess.run(command, env=environment, capture_output=True, check=False).returncode:
        ended = [process for process in processes if process.poll() is not None]
        if ended or time.monotonic() > end:
            logs = "\n".join(log.read_text()[-1500:] for log in folder.glob("*.log"))
            pytest.fail(f"the API server did not start:\n{logs}")
        time.sleep(0.2)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [made.getsockname()[1] for made in sockets]
    finally:
        for made in sockets:
            made.close()
