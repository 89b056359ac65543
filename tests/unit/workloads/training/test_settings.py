from pathlib import Path

import pytest

from workloads.training.settings import communication_settings, cpu_model, ucc_conf


def test_the_libraries_variables_are_settings_and_others_are_not() -> None:
    environment = {
        "UCX_TLS": "tcp,self",
        "UCC_TLS": "ucp",
        "OMPI_MCA_pml": "ucx",
        "PRTE_MCA_x": "1",
        "NCCL_DEBUG": "INFO",
        "RCCL_X": "1",
        "GLOO_SOCKET_IFNAME": "eth0",
        "HOME": "/root",
        "OMPI_COMM_WORLD_RANK": "1",
        "PMIX_RANK": "1",
        "MY_UCX_TLS": "tcp",
    }
    assert set(communication_settings(environment)) == {
        "UCX_TLS",
        "UCC_TLS",
        "OMPI_MCA_pml",
        "PRTE_MCA_x",
        "NCCL_DEBUG",
        "RCCL_X",
        "GLOO_SOCKET_IFNAME",
    }


def test_what_mpirun_says_about_the_process_is_no_setting() -> None:
    assert communication_settings({"OMPI_MCA_initial_wdir": "/a", "OMPI_MCA_cpu_type": "x"}) == {}


def test_an_empty_setting_is_a_setting() -> None:
    assert communication_settings({"UCC_CONFIG_FILE": ""}) == {"UCC_CONFIG_FILE": ""}


def library_with_conf(prefix: Path) -> str:
    (prefix / "lib").mkdir()
    (prefix / "share").mkdir()
    (prefix / "share" / "ucc.conf").write_text("[vendor=amd]")
    library = prefix / "lib" / "libucc.so.1"
    library.touch()
    return str(library)


def test_without_ucc_conf_there_is_nothing_to_agree_on(tmp_path: Path) -> None:
    library = str(tmp_path / "lib" / "libucc.so.1")
    assert ucc_conf({"HOME": str(tmp_path)}, library) == "none"


def test_the_file_that_a_package_ships_is_found(tmp_path: Path) -> None:
    library = library_with_conf(tmp_path)
    assert ucc_conf({"HOME": "/nonexistent"}, library, cpu="amd rome").endswith("for amd rome")


def test_the_file_in_the_home_folder_comes_first(tmp_path: Path) -> None:
    library = library_with_conf(tmp_path)
    (tmp_path / "ucc.conf").write_text("mine")
    found = ucc_conf({"HOME": str(tmp_path)}, library, cpu="x")
    assert found != ucc_conf({"HOME": "/nonexistent"}, library, cpu="x")


def test_an_empty_file_name_means_no_file(tmp_path: Path) -> None:
    assert ucc_conf({"UCC_CONFIG_FILE": ""}, library_with_conf(tmp_path)) == "none"


def test_with_a_ucc_conf_unequal_processors_are_a_disagreement(tmp_path: Path) -> None:
    library = library_with_conf(tmp_path)
    on_intel, on_amd = (
        ucc_conf({"HOME": "/nonexistent"}, library, cpu=cpu) for cpu in ("intel 85", "amd 49")
    )
    assert on_intel != on_amd


@pytest.mark.parametrize("off", ["n", "no", "0"])
def test_without_tuning_the_processor_does_not_matter(tmp_path: Path, off: str) -> None:
    library = library_with_conf(tmp_path)
    environment = {"HOME": "/nonexistent", "UCC_TL_UCP_USE_TUNING": off}
    values = {ucc_conf(environment, library, cpu=cpu) for cpu in ("intel 85", "amd 49")}
    assert len(values) == 1
    assert values != {"none"}


def test_this_processor_has_a_name() -> None:
    assert cpu_model()
