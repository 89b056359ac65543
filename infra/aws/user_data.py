"""What a new machine does to become a node: a NodeConfig, or a script for an image of our own.

Pure text; `encoded` is what a launch template takes.
"""

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Final

import yaml

from infra.accelerators import Taint
from infra.aws.config import MAX_PODS, SERVICE_CIDR

DNS_ADDRESS: Final = SERVICE_CIDR[10]
"""Of the cluster's DNS: EKS takes the tenth address of the services' range."""
MAX_BYTES: Final = 16_384
"""EC2's limit, before base64."""
DEVICE_SECONDS: Final = 120
"""The driver is loaded at boot, so a device that is not there by then will not come."""

_BOUNDARY: Final = "CROSSVENDOR"
_CLUSTER_NAME: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}")  # EKS' rule
_ENDPOINT: Final = re.compile(r"https://[0-9A-Za-z][0-9A-Za-z.-]*(:[0-9]{1,5})?")
_BASE64: Final = re.compile(r"([0-9A-Za-z+/]{4})+([0-9A-Za-z+/]{2}==|[0-9A-Za-z+/]{3}=)?")
_DEVICE: Final = re.compile(r"/dev/[0-9A-Za-z_/-]+")
# Kubernetes' rules for labels; those of taints are the same.
_KEY: Final = re.compile(
    r"([0-9a-z]([0-9a-z.-]{0,251}[0-9a-z])?/)?[0-9A-Za-z]([0-9A-Za-z_.-]{0,61}[0-9A-Za-z])?"
)
_VALUE: Final = re.compile(r"([0-9A-Za-z]([0-9A-Za-z_.-]{0,61}[0-9A-Za-z])?)?")
_EFFECT: Final = re.compile(r"NoSchedule|NoExecute|PreferNoSchedule")


def node_config() -> str:
    """User data for EKS' own images, Amazon Linux 2023.

    EKS adds a second part with the cluster's data, labels and taints, and nodeadm merges the two
    (awslabs/amazon-eks-ami, nodeadm/doc/examples.md). nodeadm itself knows nothing of prefix
    delegation, hence the number of pods.
    """
    config = {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {"kubelet": {"config": {"maxPods": MAX_PODS}}},
    }
    return (
        "MIME-Version: 1.0\n"
        f'Content-Type: multipart/mixed; boundary="{_BOUNDARY}"\n'
        "\n"
        f"--{_BOUNDARY}\n"
        "Content-Type: application/node.eks.aws\n"
        "\n"
        f"{yaml.safe_dump(config, sort_keys=False)}"
        "\n"
        f"--{_BOUNDARY}--\n"
    )


def bootstrap_script(
    *,
    cluster_name: str,
    endpoint: str,
    certificate_authority: str,
    device_file: str,
    labels: Mapping[str, str],
    taints: Sequence[Taint],
) -> str:
    """User data for an image of our own, made from Canonical's Ubuntu for EKS.

    `certificate_authority` is in base64, as EKS gives it. EKS adds nothing to this one, and sets
    taints only when the node is there already, so the kubelet brings labels and taints itself.
    Raises ValueError for what a shell or the kubelet would read differently.
    """
    _check("cluster name", cluster_name, _CLUSTER_NAME, "letters, digits, hyphens, underscores")
    _check("endpoint", endpoint, _ENDPOINT, "https:// and a host, as EKS gives it")
    _check("certificate authority", certificate_authority, _BASE64, "base64, as EKS gives it")
    _check("device file", device_file, _DEVICE, "a path below /dev")
    kubelet = [
        f"--max-pods={MAX_PODS}",
        *_flag("--node-labels", [_label(key, value) for key, value in labels.items()]),
        *_flag("--register-with-taints", [_taint(taint) for taint in taints]),
    ]
    # The script knows neither NodeConfig nor `--service-ipv4-cidr`; a word that it does not know
    # becomes a positional argument, so the cluster's name is the first one.
    return f"""\
#!/bin/bash
# Makes this machine a node of its cluster, once its GPU is there.
set -euo pipefail

if ! timeout {DEVICE_SECONDS} sh -c 'until [ -c {device_file} ]; do sleep 1; done'; then
  echo "No {device_file} after {DEVICE_SECONDS} s: without its GPU this is no node." >&2
  exit 1
fi

/etc/eks/bootstrap.sh {cluster_name} \\
  --apiserver-endpoint {endpoint} \\
  --b64-cluster-ca {certificate_authority} \\
  --dns-cluster-ip {DNS_ADDRESS} \\
  --use-max-pods false \\
  --kubelet-extra-args '{" ".join(kubelet)}'
"""


def encoded(text: str) -> str:
    """User data as a launch template takes it: base64. Raises ValueError if EC2 would refuse it."""
    content = text.encode("ascii")
    if len(content) > MAX_BYTES:
        msg = f"user data: it has {len(content)} bytes; EC2 takes at most {MAX_BYTES}."
        raise ValueError(msg)
    return base64.b64encode(content).decode("ascii")


def _flag(name: str, values: Sequence[str]) -> list[str]:
    """One flag of the kubelet with all its values, or none without values."""
    return [f"{name}={','.join(values)}"] if values else []


def _label(key: str, value: str) -> str:
    _check("label", key, _KEY, "a label's key in Kubernetes' spelling")
    _check(f"label {key}", value, _VALUE, "a label's value in Kubernetes' spelling")
    return f"{key}={value}"


def _taint(taint: Taint) -> str:
    _check("taint", taint.key, _KEY, "a taint's key in Kubernetes' spelling")
    _check(f"taint {taint.key}", taint.value, _VALUE, "a taint's value in Kubernetes' spelling")
    _check(f"taint {taint.key}", taint.effect, _EFFECT, "NoSchedule, NoExecute, PreferNoSchedule")
    return f"{taint.key}={taint.value}:{taint.effect}"


def _check(what: str, text: str, pattern: re.Pattern[str], allowed: str) -> None:
    if not pattern.fullmatch(text):
        msg = f"user data: {what} {text!r} cannot be put into a script; use {allowed}."
        raise ValueError(msg)
