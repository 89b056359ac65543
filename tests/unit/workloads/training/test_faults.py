from workloads.training.faults import FAULT_RANK, FAULTS, ODD_SETTING
from workloads.training.settings import PREFIXES


def test_every_fault_says_what_the_faulty_rank_does() -> None:
    assert all(what.startswith(f"rank {FAULT_RANK} ") for what in FAULTS.values())


def test_the_odd_setting_is_one_that_ranks_compare() -> None:
    assert ODD_SETTING[0].startswith(PREFIXES)
