"""The worker: sshd without root on 2222, torch with every carrier, one UCX in the process."""

import pytest

from infra import versions
from tests.images.conftest import Container

pytestmark = pytest.mark.local

# The ssh plugin's files as a pod has them: owned by root, readable by all.
KEYS = """
chroot "$root" bash -c '
    mkdir /home/mpiuser/.ssh-volcano
    ssh-keygen -q -t rsa -N "" -f /home/mpiuser/.ssh-volcano/id_rsa
    cd /home/mpiuser/.ssh-volcano
    cp id_rsa.pub authorized_keys
    printf "StrictHostKeyChecking no\\nUserKnownHostsFile /dev/null\\n" > config
    chmod 644 *
'
"""
SERVE = """
start-sshd 2> ~/log &
for _ in $(seq 100); do
    ssh-keyscan -p 2222 localhost > ~/scan 2> /dev/null && [ -s ~/scan ] && break
    sleep 0.1
done
"""


def test_the_worker_serves_by_default(worker: Container) -> None:
    assert worker.config["Cmd"] == ["/usr/local/bin/start-sshd"]
    assert list(worker.config["ExposedPorts"]) == ["2222/tcp"]


def test_every_promise_of_the_image_holds_in_a_pod(worker: Container) -> None:
    done = worker.run(
        f"verify files user sshd openmpi={versions.DEBIAN_OPENMPI} ucx={versions.DEBIAN_UCX} "
        f"torch={versions.DEBIAN_TORCH} ucc backend"
    )
    assert done.returncode == 0, done.stdout


def test_the_uccs_version_and_origin_are_stated(worker: Container) -> None:
    done = worker.run("cat /opt/ucc/ORIGIN; verify ucc")
    origin, stated = done.stdout.splitlines()
    assert origin.startswith(("PyPI nvidia-libcal-cu12 ", "source "))
    assert f" from {origin};" in stated


def test_sshd_serves_the_user_on_2222_with_what_a_rank_must_know(worker: Container) -> None:
    done = worker.run(
        SERVE + "ssh -p 2222 localhost 'id -u; env'; cat ~/log >&2",
        environment=["CROSSVENDOR_VENDOR=nvidia", 'CROSSVENDOR_POD=a "b" \\c', "OTHER=1"],
        prepare=KEYS,
    )
    uid, *environment = done.stdout.splitlines()
    assert uid == "1000", done.stderr
    assert "CROSSVENDOR_VENDOR=nvidia" in environment
    assert 'CROSSVENDOR_POD=a "b" \\c' in environment
    assert "PYTHONPATH=/opt/crossvendor" in environment
    assert "OTHER=1" not in environment


def test_only_the_jobs_key_opens_a_session(worker: Container) -> None:
    done = worker.run(
        SERVE
        + """
        ssh-keygen -q -t ed25519 -N '' -f ~/other
        ssh -o BatchMode=yes -o IdentitiesOnly=yes -i ~/other -F none \
            -o StrictHostKeyChecking=no -p 2222 localhost id
        """,
        prepare=KEYS,
    )
    assert done.returncode == 255
    assert "Permission denied (publickey)" in done.stderr


def test_every_container_has_a_host_key_of_its_own(worker: Container) -> None:
    keys = {worker.run(SERVE + "cut -d' ' -f3 ~/scan", prepare=KEYS).stdout for _ in range(2)}
    assert len(keys) == 2
    assert "" not in keys


def test_a_worker_without_the_jobs_keys_says_so(worker: Container) -> None:
    done = worker.run("start-sshd")
    assert done.returncode == 2
    assert "id_rsa cannot be read; give the job Volcano's ssh plugin" in done.stderr


def test_a_value_that_sshd_cannot_hand_on_is_refused(worker: Container) -> None:
    done = worker.run("start-sshd", environment=["CROSSVENDOR_POD=a\nb"], prepare=KEYS)
    assert done.returncode == 2
    assert "CROSSVENDOR_POD has a line break" in done.stderr


def test_root_cannot_serve(worker: Container) -> None:
    said = worker.look('chroot "$root" /usr/local/bin/start-sshd 2>&1 || echo "status $?"')
    assert "running as root; set runAsUser: 1000" in said
    assert "status 2" in said


@pytest.mark.parametrize("carrier", ["mpi", "gloo", "libucc"])
def test_two_ranks_add_up_on_every_carrier(worker: Container, carrier: str) -> None:
    done = worker.run(
        f"""
        cat > ~/rank.py <<'EOF'
        import os, torch, torch.distributed as dist
        import training.libucc
        rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
        dist.init_process_group("{carrier}", rank=rank, world_size=2)
        for size in (3, 300_001):
            values = torch.arange(size, dtype=torch.float64) * (rank + 1)
            dist.all_reduce(values)
            assert torch.equal(values, torch.arange(size, dtype=torch.float64) * 3)
        maps = open("/proc/self/maps").read().split()
        print(len(set(m for m in maps if "/libucp.so" in m)), flush=True)
        dist.destroy_process_group()
        EOF
        export MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 USE_LIBUV=0
        export UCC_TLS=ucp,self UCC_CL_BASIC_TLS=ucp,self UCX_TLS=tcp,self UCX_NET_DEVICES=lo
        export OMPI_MCA_pml=ucx OMPI_MCA_opal_common_ucx_tls=any
        export OMPI_MCA_opal_common_ucx_devices=any
        mpirun -n 2 --oversubscribe --bind-to none python3 ~/rank.py
        """
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["1", "1"]
