"""Numbers as people read them."""

import pytest

from tests.unit.workloads.report.builders import a_request, results_of
from workloads.report import figures
from workloads.report.results import Results


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [
        (4, "4 B"),
        (1023, "1,023 B"),
        (1024, "1 KiB"),
        (1536, "1.50 KiB"),
        (1_048_572, "1.00 MiB"),
        (256 << 20, "256 MiB"),
        (5 << 40, "5 TiB"),
    ],
)
def test_sizes_have_the_unit_that_keeps_them_short(num_bytes: int, text: str) -> None:
    assert figures.size(num_bytes) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (6.2e-5, "62 us"),
        (0.0034, "3.40 ms"),
        (12.14, "12.1 s"),
        (185, "3 min 05 s"),
    ],
)
def test_durations_have_the_unit_that_fits(seconds: float | None, text: str) -> None:
    assert figures.duration(seconds) == text


def test_links_shares_and_bandwidths_say_when_they_are_not_known() -> None:
    assert figures.link(None) == "link not limited or not known"
    assert (figures.link(781), figures.link(5000)) == ("781 Mbit/s", "5 Gbit/s")
    assert (figures.share(None), figures.share(0.956)) == ("-", "96%")
    assert (figures.bandwidth(None), figures.bandwidth(118.7)) == ("-", "119 MB/s")


def test_a_carrier_stands_for_itself_by_its_smallest_and_largest_message_in_place() -> None:
    row = figures.carrier_figures(results_of(a_request()), "mpi")
    assert row.is_clean
    assert (row.num_cases, row.num_wrong, row.num_skipped) == (65, 0, 1)
    assert row.smallest is not None
    assert row.largest is not None
    assert (row.smallest.num_bytes, row.largest.num_bytes) == (4, 1_048_572)
    assert row.largest.in_place


def test_a_carrier_that_did_nothing_is_not_clean() -> None:
    row = figures.carrier_figures(Results(), "mpi")
    assert not row.is_clean
    assert row.smallest is None
