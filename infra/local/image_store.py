"""Images on the nodes: built once, unpacked once, and shared by every node."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from infra.local import processes
from infra.local.layout import run_folder
from infra.local.machine import LocalError, run
from infra.local.toolchain import Toolchain
from infra.progress import Progress

OWN_IMAGES: Final = ("launcher", "worker-cpu")
PLATFORM_IMAGES: Final = (
    "pause",
    "volcano-controller-manager",
    "volcano-scheduler",
    "volcano-webhook-manager",
)
_CHECKOUT: Final = Path(__file__).parents[2]


def build(
    cache: Path, names: tuple[str, ...], progress: Progress, toolchain: Toolchain | None = None
) -> dict[str, Any]:
    """Build what is missing of the named images; name -> reference, archive, key."""
    command = [sys.executable, "-m", "images.build", "--cache", str(cache / "images")]
    if toolchain is not None:
        command += ["--context", f"toolchain={toolchain.binaries}"]
        command += ["--context", f"volcano={toolchain.folder}"]
    source = os.environ.get("UCC_SOURCE")
    if source:
        command += ["--ucc-source", source]
    start = time.monotonic()
    said: list[str] = []
    with subprocess.Popen(
        [*command, *names], cwd=_CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        for line in process.stderr or ():
            said.append(line.rstrip())
            progress.say(f"  {said[-1].strip()}")
        answer = process.stdout.read() if process.stdout else ""
    if process.returncode != 0:
        raise LocalError(said[-1] if said else f"images.build exited {process.returncode}.")
    if said:  # it speaks only of what it builds
        progress.record(f"images: {', '.join(names)}", time.monotonic() - start)
    built: dict[str, Any] = json.loads(answer.splitlines()[-1])
    return built


def unpack(cache: Path, archives: list[Path], progress: Progress, *, in_use: set[Path]) -> Path:
    """The containerd store that has these images unpacked; made when missing.

    Older ones that no environment uses are removed, all but the newest.
    """
    digest = hashlib.sha256("\n".join(archive.name for archive in archives).encode())
    store = cache / "store" / digest.hexdigest()[:16]
    if store.exists():
        return store
    with progress.step("images: unpack"):
        for leftover in store.parent.glob("*.part"):
            shutil.rmtree(leftover)
        part = store.with_suffix(".part")
        part.mkdir(parents=True)
        _import(part, archives)
        others = sorted(store.parent.iterdir(), key=lambda path: path.stat().st_mtime)
        for old in others[:-2]:
            if old not in in_use:
                shutil.rmtree(old)
        part.rename(store)
    return store


def _import(store: Path, archives: list[Path]) -> None:
    """Let a containerd of its own import the archives into `store`."""
    mark = f"store-{store.stem}"
    runtime = run_folder(mark)
    processes.end_all(lambda: processes.marked(mark))
    runtime.mkdir(parents=True, exist_ok=True)
    socket = runtime / "containerd.sock"
    socket.unlink(missing_ok=True)
    configuration = runtime / "containerd.toml"
    configuration.write_text(
        f"""version = 2
root = "{store}"
state = "{runtime}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{runtime}/opt"
""",
        encoding="utf-8",
    )
    log = runtime / "containerd.log"
    try:
        processes.start(["containerd", "--config", configuration], mark=mark, log=log)
        processes.wait_until(
            "containerd that unpacks the images", socket.exists, seconds=30, hint=f"see {log}"
        )
        for archive in archives:
            run(
                ["ctr", "--address", socket, "--namespace", "k8s.io", "images", "import",
                 "--snapshotter", "overlayfs", archive],
                timeout=600,
            )  # fmt: skip
    finally:
        processes.end_all(lambda: processes.marked(mark))
        shutil.rmtree(runtime, ignore_errors=True)
