"""The control plane: kwokctl's etcd, API server, controller manager and scheduler, and CoreDNS.

kwokctl (a Kubernetes SIG's tool) makes certificates, configuration and processes; its simulated
nodes are switched off. Everything runs in a network namespace of its own.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from infra.local import network, processes
from infra.local.layout import Layout
from infra.local.machine import run
from infra.local.toolchain import Toolchain

_CLUSTER: Final = "control-plane"
CLUSTER_DOMAIN: Final = "cluster.local"


@dataclass(frozen=True, kw_only=True)
class Authority:
    """The cluster's certificate authority, which kwokctl made."""

    folder: Path

    @property
    def certificate(self) -> Path:
        """The authority's own certificate."""
        return self.folder / "ca.crt"

    def issue(
        self, folder: Path, name: str, *, user: str, group: str = "", address: str = ""
    ) -> tuple[Path, Path]:
        """Make a key and a certificate for a client, and a server where `address` is given."""
        key, certificate = folder / f"{name}.key", folder / f"{name}.crt"
        subject = f"/O={group}/CN={user}" if group else f"/CN={user}"
        extensions = ["-addext", "basicConstraints=CA:FALSE"]
        usage = "clientAuth"
        if address:
            usage = "clientAuth,serverAuth"
            extensions += ["-addext", f"subjectAltName=IP:{address}"]
        run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-noenc", "-days", "3650", "-subj", subject, "-keyout", key, "-out", certificate,
             "-CA", self.certificate, "-CAkey", self.folder / "ca.key",
             *extensions, "-addext", f"extendedKeyUsage={usage}"],
        )  # fmt: skip
        key.chmod(0o600)
        return key, certificate


def authority(layout: Layout) -> Authority:
    """The running environment's authority."""
    return Authority(folder=_folder(layout) / "pki")


def start(layout: Layout, toolchain: Toolchain) -> None:
    """Start the control plane and wait until the API server is ready; writes the kubeconfig."""
    address = str(layout.control_plane_address)
    admin = _folder(layout) / "pki" / "admin"
    arguments = {
        "etcd": {"unsafe-no-fsync": "true"},  # the state is thrown away with the environment
        "kube-apiserver": {
            "advertise-address": address,
            "service-cluster-ip-range": str(layout.config.service_cidr),
            "enable-admission-plugins": "NodeRestriction",
            # Pods that serve webhooks are reached directly: this namespace has no kube-proxy.
            "enable-aggregator-routing": "true",
            # Node names do not resolve here; without it logs and exec would try to.
            "kubelet-preferred-address-types": "InternalIP",
            "kubelet-certificate-authority": str(authority(layout).certificate),
            "kubelet-client-certificate": f"{admin}.crt",
            "kubelet-client-key": f"{admin}.key",
        },
        "kube-controller-manager": {
            "use-service-account-credentials": "true",
            "leader-elect": "false",
        },
        "kube-scheduler": {"leader-elect": "false"},
    }
    # A file and not `--extra-args`: with several of those for one component kwokctl 0.8.0 panics.
    configuration = layout.state / "kwokctl.yaml"
    configuration.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
                "kind": "KwokctlConfiguration",
                "componentsPatches": [
                    {
                        "name": component,
                        "extraArgs": [{"key": k, "value": v} for k, v in values.items()],
                    }
                    for component, values in arguments.items()
                ],
            }
        ),
        encoding="utf-8",
    )
    binaries = {
        "--etcd-binary": toolchain["server"],  # as etcd's main package is called
        **{f"--{c}-binary": toolchain[c] for c in arguments if c.startswith("kube-")},
    }
    environment = {
        "KWOK_WORKDIR": str(layout.state / "kwok"),
        "HOME": str(layout.state),
        processes.MARK: layout.name,
    }
    run(
        ["nsenter", f"--net=/run/netns/{layout.control_plane_namespace}",
         toolchain["kwokctl"], "create", "cluster", "--name", _CLUSTER, "--runtime", "binary",
         "--disable", "kwok-controller", "--kwok-controller-binary", shutil.which("true") or "",
         *(word for item in binaries.items() for word in item),
         "--kube-apiserver-port", str(network.API_PORT), "--heartbeat-factor", "1",
         "--kubeconfig", layout.state / "kwok.kubeconfig", "--wait", "60s",
         "--config", configuration],
        environment=environment,
        folder=layout.state,
    )  # fmt: skip
    _write_kubeconfig(layout)
    _start_dns(layout, toolchain)


def is_alive(layout: Layout) -> bool:
    """Whether every process of the control plane still runs."""
    numbers = [*(_folder(layout) / "pids").glob("*.pid"), layout.state / "coredns.pid"]
    return len(numbers) > 4 and all(
        processes.is_alive(int(file.read_text()), layout.name) for file in numbers if file.exists()
    )


def client_kubeconfig(layout: Layout, key: Path, certificate: Path) -> str:
    """A kubeconfig for the user that a certificate names."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": layout.name,
        "clusters": [
            {
                "name": layout.name,
                "cluster": {
                    "server": f"https://{layout.control_plane_address}:{network.API_PORT}",
                    "certificate-authority": str(authority(layout).certificate),
                },
            }
        ],
        "users": [
            {
                "name": layout.name,
                "user": {"client-certificate": str(certificate), "client-key": str(key)},
            }
        ],
        "contexts": [
            {"name": layout.name, "context": {"cluster": layout.name, "user": layout.name}}
        ],
    }
    return yaml.safe_dump(document, sort_keys=False)


def _folder(layout: Layout) -> Path:
    return layout.state / "kwok" / "clusters" / _CLUSTER


def _write_kubeconfig(layout: Layout) -> None:
    admin = _folder(layout) / "pki" / "admin"
    text = client_kubeconfig(layout, admin.with_suffix(".key"), admin.with_suffix(".crt"))
    layout.kubeconfig.write_text(text, encoding="utf-8")
    layout.kubeconfig.chmod(0o600)


def _start_dns(layout: Layout, toolchain: Toolchain) -> None:
    """CoreDNS as a process: it must answer before any node is there to run it as a pod."""
    configuration = layout.state / "Corefile"
    configuration.write_text(
        f""".:{network.DNS_PORT} {{
  bind {layout.control_plane_address}
  errors
  kubernetes {CLUSTER_DOMAIN} in-addr.arpa {{
    kubeconfig {layout.kubeconfig} {layout.name}
    pods insecure
    ttl 5
  }}
}}
""",
        encoding="utf-8",
    )
    number = processes.start(
        [toolchain["coredns"], "-conf", configuration],
        mark=layout.name,
        log=layout.logs / "coredns.log",
        namespace=layout.control_plane_namespace,
    )
    (layout.state / "coredns.pid").write_text(str(number), encoding="utf-8")


def kubectl(layout: Layout, toolchain: Toolchain, *words: str, stdin: str | None = None) -> str:
    """Run kubectl as the administrator."""
    return run(
        [toolchain["kubectl"], f"--kubeconfig={layout.kubeconfig}", *words], stdin=stdin, timeout=60
    )


def nodes(layout: Layout, toolchain: Toolchain) -> dict[str, dict[str, object]]:
    """The API server's nodes by name."""
    document = json.loads(kubectl(layout, toolchain, "get", "nodes", "-o", "json"))
    return {item["metadata"]["name"]: item for item in document["items"]}
