"""The training package's own tests, with real processes, inside a worker of the cluster."""

import io
import subprocess
import tarfile

import pytest

from infra.accelerators import ACCELERATORS, Vendor
from infra.names import NAMESPACE_TRAINING
from tests.cluster.conftest import CHECKOUT, Submitted
from workloads.kubectl import Kubectl

pytestmark = pytest.mark.cluster


def archive_of_tests() -> bytes:
    """What a worker's image does not have: the tests."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(CHECKOUT / "tests" / "__init__.py", "tests/__init__.py")
        for file in sorted((CHECKOUT / "tests" / "distributed").glob("*.py")):
            archive.add(file, f"tests/distributed/{file.name}")
    return buffer.getvalue()


@pytest.mark.parametrize("module", ["test_libucc", "test_allreduce_check"])
def test_real_processes_agree_in_a_workers_image(
    open_job: Submitted, kubectl: Kubectl, module: str
) -> None:
    [pod] = open_job.pods(ACCELERATORS[Vendor.NVIDIA].task)
    into = ["exec", "-i", "-n", NAMESPACE_TRAINING, pod["metadata"]["name"], "--"]
    subprocess.run(
        kubectl.command(*into, "tar", "-x", "-C", "/tmp"),  # noqa: S108 - the pod's own
        input=archive_of_tests(),
        check=True,
        timeout=60,
    )
    program = f"cd /tmp && exec python3 -m unittest tests.distributed.{module}"
    done = subprocess.run(
        kubectl.command(*into, "sh", "-c", program),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    assert "OK" in done.stderr
    assert "skipped" not in done.stderr
