"""Names that several parts agree on: namespaces, queues, priority classes, label keys.

Owns spelling only; what the things are is decided where they are made.
"""

from typing import Final

PROJECT: Final = "crossvendor"
"""Pulumi project, configuration namespace, and prefix of everything the local environment makes."""

LABEL_PREFIX: Final = "crossvendor.dev"
LABEL_VENDOR: Final = f"{LABEL_PREFIX}/vendor"
"""On nodes and pods: a `Vendor`, or `NO_VENDOR` on nodes without accelerator."""
NO_VENDOR: Final = "none"
LABEL_POOL: Final = f"{LABEL_PREFIX}/pool"
"""On nodes: the node pool's name in the stack file."""
LABEL_ROLE: Final = f"{LABEL_PREFIX}/role"
"""On job pods: `launcher` or `worker`."""
ANNOTATION_OWNER: Final = f"{LABEL_PREFIX}/owner"
"""On jobs: the command that watches them, so that the next one can tell who left them behind."""
LABEL_JOB: Final = f"{LABEL_PREFIX}/job"
"""On jobs and their pods: which job of workloads/jobs.py it is; each run has a name of its own."""

ANNOTATION_LINK_MBITS: Final = f"{LABEL_PREFIX}/link-mbits"
"""On nodes: bandwidth that the link is limited to, in Mbit/s; absent when it is not."""

ANNOTATION_WAIT_FOR: Final = "pulumi.com/waitFor"
"""On objects: what they are ready at, in the words of `kubectl wait --for`; Pulumi's own key."""

LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
"""On what `python -m infra.render apply` made; its value is PROJECT."""

NAMESPACE_TRAINING: Final = "crossvendor-training"
NAMESPACE_VOLCANO: Final = "volcano-system"
NAMESPACE_GPU: Final = "crossvendor-gpu"
"""Device plugins; Pod Security `privileged`."""

QUEUE_TRAINING: Final = "training"
SERVICE_ACCOUNT_TRAINING: Final = "training"
PRIORITY_TRAINING: Final = "crossvendor-training"

SSH_PORT: Final = 2222
"""Workers' non-root sshd."""

MAX_DNS_LABEL: Final = 63  # RFC 1123
