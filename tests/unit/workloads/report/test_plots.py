"""The plots: inline SVG that takes its ink from the page."""

import re
from xml.etree import ElementTree

import pytest

from tests.unit.workloads.report.builders import CARRIERS, a_request, results_of
from workloads.report import plots
from workloads.report.results import Results

RESULTS = results_of(a_request())
LATENCY = plots.latency_svg(RESULTS, CARRIERS)
BANDWIDTH = plots.bandwidth_svg(RESULTS, CARRIERS, 2000)


@pytest.mark.parametrize("svg", [LATENCY, BANDWIDTH], ids=["latency", "bandwidth"])
def test_a_plot_is_one_well_formed_element_without_references(svg: str | None) -> None:
    assert svg is not None
    assert ElementTree.fromstring(svg).tag == "svg"  # noqa: S314  # made here
    assert "http" not in svg
    assert "<style" not in svg
    assert plots.INK not in svg
    assert "currentColor" in svg


@pytest.mark.parametrize("svg", [LATENCY, BANDWIDTH], ids=["latency", "bandwidth"])
def test_every_carrier_has_its_color_and_its_name(svg: str | None) -> None:
    assert svg is not None
    for carrier, color in zip(CARRIERS, plots.PALETTE, strict=False):
        assert f">{carrier}</text>" in svg
        assert svg.count(f"stroke: {color}") >= 2


def test_the_ids_of_two_plots_in_one_page_do_not_clash() -> None:
    assert LATENCY is not None
    assert BANDWIDTH is not None
    ids = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in (LATENCY, BANDWIDTH)]
    assert not ids[0] & ids[1]
    for svg, known in zip((LATENCY, BANDWIDTH), ids, strict=True):
        assert set(re.findall(r'(?:href="|url\()#([^")]+)', svg)) <= known


def test_the_links_limit_is_a_line_where_it_is_known() -> None:
    unknown = plots.bandwidth_svg(RESULTS, CARRIERS, None)
    assert BANDWIDTH is not None
    assert unknown is not None
    assert "limit of the slowest link: 250 MB/s" in BANDWIDTH
    assert plots.LIMIT in BANDWIDTH
    assert plots.LIMIT not in unknown


def test_the_same_results_give_the_same_drawing() -> None:
    assert plots.latency_svg(RESULTS, CARRIERS) == LATENCY


def test_without_timed_cases_there_is_no_plot() -> None:
    assert plots.latency_svg(Results(), CARRIERS) is None
    assert plots.bandwidth_svg(Results(), CARRIERS, 2000) is None


def test_a_hostile_carrier_stays_text() -> None:
    request = a_request(carriers=("<script>$x^2$",))
    svg = plots.latency_svg(results_of(request), request.carriers)
    assert svg is not None
    assert "<script>" not in svg
    assert "&lt;script&gt;$x^2$" in svg
