"""Containers of the real images: read-only root, no capability, a network of their own.

Everything runs in namespaces that end with the command, so nothing is left behind.
"""

import json
import os
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from images.build import default_cache, lock
from images.buildah import ISOLATED, Buildah
from images.catalog import IMAGES, UCC_ORIGIN, references
from tests.builders import CHECKOUT

# What a pod has, and no more: volumes where the manifests mount them, a user, no rights.
ENTER = """
set -eu
ip link set lo up
container=$(buildah {options} from --pull-never {tag})
root=$(buildah {options} mount "$container")
mount --bind "$root" "$root"
if [ -d "$root/dev" ]; then
    mount -t tmpfs -o mode=755 tmpfs "$root/dev"
    for device in null:1:3 zero:1:5 random:1:8 urandom:1:9 tty:5:0; do
        IFS=: read -r name major minor <<< "$device"
        mknod -m 666 "$root/dev/$name" c "$major" "$minor"
    done
    mkdir "$root/dev/shm" "$root/dev/pts"
    ln -s /proc/self/fd "$root/dev/fd"
    mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
    ln -s pts/ptmx "$root/dev/ptmx"
fi
for folder in dev/shm tmp home/mpiuser; do
    [ ! -d "$root/$folder" ] || mount -t tmpfs -o mode=1777 tmpfs "$root/$folder"
done
[ ! -d "$root/proc" ] || mount -t proc proc "$root/proc"
[ ! -d "$root/sys" ] || mount --rbind -o ro /sys "$root/sys"
[ ! -d "$root/etc" ] || echo '127.0.0.1 localhost' > "$root/etc/hosts"
status=0
{prepare}
mount -o remount,bind,ro "$root"
{command} || status=$?
kill -KILL -1 2> /dev/null || true
umount --recursive --lazy "$root"
buildah {options} rm "$container" > /dev/null
exit "$status"
"""
USER = (
    'chroot "$root" setpriv --reuid 1000 --regid 1000 --clear-groups --no-new-privs '
    "--bounding-set=-all --inh-caps=-all "
    "env -i HOME=/home/mpiuser PATH=/usr/local/bin:/usr/bin:/bin"
)


@dataclass(frozen=True)
class Container:
    """One image, as the build made it."""

    buildah: Buildah
    tag: str
    config: dict[str, Any]
    """The image's configuration: user, command, environment."""

    def run(
        self, script: str, *, environment: Sequence[str] = (), prepare: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """A bash script as the pod's user, with the image's environment and the given one.

        `prepare` runs before, as root, with the image's files below $root.
        """
        variables = [*self.config.get("Env", ()), *environment]
        words = shlex.join([*variables, "bash", "-c", textwrap.dedent(script)])
        return self._enter(f"{USER} {words}", prepare=prepare)

    def look(self, script: str) -> str:
        """What a bash script says that runs outside, as root, with the image below $root."""
        done = self._enter(f"( {script} )", prepare="")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _enter(self, command: str, *, prepare: str) -> subprocess.CompletedProcess[str]:
        options = shlex.join(self.buildah.options)
        script = ENTER.format(options=options, tag=self.tag, command=command, prepare=prepare)
        return subprocess.run(
            [*ISOLATED, "--net", "bash", "-c", script],
            env={**os.environ, "BUILDAH_ISOLATION": "chroot"},
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )


def build_images(*arguments: str) -> dict[str, Any]:
    """Runs the command; name -> reference, archive, key."""
    command = [sys.executable, "-m", "images.build", *arguments]
    if os.environ.get("UCC_SOURCE"):
        command += ["--ucc-source", os.environ["UCC_SOURCE"]]
    done = subprocess.run(
        command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, check=False, timeout=580
    )
    assert done.returncode == 0
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.fixture(scope="package")
def built() -> dict[str, Any]:
    """The images that need nothing from outside the repository, built if they are not yet."""
    return build_images(
        *(
            image.name
            for image in IMAGES.values()
            if image.is_published
            and all(context.path or context is UCC_ORIGIN for context in image.contexts)
        )
    )


@pytest.fixture(scope="package")
def storage(built: dict[str, Any]) -> Iterator[Buildah]:
    """The builds' own storage: no build may sweep it meanwhile, and the next folder's may."""
    cache = default_cache()
    cache.mkdir(parents=True, exist_ok=True)
    with lock(cache, Console(stderr=True)):
        buildah = Buildah(cache)
        buildah.prepare()
        yield buildah
        # Reading an archive gives the image its name in pods, too; builds tag by key.
        own = {f"localhost/test/{name}:1" for name in built} | set(references().values())
        buildah.remove([tag for tag in buildah.created() if tag in own])
        buildah.sweep()


def open_image(buildah: Buildah, tag: str, archive: Path) -> Container:
    """A container of what is in the archive, not of what the storage may still remember."""
    log = buildah.folder / "tmp" / "load.log"
    buildah.load(archive, tag, log=log)
    answer = json.loads(buildah.run(["inspect", "--type", "image", tag], log=None))
    return Container(buildah, tag, answer["OCIv1"]["config"])


@pytest.fixture(scope="package")
def containers(built: dict[str, Any], storage: Buildah) -> dict[str, Container]:
    """Name -> container, for every image that was built."""
    return {
        name: open_image(storage, f"localhost/test/{name}:1", Path(image["archive"]))
        for name, image in built.items()
    }


@pytest.fixture
def launcher(containers: dict[str, Container]) -> Container:
    return containers["launcher"]


@pytest.fixture
def worker(containers: dict[str, Container]) -> Container:
    return containers["worker-cpu"]


@pytest.fixture
def pause(containers: dict[str, Container]) -> Container:
    return containers["pause"]


@pytest.fixture(
    params=[
        image.name
        for image in IMAGES.values()
        if any(context.name == "training" for context in image.contexts)
    ]
)
def training_image(request: pytest.FixtureRequest, containers: dict[str, Container]) -> Container:
    """Each image that a job's pods run."""
    return containers[request.param]
