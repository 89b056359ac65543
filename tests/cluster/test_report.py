"""The report in a browser: verdict, picture, plots and rows are really there, and nothing errs."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.conftest import Run
from tests.unit.workloads.report.builders import JsonObject, a_record, a_request, results_of
from workloads.report import page
from workloads.report.judgement import judge

pytestmark = pytest.mark.cluster

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

# Measures what a reader would see, then uses the table as a reader would, and leaves what it found
# in the document, which the browser prints.
PROBE: Final = """
<script>
(() => {
  const box = (selector) => {
    const element = document.querySelector(selector);
    if (!element) return null;
    const {width, height} = element.getBoundingClientRect();
    return [width, height];
  };
  const shown = () => [...document.querySelectorAll("#cases tbody tr")].filter((r) => !r.hidden);
  const found = {
    verdict: document.querySelector("#verdict .badge").textContent,
    headline: document.querySelector("#verdict h1").textContent,
    boxes: Object.fromEntries(["#verdict", "#picture", "#timeline", "#latency-plot svg",
      "#bandwidth-plot svg", "#cases", "#ranks table", "#settings table"].map((s) => [s, box(s)])),
    nodes: document.querySelectorAll("#picture .node").length,
    pods: document.querySelectorAll("#picture .pod").length,
    bars: document.querySelectorAll("#timeline .bar").length,
    lines: document.querySelectorAll("#latency-plot path[style*='stroke: #']").length,
    rows: shown().length,
    firstRow: shown()[0]?.className,
    overflow: document.documentElement.scrollWidth - window.innerWidth,
    background: getComputedStyle(document.body).backgroundColor,
    ink: getComputedStyle(document.querySelector("#latency-plot text")).fill,
  };
  const text = document.getElementById("filter-text");
  const enter = (value) => { text.value = value; text.dispatchEvent(new Event("input")); };
  enter("float64 in");
  found.filtered = shown().every((row) => /float64/.test(row.textContent)) ? shown().length : -1;
  enter("no such case");
  found.none = shown().length;
  enter("");
  const header = document.querySelectorAll("#cases th")[8];
  const times = () => shown().map((row) => Number(row.cells[8].dataset.value));
  const inOrder = (list, sign) => list.every((t, i) => !i || sign * (t - list[i - 1]) >= 0);
  header.querySelector("button").click();
  found.ascending = inOrder(times(), 1);
  header.querySelector("button").click();
  found.descending = inOrder(times(), -1);
  document.body.dataset.found = JSON.stringify(found);
})();
</script>
"""


@dataclass(frozen=True, kw_only=True)
class Browser:
    """Headless Chromium."""

    program: str
    folder: Path

    def open(self, html: str, *, width: int = 1280, dark: bool = False) -> tuple[Any, list[str]]:
        """What the probe found on a page, and what its console complained about."""
        assert html.count("</body>") == 1
        file = self.folder / "index.html"
        file.write_text(html.replace("</body>", f"{PROBE}</body>"), encoding="utf-8")
        done = subprocess.run(
            [
                self.program,
                "--headless",
                "--no-sandbox",  # it runs as root, and opens nothing but this file
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                f"--user-data-dir={self.folder / 'profile'}",
                f"--window-size={width},2000",
                f"--blink-settings=preferredColorScheme={0 if dark else 1}",
                "--enable-logging=stderr",
                "--dump-dom",
                file.as_uri(),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        complaints = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
        found = re.search(r'data-found="([^"]*)"', done.stdout)
        assert found is not None, f"the probe did not run: {complaints} {done.stderr[-2000:]}"
        return json.loads(unescape(found[1])), complaints


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Browser:
    """Chromium, installed if it is missing and may be."""
    present = (found for found in map(shutil.which, NAMES) if found is not None)
    program = next(present, None)
    if program is None and os.geteuid() == 0 and shutil.which("apt-get") is not None:
        install = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "chromium"]
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(install, env=environment, capture_output=True, timeout=300, check=False)
        program = shutil.which(NAMES[0])
    if program is None:
        pytest.fail(
            f"the report needs a browser, none of {', '.join(NAMES)} is on the PATH; "
            "run `apt-get install chromium` as root."
        )
    return Browser(program=program, folder=tmp_path_factory.mktemp("browser"))


def a_failing_page() -> str:
    """A run in which one carrier is wrong: a page that `make test` has no cluster run for."""

    def change(log: list[JsonObject]) -> None:
        cases = [e for e in log if e["event"] == "case" and e["carrier"] == "libucc"]
        first = {"rank": 1, "index": 4, "got": 3.0, "expected": 6.0}
        for case in cases[10:20]:
            case.update(correct=False, num_wrong_elements=9, first_wrong=first)

    request = a_request(2, 2)
    record, results = a_record(request), results_of(request, change)
    return page.render(record, results, judge(record, results))


@pytest.fixture(scope="session")
def failing(browser: Browser) -> tuple[Any, list[str]]:
    """What the probe found on the failing page in an ordinary window."""
    return browser.open(a_failing_page())


@pytest.fixture(scope="session")
def passing_page(check_run: Run) -> str:
    """The page of the run that the other tests look into, too."""
    return check_run.report.read_text(encoding="utf-8")


def test_every_part_of_the_runs_report_is_drawn(
    browser: Browser, passing_page: str, check_run: Run
) -> None:
    found, complaints = browser.open(passing_page)
    assert complaints == []
    assert found["verdict"] == "PASS"
    for name, box in found["boxes"].items():
        assert box is not None, f"{name} is missing"
        assert min(box) > 40, f"{name} is drawn with {box}"
    ranks = {rank["pod"] for rank in check_run.of("rank")}
    assert found["nodes"] > len(ranks)
    assert found["pods"] == len(ranks) + 1
    assert found["bars"] > found["pods"]
    assert found["lines"] > 0
    assert found["rows"] == len(check_run.of("case"))


def test_a_failure_is_named_on_top_and_its_cases_come_first(failing: tuple[Any, list[str]]) -> None:
    found, complaints = failing
    assert complaints == []
    assert found["verdict"] == "FAIL"
    assert "libucc: 10 of 85 cases are wrong" in found["headline"]
    assert found["firstRow"] == "wrong"


def test_the_table_filters_and_sorts(failing: tuple[Any, list[str]]) -> None:
    found, _ = failing
    assert 0 < found["filtered"] < found["rows"]
    assert found["none"] == 0
    assert found["ascending"]
    assert found["descending"]


@pytest.mark.parametrize("width", [500, 2200])
def test_the_page_fits_the_window(browser: Browser, width: int) -> None:
    found, _ = browser.open(a_failing_page(), width=width)
    assert found["overflow"] <= 0


def test_light_and_dark_follow_the_readers_choice(
    browser: Browser, failing: tuple[Any, list[str]]
) -> None:
    light, _ = failing
    dark, _ = browser.open(a_failing_page(), dark=True)
    assert light["background"] != dark["background"]
    assert light["ink"] != dark["ink"]


def test_an_error_in_a_page_is_seen_by_these_tests(browser: Browser) -> None:
    broken = a_failing_page().replace("</body>", "<script>missing()</script></body>")
    _, complaints = browser.open(broken)
    assert "missing is not defined" in " ".join(complaints)
