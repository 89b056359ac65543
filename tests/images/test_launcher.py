"""The launcher: starts ranks, is none itself."""

import pytest

from tests.images.conftest import Container

pytestmark = pytest.mark.local


def test_the_launcher_has_no_torch_and_no_server(launcher: Container) -> None:
    done = launcher.run("python3 -c 'import torch'; ls /usr/sbin/sshd")
    assert done.returncode != 0
    assert "No module named 'torch'" in done.stderr
    assert "cannot access '/usr/sbin/sshd'" in done.stderr


def test_the_package_is_importable_without_a_path(launcher: Container) -> None:
    done = launcher.run("cd /tmp && python3 -c 'import training; print(training.__file__)'")
    assert done.stdout == "/opt/crossvendor/training/__init__.py\n", done.stderr


def test_mpirun_runs_ranks(launcher: Container) -> None:
    done = launcher.run("mpirun -n 2 --oversubscribe sh -c 'echo $OMPI_COMM_WORLD_RANK' | sort")
    assert done.stdout == "0\n1\n", done.stderr
