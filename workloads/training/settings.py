"""Which settings decide how ranks communicate, and so must be the same on every rank.

UCC and Open MPI pick algorithms from them; ranks that differ wait for each other's messages, or cut
them short, or add them up wrong.
"""

import hashlib
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Final

PREFIXES: Final = ("UCC_", "UCX_", "OMPI_MCA_", "PRTE_MCA_", "NCCL_", "RCCL_", "GLOO_")

NOT_CHOSEN: Final = frozenset(
    {
        "OMPI_MCA_PREFIXES",
        "OMPI_MCA_cpu_type",
        "OMPI_MCA_initial_wdir",
        "OMPI_MCA_mca_base_component_path",
        "OMPI_MCA_num_procs",
        "OMPI_MCA_orte_ess_num_procs",
        "OMPI_MCA_orte_ess_node_rank",
    }
)
"""What mpirun tells each process about itself and its node, rather than what somebody set."""

UCC_CONF: Final = "ucc.conf"
"""Stands among the settings for the file that UCC would read."""


def communication_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Every variable that the libraries read, by name."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith(PREFIXES) and name not in NOT_CHOSEN
    }


def ucc_conf(environment: Mapping[str, str], ucc_library: str, cpu: str | None = None) -> str:
    """What UCC would read beside its variables, as a value to compare between ranks.

    Its tuning sections apply by the local CPU's model (openucx/ucc pull request 1330 ends that in
    1.9.0), so with such a file two unequal CPUs are already a disagreement.
    """
    path = _ucc_conf_path(environment, ucc_library)
    if path is None or not path.is_file():
        return "none"
    content = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    if environment.get("UCC_TL_UCP_USE_TUNING", "").lower() in ("n", "no", "0", "off"):
        return f"sha256 {content} without tuning"
    return f"sha256 {content} tuned for {cpu or cpu_model()}"


def _ucc_conf_path(environment: Mapping[str, str], ucc_library: str) -> Path | None:
    named = environment.get("UCC_CONFIG_FILE", "auto")
    if named != "auto":
        return Path(named) if named else None
    home = Path(environment.get("HOME", "/")) / "ucc.conf"
    if home.is_file() or not ucc_library:
        return home
    return Path(ucc_library).resolve().parent.parent / "share" / "ucc.conf"


def cpu_model() -> str:
    """The processor's maker, family and model, as the kernel names them."""
    wanted = ("vendor_id", "cpu family", "model")
    found: dict[str, str] = {}
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in wanted:
            found.setdefault(name.strip(), value.strip())
    if not found:
        return platform.machine()
    return " ".join(found.get(name, "?") for name in wanted)
