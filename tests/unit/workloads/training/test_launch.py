import pytest

from workloads.training.launch import Launch, LaunchError

MASTER = {"MASTER_ADDR": "pod-0.job", "MASTER_PORT": "29500"}
MPIRUN = {
    "OMPI_COMM_WORLD_RANK": "2",
    "OMPI_COMM_WORLD_SIZE": "3",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    **MASTER,
}
TORCHRUN = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", **MASTER}


def test_mpiruns_variables_are_read() -> None:
    launch = Launch.read(MPIRUN)
    assert (launch.started_by, launch.rank, launch.world_size, launch.local_rank) == (
        "mpirun",
        2,
        3,
        1,
    )
    assert (launch.master_address, launch.master_port) == ("pod-0.job", 29500)


def test_torchruns_variables_are_read() -> None:
    launch = Launch.read(TORCHRUN)
    assert (launch.started_by, launch.rank, launch.world_size) == ("torchrun", 0, 2)


def test_mpirun_wins_where_both_are_set() -> None:
    assert Launch.read({**TORCHRUN, **MPIRUN}).rank == 2


def test_the_store_is_rank_0s_unless_torchruns_agent_serves_it() -> None:
    assert not Launch.read(TORCHRUN).is_store_elsewhere
    assert Launch.read({**TORCHRUN, "TORCHELASTIC_USE_AGENT_STORE": "True"}).is_store_elsewhere


def test_a_pod_has_the_hosts_name_unless_told_otherwise() -> None:
    launch = Launch.read(TORCHRUN)
    assert launch.pod == launch.hostname
    named = Launch.read({**TORCHRUN, "CROSSVENDOR_POD": "w-0", "CROSSVENDOR_VENDOR": "amd"})
    assert (named.pod, named.vendor) == ("w-0", "amd")


def test_the_links_rate_may_be_unknown() -> None:
    assert Launch.read(TORCHRUN).link_mbits is None
    assert Launch.read({**TORCHRUN, "CROSSVENDOR_LINK_MBITS": ""}).link_mbits is None
    assert Launch.read({**TORCHRUN, "CROSSVENDOR_LINK_MBITS": "2000"}).link_mbits == 2000


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"RANK": None}, "OMPI_COMM_WORLD_RANK or RANK is not set; start this with mpirun"),
        ({"WORLD_SIZE": None}, "WORLD_SIZE is not set"),
        ({"MASTER_ADDR": ""}, "MASTER_ADDR is not set; give every rank"),
        ({"MASTER_PORT": "http"}, "MASTER_PORT is 'http'; it must be a whole number"),
        ({"RANK": "-1"}, "RANK is '-1'"),
        ({"RANK": "2"}, "RANK is 2 in a world of 2; ranks go from 0 to 1"),
        ({"CROSSVENDOR_LINK_MBITS": "fast"}, "CROSSVENDOR_LINK_MBITS is 'fast'"),
        ({"CROSSVENDOR_LINK_MBITS": "nan"}, "CROSSVENDOR_LINK_MBITS is 'nan'"),
        ({"CROSSVENDOR_LINK_MBITS": "0"}, "CROSSVENDOR_LINK_MBITS is '0'"),
    ],
)
def test_a_wrong_environment_is_refused_by_name(
    changes: dict[str, str | None], sentence: str
) -> None:
    environment = {
        name: value for name, value in {**TORCHRUN, **changes}.items() if value is not None
    }
    with pytest.raises(LaunchError) as refused:
        Launch.read(environment)
    assert sentence in str(refused.value)
