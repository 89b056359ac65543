"""An environment's life: up, reuse, down, and the sweep that makes any earlier end harmless."""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from infra.config import StackConfig
from infra.local import (
    cgroups,
    control_plane,
    image_store,
    machine,
    network,
    node,
    processes,
    toolchain,
)
from infra.local.layout import Layout, Node, run_folder
from infra.local.machine import LocalError
from infra.local.toolchain import Toolchain
from infra.names import ANNOTATION_LINK_MBITS
from infra.node_pools import node_resources
from infra.progress import Progress

_RECORD: Final = "environment.json"


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A running environment."""

    layout: Layout
    toolchain: Toolchain


def up(stack: StackConfig, *, cache: Path, progress: Progress) -> Environment:
    """Start the environment, or reuse the running one when it is what the stack asks for."""
    layout = Layout.of(stack, cache=cache)
    tools = toolchain.location(cache)
    is_cold = not tools.folder.exists()
    machine.require_space(cache, machine.MIN_FREE_BYTES if is_cold else machine.MIN_FREE_BYTES_WARM)
    with _lock(layout.name):
        _require_owner(layout)
        missing = machine.missing_packages()
        if missing:
            with progress.step(f"packages: {' '.join(missing)}"):
                machine.install(missing)
        network.require_free_ranges(layout)
        tools, store = _build(cache, progress)
        fingerprint = _fingerprint(stack, tools, store)
        if _is_running(layout, fingerprint):
            progress.say("environment: already running")
            return Environment(layout=layout, toolchain=tools)
        with progress.step("environment: clean up"):
            for state in {layout.state, _recorded_state(layout.name) or layout.state}:
                _sweep(layout.name, state)
        _record(layout, None, store)
        with progress.step(f"environment: {len(layout.nodes)} nodes and a control plane"):
            try:
                _start(layout, tools, store, progress)
            except BaseException:
                _keep_logs(layout)
                _sweep(layout.name, layout.state)
                raise
        _record(layout, fingerprint, store)
    return Environment(layout=layout, toolchain=tools)


def down(name: str, *, cache: Path) -> None:
    """Remove everything of the environment from the machine; toolchain and images stay cached."""
    with _lock(name):
        _sweep(name, _recorded_state(name) or cache / "state" / name)
    shutil.rmtree(run_folder(name), ignore_errors=True)
    with suppress(OSError):  # another environment may be there
        run_folder(name).parent.rmdir()


def status(layout: Layout) -> dict[str, Any]:
    """What runs: the control plane, and per node whether its daemons do and its link's limit."""
    return {
        "name": layout.name,
        "state": str(layout.state),
        "control_plane": control_plane.is_alive(layout),
        "nodes": {
            each.name: {
                "alive": node.is_alive(layout, each),
                "address": str(each.address),
                "pool": each.pool_name,
                "link_mbits": each.pool.link_limit_mbits,
            }
            for each in layout.nodes
        },
    }


def _build(cache: Path, progress: Progress) -> tuple[Toolchain, Path]:
    """Toolchain and images, at the same time as far as one does not need the other."""
    everything = (*image_store.OWN_IMAGES, *image_store.PLATFORM_IMAGES)
    tools = toolchain.location(cache)
    if tools.folder.exists():
        built = image_store.build(cache, everything, progress, tools)
    else:
        with ThreadPoolExecutor(max_workers=1) as pool:
            own = pool.submit(image_store.build, cache, image_store.OWN_IMAGES, progress)
            tools = toolchain.build(cache, progress)
            built = own.result()
        built |= image_store.build(cache, image_store.PLATFORM_IMAGES, progress, tools)
    archives = [Path(built[name]["archive"]) for name in sorted(built)]
    return tools, image_store.unpack(cache, archives, progress, in_use=_stores_in_use())


def _stores_in_use() -> set[Path]:
    """Image stores of all environments of this machine."""
    stores = set()
    for file in run_folder("*").parent.glob(f"*/{_RECORD}"):
        with suppress(OSError, ValueError, KeyError):
            stores.add(Path(json.loads(file.read_text(encoding="utf-8"))["store"]))
    return stores


def _start(layout: Layout, tools: Toolchain, store: Path, progress: Progress) -> None:
    layout.state.mkdir(parents=True)
    layout.run.mkdir(parents=True, exist_ok=True)
    network.create(layout)
    control_plane.start(layout, tools)
    authority = control_plane.authority(layout)

    def start_node(each: Node) -> None:
        node.prepare(layout, each, authority, store)
        node.start(layout, each, tools)

    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(start_node, layout.nodes))
    _wait_registered(layout, tools)
    for each in layout.nodes:
        _complete(layout, tools, each)
    _wait_ready(layout, tools)


def _complete(layout: Layout, tools: Toolchain, each: Node) -> None:
    """Advertise the node's GPUs, as a device plugin would, and note its link's limit."""
    resources = {key: str(count) for key, count in node_resources(each.pool).items()}
    if resources:
        patch = {"status": {"capacity": resources, "allocatable": resources}}
        control_plane.kubectl(
            layout, tools, "patch", "node", each.name, "--subresource=status",
            "--type=merge", "--patch", json.dumps(patch),
        )  # fmt: skip
    mbits = each.pool.link_limit_mbits
    if mbits is not None:
        control_plane.kubectl(
            layout, tools, "annotate", "--overwrite", "node", each.name,
            f"{ANNOTATION_LINK_MBITS}={mbits}",
        )  # fmt: skip


def _wait_registered(layout: Layout, tools: Toolchain) -> None:
    wanted = {each.name for each in layout.nodes}
    processes.wait_until(
        f"node registration of {', '.join(sorted(wanted))}",
        lambda: wanted <= control_plane.nodes(layout, tools).keys(),
        seconds=60,
        hint=f"see the kubelets' logs in {layout.logs}",
        every=0.3,
    )


def _wait_ready(layout: Layout, tools: Toolchain) -> None:
    processes.wait_until(
        "one of the nodes",
        lambda: all(map(_is_ready, control_plane.nodes(layout, tools).values())),
        seconds=90,
        hint=f"see the kubelets' logs in {layout.logs}",
        every=0.3,
    )


def _is_ready(document: dict[str, Any]) -> bool:
    conditions = document["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _is_running(layout: Layout, fingerprint: str) -> bool:
    """Whether this very environment runs, whole."""
    try:
        record = json.loads((layout.run / _RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    if record.get("fingerprint") != fingerprint or record.get("state") != str(layout.state):
        return False
    if not control_plane.is_alive(layout):
        return False
    if not all(node.is_alive(layout, each) for each in layout.nodes):
        return False
    tools = toolchain.location(layout.cache)
    try:
        registered = control_plane.nodes(layout, tools)
    except LocalError:
        return False
    return {each.name for each in layout.nodes} == registered.keys() and all(
        map(_is_ready, registered.values())
    )


def _fingerprint(stack: StackConfig, tools: Toolchain, store: Path) -> str:
    """Hash of what the environment is made from, this package's code included."""
    digest = hashlib.sha256(stack.model_dump_json().encode())
    digest.update(f"{tools.folder.name} {store.name}".encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _sweep(name: str, state: Path) -> None:
    """Remove processes, mounts, control groups, namespaces, links and state, whatever is there."""
    with suppress(FileNotFoundError):
        (run_folder(name) / _RECORD).unlink()
    find: Callable[[], list[int]] = lambda: [  # noqa: E731
        *processes.marked(name),
        *cgroups.processes(name),
    ]
    processes.end_all(find)
    _remove_shim_sockets(run_folder(name))
    for folder in (state, run_folder(name)):
        _unmount_below(folder)
    cgroups.remove(name)
    if shutil.which("ip") is not None:
        network.remove(name)
    machine.run(["rm", "-rf", state], timeout=300)  # tens of thousands of links: Python is slow
    for entry in run_folder(name).iterdir() if run_folder(name).exists() else ():
        if entry.is_dir():
            shutil.rmtree(entry)


def _remove_shim_sockets(runtime: Path) -> None:
    """Containers' shims listen in a folder that all containerds of the machine share."""
    for address in runtime.rglob("address"):
        with suppress(OSError):
            Path(address.read_text(encoding="utf-8").removeprefix("unix://")).unlink()


def _unmount_below(folder: Path) -> None:
    """Unmount everything under a folder, the latest first."""
    while points := [point for point in _mount_points() if point.is_relative_to(folder)]:
        machine.run(["umount", "--lazy", points[-1]])


def _mount_points() -> list[Path]:
    mounts = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    return [Path(line.split()[1].encode().decode("unicode_escape")) for line in mounts]


def _keep_logs(layout: Layout) -> None:
    """Save a failed start's logs where the sweep does not reach."""
    kept = layout.cache / "failed" / layout.name
    shutil.rmtree(kept, ignore_errors=True)
    if layout.logs.exists():
        shutil.copytree(layout.logs, kept)


def _record(layout: Layout, fingerprint: str | None, store: Path) -> None:
    """Note where state and images are, and once it is whole also what it was made from."""
    record = {"fingerprint": fingerprint, "state": str(layout.state), "store": str(store)}
    layout.run.mkdir(parents=True, exist_ok=True)
    (layout.run / _RECORD).write_text(json.dumps(record), encoding="utf-8")


def _require_owner(layout: Layout) -> None:
    """Refuse to replace an environment of this name that runs from another cache folder."""
    state = _recorded_state(layout.name)
    if state is not None and state != layout.state and processes.marked(layout.name):
        msg = (
            f"an environment named {layout.name} already runs from {state}; remove it with "
            "`make down`, or give this one another local.name in Pulumi.local.yaml."
        )
        raise LocalError(msg)


def _recorded_state(name: str) -> Path | None:
    try:
        record = json.loads((run_folder(name) / _RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return Path(record["state"])


@contextmanager
def _lock(name: str) -> Iterator[None]:
    """One command at a time for an environment; a killed one's lock is gone with it."""
    folder = run_folder(name)
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            msg = f"another command works on environment {name}; wait until it has ended."
            raise LocalError(msg) from error
        yield
    finally:
        os.close(handle)
