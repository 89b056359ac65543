import pytest

from workloads.training.bandwidth import (
    algorithm_bandwidth,
    bus_bandwidth,
    least_seconds,
    link_share,
)


def test_bus_bandwidth_is_that_of_nccl_tests() -> None:
    assert algorithm_bandwidth(8_000_000, 2.0) == 4.0
    assert bus_bandwidth(8_000_000, 4, 2.0) == pytest.approx(4.0 * 2 * 3 / 4)
    assert bus_bandwidth(1_000_000, 1, 1.0) == 0


def test_two_nodes_must_send_the_whole_buffer_each() -> None:
    # 64 MiB over 1 Gbit/s
    assert least_seconds(64 * 2**20, 2, 1000) == pytest.approx(0.536870912)


def test_many_nodes_must_send_nearly_twice_as_much() -> None:
    assert least_seconds(1_000_000, 1000, 8) == pytest.approx(2, rel=1e-2)


def test_the_share_is_1_when_the_least_time_was_taken() -> None:
    assert link_share(10_000_000, 3, 500, least_seconds(10_000_000, 3, 500)) == pytest.approx(1)


def test_where_no_link_is_crossed_or_known_there_is_no_share() -> None:
    assert link_share(1000, 1, 500, 1.0) is None
    assert link_share(1000, 2, None, 1.0) is None
