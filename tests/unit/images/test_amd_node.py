"""The scripts of the AMD nodes' image: bash really runs them, in a root of their own.

Apt, GRUB and the like are stand-ins on the PATH that note their calls: what they would change is
this machine. Devices are links to /dev/null, because making nodes needs root.
"""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.builders import CHECKOUT

SCRIPTS = CHECKOUT / "images/amd-node"
TARGET = "100101"
OWNER = str(Path("/dev/null").stat().st_gid)
PARENT = "7.0.0-1014-aws"
LTS = "6.8.0-1052-aws"
KEY = "A" * 40
RESTART = 194

STAND_INS = {
    "apt-cache": '[[ $1 == show ]] && grep -qxF "$2" "$HOME/available"',
    "apt-get": (
        f'[[ $* != *linux-aws-lts-24.04* ]] || touch "$ROOT/boot/vmlinuz-{LTS}"\n'
        '[[ -f $HOME/is-broken ]] && [[ $* == *"$(< "$HOME/is-broken")"* ]] && exit 100\n'
        "exit 0"
    ),
    "curl": 'while [[ $1 != --output ]]; do shift; done; echo key > "$2"',
    "dpkg-query": (
        # The names in the file that one of the patterns fits, as dpkg writes them.
        "status=1\n"
        'while read -r abbreviation name; do for pattern in "${@:3}"; do\n'
        "  # shellcheck disable=SC2254\n"
        '  case $name in $pattern) echo "$abbreviation  $name"; status=0 ;; esac\n'
        'done; done < "$HOME/installed"\n'
        "exit $status"
    ),
    "getent": "[[ -f $HOME/has-render ]]",
    "gpg": 'cat "$HOME/key"',
    "uname": 'cat "$HOME/kernel"',
    "update-grub": (
        'for file in "$ROOT"/boot/vmlinuz-*; do\n'
        "  echo \"menuentry 'Ubuntu, with Linux ${file##*vmlinuz-}' {\"\n"
        'done > "$ROOT/boot/grub/grub.cfg"'
    ),
    **dict.fromkeys(("apt-mark", "groupadd", "groupmod", "systemctl", "dmesg"), "true"),
}


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A root file system, and what the stand-ins say and noted."""

    root: Path
    home: Path

    def run(self, script: str, **changes: str) -> subprocess.CompletedProcess[str]:
        """One start of a script; `changes` are settings."""
        settings = {
            "GFX_TARGET_VERSION": TARGET,
            "RENDER_GID": OWNER,
            "VIDEO_GID": "44",
            "LTS_KERNEL": "linux-aws-lts-24.04",
            "LTS_SERIES": "6.8",
            "DKMS_PACKAGE": "amdgpu-dkms=1",
            "DKMS_SOURCE": "https://example.com/ubuntu noble",
            "DKMS_KEY_URL": "https://example.com/key",
            "DKMS_KEY": KEY,
        }
        path = f"{self.home}/bin:{os.environ['PATH']}"
        places = {"ROOT": str(self.root), "HOME": str(self.home), "PATH": path}
        return subprocess.run(
            [str(SCRIPTS / script)],
            env={**settings, **places, **changes},
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def calls(self) -> list[str]:
        """Calls of stand-ins that change something, without apt's options."""
        file = self.home / "calls"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        reads = ("apt-cache", "dpkg-query", "getent", "gpg", "uname", "dmesg")
        options = "-q -y -o DPkg::Lock::Timeout=300 "
        return [line.replace(options, "") for line in lines if not line.startswith(reads)]

    def text(self, path: str) -> str:
        """A file of the root."""
        return (self.root / path).read_text(encoding="utf-8")

    def write(self, path: str, text: str) -> None:
        """A file of the root, and the folders above it."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def tell(self, name: str, text: str) -> None:
        """What a stand-in says from now on."""
        (self.home / name).write_text(text, encoding="utf-8")

    def bring_up_the_gpu(self) -> None:
        """Devices and topology as a driver that works makes them."""
        for device in ("kfd", "dri/renderD128"):
            (self.root / "dev" / device).parent.mkdir(parents=True, exist_ok=True)
            (self.root / "dev" / device).symlink_to("/dev/null")
        self.add_topology_node(0, gpu_id="0", target="0")
        self.add_topology_node(1, gpu_id="54321", target=TARGET)

    def add_topology_node(self, number: int, *, gpu_id: str, target: str) -> None:
        """A CPU or GPU in the words of the KFD."""
        node = f"sys/class/kfd/kfd/topology/nodes/{number}"
        self.write(f"{node}/gpu_id", f"{gpu_id}\n")
        self.write(f"{node}/properties", f"simd_count 72\ngfx_target_version {target}\n")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """As Canonical's image starts: kernel 7.0, no driver, sources of packages without TLS."""
    made = Machine(root=tmp_path / "root", home=tmp_path / "home")
    for folder in ("etc/apt/apt.conf.d", "etc/modules-load.d", "boot/grub"):
        (made.root / folder).mkdir(parents=True)
    made.write("etc/apt/sources.list.d/ubuntu.sources", "Types: deb\nURIs: http://a/ubuntu\n")
    made.write(f"boot/vmlinuz-{PARENT}", "")
    (made.home / "bin").mkdir(parents=True)
    for name, body in STAND_INS.items():
        file = made.home / "bin" / name
        note = f'echo "{name} $*" >> "$HOME/calls"'
        file.write_text(f"#!/bin/bash\n{note}\n{body}\n", encoding="utf-8")
        file.chmod(0o755)
    made.tell("kernel", PARENT)
    made.tell("available", "")
    made.tell("has-render", "")
    made.tell("key", f"pub:::\nfpr:::::::::{KEY}:\nsub:::\nfpr:::::::::{'B' * 40}:\n")
    made.tell("installed", f"ii linux-image-{PARENT}\nii linux-aws\nun linux-headers-x-aws\n")
    return made


EACH_SCRIPT = pytest.mark.parametrize("file", sorted(SCRIPTS.iterdir()), ids=lambda file: file.name)


@EACH_SCRIPT
def test_a_script_passes_shellcheck(file: Path) -> None:
    done = subprocess.run(["shellcheck", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@EACH_SCRIPT
def test_a_script_is_strict_and_executable(file: Path) -> None:
    assert os.access(file, os.X_OK)
    assert "\nset -euo pipefail\n" in file.read_text(encoding="utf-8")


# check-driver.sh


def test_a_machine_with_its_gpu_is_good(machine: Machine) -> None:
    machine.bring_up_the_gpu()
    done = machine.run("check-driver.sh")
    assert done.returncode == 0, done.stderr
    assert "1 GPUs of target 100101 can compute" in done.stdout


def remove_kfd(machine: Machine) -> None:
    (machine.root / "dev/kfd").unlink()


def make_kfd_a_file(machine: Machine) -> None:
    remove_kfd(machine)
    machine.write("dev/kfd", "")


def remove_render_node(machine: Machine) -> None:
    (machine.root / "dev/dri/renderD128").unlink()


def leave_only_the_cpu(machine: Machine) -> None:
    machine.write("sys/class/kfd/kfd/topology/nodes/1/gpu_id", "0\n")


def remove_topology(machine: Machine) -> None:
    (machine.root / "sys/class/kfd").rename(machine.root / "elsewhere")


def make_it_another_gpu(machine: Machine) -> None:
    machine.add_topology_node(1, gpu_id="54321", target="100300")


def add_another_gpu(machine: Machine) -> None:
    machine.add_topology_node(2, gpu_id="12345", target="90010")


def remove_properties(machine: Machine) -> None:
    (machine.root / "sys/class/kfd/kfd/topology/nodes/1/properties").unlink()


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (remove_kfd, "/dev/kfd is no character device."),
        (make_kfd_a_file, "/dev/kfd is no character device."),
        (remove_render_node, "/dev/dri/renderD128 is no character device."),
        (leave_only_the_cpu, "no node of the KFD's topology is a GPU."),
        (remove_topology, "no node of the KFD's topology is a GPU."),
        (make_it_another_gpu, "GPU 1 is of target '100300', and not 100101."),
        (add_another_gpu, "GPU 2 is of target '90010', and not 100101."),
        (remove_properties, "GPU 1 is of target '', and not 100101."),
    ],
)
def test_a_machine_whose_gpu_cannot_compute_is_told_why(
    machine: Machine, spoil: object, sentence: str
) -> None:
    machine.bring_up_the_gpu()
    assert callable(spoil)
    spoil(machine)
    done = machine.run("check-driver.sh")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [f"check-driver: {sentence}"]
    assert done.stdout == ""


def test_devices_of_another_group_than_pods_get_are_no_use(machine: Machine) -> None:
    machine.bring_up_the_gpu()
    done = machine.run("check-driver.sh", RENDER_GID="500")
    assert done.returncode == 1
    assert f"/dev/kfd belongs to group {OWNER}, and pods get 500." in done.stderr
    assert f"/dev/dri/renderD128 belongs to group {OWNER}" in done.stderr


def test_every_fault_is_told_at_once(machine: Machine) -> None:
    assert machine.run("check-driver.sh").stderr.count("check-driver: ") == 3


def test_what_the_kernel_said_is_in_the_log(machine: Machine) -> None:
    (machine.home / "bin/dmesg").write_text("#!/bin/bash\necho kfd: skipped device\n")
    assert "kfd: skipped device" in machine.run("check-driver.sh").stderr


# install-driver.sh


def test_the_first_try_is_the_running_kernels_own_driver(machine: Machine) -> None:
    done = machine.run("install-driver.sh")
    assert done.returncode == RESTART, done.stderr
    assert machine.calls[-2:] == [
        "apt-get update",
        "apt-get install --no-install-recommends linux-firmware",
    ]


def test_modules_that_ubuntu_packs_apart_are_installed_where_they_are(machine: Machine) -> None:
    machine.tell("available", f"linux-modules-extra-{PARENT}\n")
    machine.run("install-driver.sh")
    assert machine.calls[-1].endswith(f" linux-firmware linux-modules-extra-{PARENT}")


def test_nothing_changes_the_image_by_itself_afterwards(machine: Machine) -> None:
    machine.run("install-driver.sh")
    [masked] = [call for call in machine.calls if call.startswith("systemctl mask")]
    for unit in ("apt-daily.timer", "apt-daily-upgrade.timer", "unattended-upgrades.service"):
        assert unit in masked.split()
    assert 'APT::Periodic::Enable "0";' in machine.text("etc/apt/apt.conf.d/99-crossvendor")


def test_packages_come_over_the_one_port_that_is_open(machine: Machine) -> None:
    machine.run("install-driver.sh")
    assert "URIs: https://a/ubuntu" in machine.text("etc/apt/sources.list.d/ubuntu.sources")


def test_the_driver_is_loaded_at_every_start(machine: Machine) -> None:
    machine.run("install-driver.sh")
    assert machine.text("etc/modules-load.d/amdgpu.conf") == "amdgpu\n"


@pytest.mark.parametrize("has_render", [True, False])
def test_the_devices_group_gets_the_number_that_pods_know(
    machine: Machine, has_render: bool
) -> None:
    if not has_render:
        (machine.home / "has-render").unlink()
    machine.run("install-driver.sh", RENDER_GID="500")
    assert ("groupadd --system render" in machine.calls) is not has_render
    assert "groupmod --gid 500 render" in machine.calls


def test_when_the_gpu_is_up_kernel_and_driver_are_held(machine: Machine) -> None:
    machine.run("install-driver.sh")
    machine.tell(
        "installed",
        f"ii linux-image-{PARENT}\nii linux-aws\nii linux-firmware\nii linux-base\n"
        f"ii linux-modules-{PARENT}\nrc linux-image-6.17.0-1-aws\n",
    )
    machine.bring_up_the_gpu()
    done = machine.run("install-driver.sh")
    assert done.returncode == 0, done.stderr
    [held] = [call for call in machine.calls if call.startswith("apt-mark")]
    assert held == (
        f"apt-mark hold linux-image-{PARENT} linux-aws linux-firmware linux-modules-{PARENT}"
    )


def test_a_script_that_is_run_again_after_its_end_changes_nothing(machine: Machine) -> None:
    machine.run("install-driver.sh")
    machine.bring_up_the_gpu()
    machine.run("install-driver.sh")
    before = machine.calls
    assert machine.run("install-driver.sh").returncode == 0
    assert machine.calls == before + before[-2:]  # hold and clean, once more


def test_the_second_try_is_the_lts_kernel_and_grub_is_told(machine: Machine) -> None:
    machine.tell("available", f"linux-modules-extra-{LTS}\n")
    machine.run("install-driver.sh")
    done = machine.run("install-driver.sh")
    assert done.returncode == RESTART, done.stderr
    assert machine.calls[-3:] == [
        "apt-get install --no-install-recommends linux-aws-lts-24.04",
        f"apt-get install --no-install-recommends linux-firmware linux-modules-extra-{LTS}",
        "update-grub ",
    ]
    assert machine.text("etc/default/grub.d/99-crossvendor.cfg") == (
        f'GRUB_DEFAULT="Advanced options for Ubuntu>Ubuntu, with Linux {LTS}"\n'
    )


def test_the_newest_of_several_lts_kernels_is_taken(machine: Machine) -> None:
    machine.write("boot/vmlinuz-6.8.0-999-aws", "")
    machine.run("install-driver.sh")
    machine.run("install-driver.sh")
    assert f"Linux {LTS}" in machine.text("etc/default/grub.d/99-crossvendor.cfg")


def test_a_kernel_that_grub_does_not_know_is_not_restarted_into(machine: Machine) -> None:
    machine.run("install-driver.sh")
    (machine.home / "bin/update-grub").write_text('#!/bin/bash\n: > "$ROOT/boot/grub/grub.cfg"\n')
    done = machine.run("install-driver.sh")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        1,
        f"install-driver: GRUB has no entry for {LTS}.",
    )


def at_the_third_try(machine: Machine) -> None:
    machine.write("var/lib/crossvendor/amd-node", "lts\n")
    machine.tell("kernel", LTS)
    machine.tell("installed", f"ii linux-headers-{LTS}\nii linux-headers-{PARENT}\n")


def test_the_third_try_is_amds_module_in_the_lts_kernel(machine: Machine) -> None:
    at_the_third_try(machine)
    done = machine.run("install-driver.sh")
    assert done.returncode == RESTART, done.stderr
    assert [call for call in machine.calls if not call.startswith("curl")] == [
        f"apt-get purge linux-headers-{PARENT}",
        "apt-get install --no-install-recommends ca-certificates curl gpg",
        "apt-get update",
        f"apt-get install --no-install-recommends linux-headers-{LTS} amdgpu-dkms=1",
    ]
    assert machine.text("etc/apt/sources.list.d/amdgpu.list") == (
        "deb [arch=amd64 signed-by=/etc/apt/keyrings/amdgpu.asc] "
        "https://example.com/ubuntu noble main\n"
    )


@pytest.mark.parametrize(
    "keys",
    ["", f"pub:::\nfpr:::::::::{'C' * 40}:\n", f"pub:\nfpr:::::::::{KEY}:\npub:\nfpr:::::::::D:\n"],
)
def test_a_source_whose_key_is_another_or_not_alone_is_not_used(
    machine: Machine, keys: str
) -> None:
    at_the_third_try(machine)
    machine.tell("key", keys)
    done = machine.run("install-driver.sh")
    assert done.returncode == 1
    assert "https://example.com/key has another key." in done.stderr
    assert not (machine.root / "etc/apt/sources.list.d/amdgpu.list").exists()


def test_amds_module_is_not_built_in_a_kernel_that_it_is_not_for(machine: Machine) -> None:
    at_the_third_try(machine)
    machine.tell("kernel", PARENT)
    done = machine.run("install-driver.sh")
    assert done.returncode == 1
    assert f"kernel {PARENT} runs, and GRUB was told 6.8." in done.stderr


def test_without_another_way_the_build_fails(machine: Machine) -> None:
    machine.write("var/lib/crossvendor/amd-node", "dkms\n")
    done = machine.run("install-driver.sh")
    assert done.returncode == 1
    assert "no driver brought the GPU up" in done.stderr
    assert "/dev/kfd is no character device." in done.stderr
    assert machine.calls == []


@pytest.mark.parametrize(
    ("works", "is_left"), [("running", 1), ("lts", 2), ("dkms", 3), ("nothing", 3)]
)
def test_a_build_restarts_until_a_driver_works(machine: Machine, works: str, is_left: int) -> None:
    restarts = 0
    while (done := machine.run("install-driver.sh")).returncode == RESTART:
        restarts += 1
        stage = machine.text("var/lib/crossvendor/amd-node").strip()
        if stage == "lts":
            machine.tell("kernel", LTS)
        if stage == works:
            machine.bring_up_the_gpu()
    assert (done.returncode, restarts) == (1 if works == "nothing" else 0, is_left)


@pytest.mark.parametrize("broken", ["update", "linux-firmware"])
def test_a_package_that_cannot_be_had_fails_the_build_instead_of_restarting(
    machine: Machine, broken: str
) -> None:
    machine.tell("is-broken", broken)
    assert machine.run("install-driver.sh").returncode == 100
    assert not (machine.root / "var/lib/crossvendor/amd-node").exists()


# record-image.sh


@pytest.fixture
def built(machine: Machine) -> Machine:
    machine.write("var/lib/crossvendor/amd-node", "running\n")
    machine.write("etc/cloud/build.info", "build_name: server\nserial: 20250804\n")
    machine.write("etc/group", "root:x:0:\nvideo:x:44:\nrender:x:500:\n")
    for name, body in {"modinfo": "echo /lib/amdgpu.ko.zst", "dpkg-query": "printf 2024"}.items():
        (machine.home / "bin" / name).write_text(f"#!/bin/bash\n{body}\n")
        (machine.home / "bin" / name).chmod(0o755)
    return machine


def test_the_image_says_what_it_is_made_of(built: Machine) -> None:
    done = built.run("record-image.sh", RENDER_GID="500")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "parent_serial=20250804",
        f"kernel={PARENT}",
        "driver_from=running",
        "module=/lib/amdgpu.ko.zst",
        "firmware=2024",
        "render_gid=500",
        "video_gid=44",
    ]
    assert built.text("etc/crossvendor/amd-node") == done.stdout


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        ("video:x:44:\nrender:x:993:\n", "group render is '993', and the tags say 500."),
        ("video:x:44:\n", "group render is '', and the tags say 500."),
        ("video:x:27:\nrender:x:500:\n", "group video is '27', and the tags say 44."),
    ],
)
def test_an_image_whose_groups_are_not_those_of_its_tags_is_not_made(
    built: Machine, groups: str, sentence: str
) -> None:
    built.write("etc/group", groups)
    done = built.run("record-image.sh", RENDER_GID="500")
    assert (done.returncode, done.stderr) == (1, f"record-image: {sentence}\n")
    assert not (built.root / "etc/crossvendor").exists()


def test_an_image_of_which_something_is_unknown_is_not_made(built: Machine) -> None:
    (built.home / "bin/modinfo").write_text("#!/bin/bash\nexit 1\n")
    assert built.run("record-image.sh", RENDER_GID="500").returncode == 1
    assert not (built.root / "etc/crossvendor").exists()
