"""The report's HTML: whole, self-contained, and safe against what a job may print."""

import re
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.unit.workloads.report.builders import (
    JsonObject,
    a_record,
    a_request,
    events,
    log_of,
    results_of,
)
from workloads.report import page
from workloads.report.judgement import judge
from workloads.report.record import ClusterEvent, Record
from workloads.report.results import Results, parse_log

HOSTILE = "</script><script>alert('x')</script><img src=x onerror=alert(1)>\"'&"
VOID = {"meta", "link", "input", "br", "img"}


class Elements(HTMLParser):
    """The elements of a page; `problems` says where tags do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.problems: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)
        self.close()
        self.problems += [f"{tag} is not closed" for tag in self.open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An opening tag."""
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag that closes itself."""
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """A closing tag."""
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"{tag} closed at {self.getpos()}")

    def named(self, name: str) -> list[dict[str, str | None]]:
        """The attributes of all elements of a name."""
        return [attributes for tag, attributes in self.found if tag == name]


def html_of(record: Record, results: Results) -> str:
    return page.render(record, results, judge(record, results))


def a_wrong_case(log: list[JsonObject]) -> None:
    wrong = [e for e in log if e["event"] == "case" and e["carrier"] == "mpi"][20]
    first = {"rank": 1, "index": 4, "got": 3.0, "expected": 6.0}
    wrong.update(correct=False, num_wrong_elements=9, first_wrong=first)


PASSING = html_of(a_record(a_request()), results_of(a_request()))
FAILING = html_of(a_record(a_request(), phase="Failed"), results_of(a_request(), a_wrong_case))
EMPTY = html_of(a_record(a_request(), phase="", pods=(), nodes=(), problem="a: b; c."), Results())


@pytest.mark.parametrize("html", [PASSING, FAILING, EMPTY], ids=["pass", "fail", "empty"])
def test_every_tag_is_closed_and_every_id_is_there_once(html: str) -> None:
    elements = Elements(html)
    assert elements.problems == []
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("html", [PASSING, FAILING, EMPTY], ids=["pass", "fail", "empty"])
def test_the_page_refers_to_nothing_outside_itself(html: str) -> None:
    assert re.findall(r"(?:https?:)?//[a-z0-9]+\.[^\s\"']+", html) == []
    elements = Elements(html)
    for tag in ("img", "iframe", "object", "embed"):
        assert elements.named(tag) == []
    assert [script for script in elements.named("script") if script] == []
    assert [link["href"] for link in elements.named("link")] == ["data:,"]
    [policy] = [m for m in elements.named("meta") if "http-equiv" in m]
    assert "default-src 'none'" in str(policy["content"])
    assert "@import" not in html
    assert "url(http" not in html


def test_a_passing_page_has_every_part() -> None:
    elements = Elements(PASSING)
    ids = {attributes.get("id") for _, attributes in elements.found}
    parts = {"verdict", "carriers", "picture", "timeline", "latency-plot", "bandwidth-plot"}
    assert parts | {"cases", "ranks", "settings", "timings"} <= ids
    assert PASSING.count('data-result="right"') == 235
    assert 'data-result="wrong"' not in PASSING
    assert '<div class="verdict pass"' in PASSING
    assert "1.4.0 (wheel nvidia-libcal-cu12 0.4.4.50.post1)" in PASSING
    assert "avg (MPI has no average)" in PASSING
    assert "Identical on all ranks" in PASSING


def test_a_failing_page_opens_with_the_problem_and_the_wrong_case_is_the_first_row() -> None:
    assert '<div class="verdict fail"' in FAILING
    body = FAILING.partition('<table id="cases">')[2].partition("<tbody>")[2]
    first = body.partition("</tr>")[0]
    assert 'class="wrong"' in first
    assert "rank 1, index 4: 3.0 instead of 6.0" in first
    assert "mpi: 1 of 65 cases are wrong" in FAILING.partition("</h1>")[0]


def test_a_page_about_a_job_that_never_ran_says_what_to_do() -> None:
    assert "<h1>a: b; c.</h1>" in EMPTY
    assert "No case was run." in EMPTY
    assert "no node was seen" in EMPTY
    assert "latency-plot" not in EMPTY


def test_differing_settings_are_named_with_both_values() -> None:
    def change(log: list[JsonObject]) -> None:
        rank = next(e for e in log if e["event"] == "rank" and e["rank"] == 1)
        rank["settings"] = {**rank["settings"], "UCX_TLS": "rc"}

    request = a_request()
    rows = page.settings_table(results_of(request, change))
    assert rows[0].name == "UCX_TLS"
    assert rows[0].differs
    assert rows[0].values == (
        ("libucc, rank 0", "tcp,self,sm"),
        ("libucc, rank 1", "rc"),
        ("mpi, gloo", "tcp,self,sm"),
    )
    assert all(not row.differs and row.values[0][0] == "all ranks" for row in rows[1:])
    html = html_of(a_record(request), results_of(request, change))
    assert "1 differ between ranks of one carrier" in html


def test_a_rank_that_says_the_same_on_every_carrier_is_one_row() -> None:
    request = a_request()
    table = page.rank_table(a_record(request), results_of(request))
    assert [row.rank for row in table.rows] == [0, 1]
    assert table.rows[0].carriers == ("libucc", "mpi", "gloo")
    assert table.rows[1].node == "crossvendor-amd-0"


def test_what_a_job_or_a_cluster_says_is_never_markup() -> None:
    def change(log: list[JsonObject]) -> None:
        for event in log:
            match event["event"]:
                case "rank":
                    event.update(hostname=HOSTILE, device=HOSTILE, origins={HOSTILE: HOSTILE})
                    event["settings"] = {HOSTILE: HOSTILE}
                    event["versions"] = {HOSTILE: HOSTILE}
                case "case":
                    event.update(team=HOSTILE, op=HOSTILE, error=HOSTILE, correct=False)
                case "summary":
                    event.update(skipped=[{"what": HOSTILE, "why": HOSTILE}])
                case "verdict":
                    event.update(message=HOSTILE, passed=False)

    request = a_request(carriers=(HOSTILE,), job=HOSTILE)
    seen = ClusterEvent(
        time=1, kind=HOSTILE, name=HOSTILE, type="Warning", reason=HOSTILE, message=HOSTILE
    )
    record = a_record(request, events=(seen,), log_tail=(HOSTILE,), problem=HOSTILE, server=HOSTILE)
    html = html_of(record, results_of(request, change))
    elements = Elements(html)
    assert elements.problems == []
    assert len(elements.named("script")) == 1
    assert elements.named("img") == []
    assert all(not name.startswith("on") for _, a in elements.found for name in a)


def test_a_large_result_is_rendered_in_seconds(tmp_path: Path) -> None:
    request = a_request(4, 4)
    sizes = [4 * (2**power + 1) for power in range(20)]
    lines = log_of(events(request, [4, *sizes]))
    begun = time.monotonic()
    results = parse_log(lines)
    record = a_record(request)
    page.write(tmp_path / "deep" / "index.html", record, results, judge(record, results))
    assert time.monotonic() - begun < 5
    assert len(results.cases) > 900
    assert (tmp_path / "deep" / "index.html").stat().st_size < 3_000_000
