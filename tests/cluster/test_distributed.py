"""The backend and the check on real processes, inside workers: their torch, UCC and limits."""

import io
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from infra.accelerators import ACCELERATORS, Vendor
from infra.names import NAMESPACE_TRAINING
from tests.cluster.conftest import CHECKOUT, Submitted

pytestmark = pytest.mark.cluster

LIMIT_SECONDS = 300
WHERE = {"test_libucc": Vendor.NVIDIA, "test_allreduce_check": Vendor.AMD}
"""Each in a worker of its own, both at once: much of it is waiting."""

Done = subprocess.CompletedProcess[str]


def archive() -> bytes:
    """The tests as a tar file; the package under test is in the image."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for file in (CHECKOUT / "tests/__init__.py", *CHECKOUT.glob("tests/distributed/*.py")):
            tar.add(file, file.relative_to(CHECKOUT))
    return buffer.getvalue()


@pytest.fixture(scope="module")
def runs(open_job: Submitted) -> Iterator[dict[str, Future[Done]]]:
    """Module -> its run by unittest in a worker; the image has no pytest."""

    def command(vendor: Vendor) -> Callable[..., list[str]]:
        pod = open_job.pods(ACCELERATORS[vendor].task)[0]["metadata"]["name"]
        options = (f"--namespace={NAMESPACE_TRAINING}", "--stdin", pod, "--")
        return lambda *words: open_job.kubectl.command("exec", *options, *words)

    def run(module: str) -> Done:
        within = command(WHERE[module])
        unpack = within("tar", "--extract", "--directory=/tmp")
        subprocess.run(unpack, input=archive(), check=True, capture_output=True, timeout=60)
        return subprocess.run(
            within(
                "env", "--chdir=/tmp", "python3", "-m", "unittest", f"tests.distributed.{module}"
            ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )

    with ThreadPoolExecutor() as pool:
        yield {module: pool.submit(run, module) for module in WHERE}


@pytest.mark.parametrize("module", WHERE)
def test_every_test_on_real_processes_passes(runs: dict[str, Future[Done]], module: str) -> None:
    done = runs[module].result()
    assert done.returncode == 0, done.stderr[-4000:]
    *_, verdict = done.stderr.strip().splitlines()
    assert verdict == "OK"  # none skipped


def test_every_module_is_run() -> None:
    modules = {file.stem for file in CHECKOUT.glob("tests/distributed/test_*.py")}
    assert modules == set(WHERE)
