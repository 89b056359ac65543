"""An environment beside the user's: another name, other address ranges, the same toolchain."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml

CHECKOUT = Path(__file__).parents[2]
NAME = "cvtest"


def command(stack: Path, *words: str, sizes: Sequence[str] = ()) -> list[str]:
    """The command line of `python -m infra.local` for a stack file."""
    flags = [word for size in sizes for word in ("--size", size)]
    return [sys.executable, "-m", "infra.local", "--stack", str(stack), *flags, *words]


def local(
    stack: Path, *words: str, sizes: Sequence[str] = (), **options: object
) -> subprocess.CompletedProcess[str]:
    """Run it and return what it said."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        command(stack, *words, sizes=sizes),
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=570,
        check=False,
        **options,  # type: ignore[call-overload]
    )
    return done


def values() -> dict[str, object]:
    """Configuration of a small environment that can run beside the default one."""
    return {
        "crossvendor:environment": "local",
        "crossvendor:node_pools": {
            "system": {"instance_type": "m6i.large", "link_mbits": "unlimited"},
            "nvidia": {"instance_type": "g4dn.xlarge", "cpu_limit": 0.5},
            "amd": {"instance_type": "g4ad.xlarge", "size": 0},
        },
        "crossvendor:local": {
            "name": NAME,
            "node_cidr": "10.201.0.0/24",
            "pod_cidr": "10.245.0.0/16",
        },
    }


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Path]:
    """A stack file; whatever was started from it is removed at the end."""
    file = tmp_path / "Pulumi.cvtest.yaml"
    file.write_text(yaml.safe_dump({"config": values()}), encoding="utf-8")
    yield file
    done = local(file, "down")
    assert done.returncode == 0, done.stderr
