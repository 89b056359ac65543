"""What is in the images that a job's pods run, and what must not be, seen from outside."""

import pytest

from infra import versions
from tests.images.conftest import Container

pytestmark = pytest.mark.local


def test_the_image_runs_as_the_users_number(training_image: Container) -> None:
    # A name would not do: the kubelet cannot know that it is not root's.
    assert training_image.config["User"] == "1000:1000"


def test_no_file_gives_more_rights(training_image: Container) -> None:
    assert training_image.look('find "$root" -xdev -type f -perm /6000') == ""


def test_no_file_has_capabilities(training_image: Container) -> None:
    assert training_image.look('getcap -r "$root/usr" "$root/opt" 2>/dev/null || true') == ""


def test_no_key_is_baked_in(training_image: Container) -> None:
    found = training_image.look(
        'find "$root" -xdev ( -name "ssh_host_*" -o -name "id_*sa*" -o -name "*.key" )'.replace(
            "( ", r"\( "
        ).replace(" )", r" \)")
    )
    assert found == ""


def test_no_package_cache_is_left(training_image: Container) -> None:
    folders = '"$root/var/lib/apt/lists" "$root/var/cache/apt" "$root/var/log"'
    assert training_image.look(f"find {folders} -type f") == ""


def test_no_documentation_but_licences_is_left(training_image: Container) -> None:
    folders = '"$root/usr/share/doc" "$root/usr/share/man" "$root/usr/share/locale"'
    assert training_image.look(f"find {folders} -type f ! -name copyright") == ""
    assert "openmpi-bin/copyright" in training_image.look(f"find {folders} -type f")


def test_nothing_tunes_ucc_by_the_local_cpu(training_image: Container) -> None:
    found = training_image.look('find "$root" -xdev -name ucc.conf').split()
    assert [path for path in found if not path.endswith("/etc/ld.so.conf.d/ucc.conf")] == []


def test_no_compiler_is_there(training_image: Container) -> None:
    done = training_image.run("for t in cc gcc g++ c++ ld as make clang; do type -P $t; done; true")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


def test_the_root_file_system_needs_no_writing(training_image: Container) -> None:
    done = training_image.run(
        "touch /opt/x; touch ~/x /tmp/x /dev/shm/x && python3 -c 'import ssl'"
    )
    assert done.returncode == 0, done.stderr
    assert "Read-only file system" in done.stderr


def test_python_has_compiled_what_it_cannot_compile_later(training_image: Container) -> None:
    script = (
        "import glob, sys;"
        "files = [f for f in glob.glob('/opt/crossvendor/training/**/*.py', recursive=True)];"
        "from importlib.util import cache_from_source as c; import os;"
        "assert files; print([f for f in files if not os.path.exists(c(f))])"
    )
    done = training_image.run(f'python3 -c "{script}"')
    assert done.stdout == "[]\n", done.stderr


def test_both_images_have_one_open_mpi(training_image: Container) -> None:
    done = training_image.run(f"verify user openmpi={versions.DEBIAN_OPENMPI} ucx")
    assert done.returncode == 0, done.stdout
