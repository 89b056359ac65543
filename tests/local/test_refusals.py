"""What cannot work is refused with one sentence, exit status 2, and nothing left behind."""

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.local.conftest import NAME, local, values
from tests.local.test_lifecycle import machine_state

pytestmark = pytest.mark.local

Values = dict[str, dict[str, dict[str, object]]]


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    before = machine_state()
    yield
    after = machine_state()
    before.pop("socket folders")  # the lock's folder may stay until `down`
    after.pop("socket folders")
    assert after == before


def refusal(stack: Path, **options: object) -> str:
    """The one sentence of a refused `up`."""
    done = local(stack, "up", **options)  # type: ignore[arg-type]
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    [sentence] = done.stderr.strip().splitlines()
    return sentence


def test_without_root(stack: Path) -> None:
    stack.chmod(0o644)
    for folder in (stack.parent, *stack.parent.parents[:2]):
        folder.chmod(0o755)
    sentence = refusal(stack, user=65534, group=65534, extra_groups=[])
    assert "runs as user 65534" in sentence
    assert sentence.endswith("run it with sudo.")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda v: v.update({"crossvendor:locl": {}}), "locl: unknown key; valid keys are"),
        (
            lambda v: v["crossvendor:node_pools"]["nvidia"].update(instanc_type="x"),
            "node_pools.nvidia.instanc_type: unknown key; valid keys are",
        ),
        (
            lambda v: v["crossvendor:node_pools"]["nvidia"].update(instance_type="p5.48xlarge"),
            "'p5.48xlarge' is not in infra/instances.py; use one of",
        ),
        (
            lambda v: v["crossvendor:node_pools"]["nvidia"].update(size=-1),
            "greater than or equal to 0, got -1",
        ),
        (
            lambda v: v["crossvendor:node_pools"]["nvidia"].update(size=9),
            "size 9 is not between min_size 0 and max_size 4",
        ),
        (
            lambda v: v["crossvendor:node_pools"]["nvidia"].update(cpu_limit=0),
            "cpu_limit: input should be greater than 0, got 0",
        ),
        (
            lambda v: v["crossvendor:local"].update(name="Not-a-name"),
            "local.name",
        ),
        (
            lambda v: v["crossvendor:local"].update(pod_cidr="10.201.0.0/16"),
            "overlaps",
        ),
    ],
)
def test_a_stack_file_with_a_mistake(
    stack: Path, change: Callable[[Values], None], words: str
) -> None:
    changed: Values = values()  # type: ignore[assignment]
    change(changed)
    stack.write_text(yaml.safe_dump({"config": changed}), encoding="utf-8")
    sentence = refusal(stack)
    assert "Pulumi.cvtest.yaml" in sentence
    assert words in sentence
    stack.write_text(yaml.safe_dump({"config": values()}), encoding="utf-8")  # for the clean-up


def test_an_address_range_that_the_machine_uses(stack: Path) -> None:
    subprocess.run(["ip", "link", "add", "cvused", "type", "bridge"], check=True)
    try:
        subprocess.run(["ip", "addr", "add", "10.201.0.77/25", "dev", "cvused"], check=True)
        subprocess.run(["ip", "link", "set", "cvused", "up"], check=True)
        sentence = refusal(stack)
    finally:
        subprocess.run(["ip", "link", "del", "cvused"], check=True)
    assert "local.node_cidr: 10.201.0.0/24 overlaps 10.201.0.0/25" in sentence
    assert "through cvused; choose a range" in sentence


def test_ports_in_use_on_the_machine_do_not_matter(stack: Path) -> None:
    """Nothing of the environment listens in the machine's own network namespace."""
    taken = []
    for port in (2379, 6443, 10250, 10256):
        listener = socket.socket()
        try:
            listener.bind(("0.0.0.0", port))  # noqa: S104 - every address, as another cluster would
            listener.listen()
        except OSError:  # taken already, which is what the test wants
            listener.close()
            continue
        taken.append(listener)
    try:
        done = local(stack, "up")
    finally:
        for listener in taken:
            listener.close()
    assert done.returncode == 0, done.stderr
    assert local(stack, "down").returncode == 0


def test_a_package_that_cannot_be_installed(stack: Path, tmp_path: Path) -> None:
    """On a machine without containerd, whose apt-get has no such package."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in os.environ["PATH"].split(":"):
        for tool in Path(folder).glob("*") if Path(folder).is_dir() else ():
            link = tools / tool.name
            if not tool.name.startswith("containerd") and not link.exists():
                link.symlink_to(tool)
    fake = tools / "apt-get"
    fake.unlink(missing_ok=True)
    fake.write_text("#!/bin/sh\necho 'E: Unable to locate package containerd' >&2\nexit 100\n")
    fake.chmod(0o755)
    sentence = refusal(stack, env={**os.environ, "PATH": str(tools)})
    assert "missing containerd, and apt-get cannot install it" in sentence
    assert "install containerd by hand" in sentence


def test_a_disk_that_is_too_small(stack: Path, tmp_path: Path) -> None:
    cache = tmp_path / "small"
    cache.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "cvtest", cache], check=True)
    try:
        sentence = refusal(stack, env={**os.environ, "CROSSVENDOR_CACHE": str(cache)})
    finally:
        subprocess.run(["umount", cache], check=True)
    assert f"{cache} has 0.1 GiB free" in sentence
    assert "set CROSSVENDOR_CACHE to a folder on a larger disk" in sentence


def test_an_environment_of_the_same_name_from_another_cache(stack: Path, tmp_path: Path) -> None:
    assert local(stack, "up").returncode == 0
    other = tmp_path / "other"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crossvendor"
    ours = Path(os.environ.get("CROSSVENDOR_CACHE") or home)
    other.mkdir()
    for name in ("toolchain", "images", "store"):
        (other / name).symlink_to(ours / name)
    sentence = refusal(stack, env={**os.environ, "CROSSVENDOR_CACHE": str(other)})
    assert f"an environment named {NAME} already runs from" in sentence
    assert local(stack, "down").returncode == 0
    shutil.rmtree(other)
