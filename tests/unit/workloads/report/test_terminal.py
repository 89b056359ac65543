"""The report in short."""

import io
from pathlib import Path

from rich.console import Console

from tests.unit.workloads.report.builders import JsonObject, a_record, a_request, results_of
from workloads.report import terminal
from workloads.report.judgement import judge
from workloads.report.record import Record
from workloads.report.results import Results


def shown(record: Record, results: Results) -> str:
    console = Console(file=io.StringIO(), width=140)
    judgement = judge(record, results)
    terminal.show(console, record, results, judgement)
    terminal.show_timings(console, record.timings)
    terminal.show_verdict(console, judgement, Path("build/report/index.html"))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_it_shows_ranks_carriers_timings_and_ends_with_the_verdict() -> None:
    request = a_request()
    lines = shown(a_record(request), results_of(request)).splitlines()
    text = "\n".join(lines)
    assert lines[-1].startswith("PASS: 1 nvidia and 1 amd workers agree")
    assert lines[-2] == "report: build/report/index.html"
    for part in ("crossvendor-amd-0", "2.6.0", "60.0 us at 4 B", "83%", "control plane"):
        assert part in text
    assert "208 MB/s at 1.00 MiB" in text


def test_a_failure_shows_its_further_problems_in_short() -> None:
    def change(log: list[JsonObject]) -> None:
        for event in log:
            if event["event"] == "rank":
                event["vendor"] = "[red]?"

    request = a_request(4, 4)
    text = shown(a_record(request), results_of(request, change))
    last = text.splitlines()[-1]
    assert last.startswith("FAIL: libucc: rank 0 in pod")
    assert "says vendor '[red]?'" in last
    assert "Also:" in text
    assert "and 17 more" in text


def test_nothing_but_a_verdict_is_shown_of_a_job_that_said_nothing() -> None:
    record = a_record(a_request(), problem="job x: no node; add one.")
    text = shown(record, Results())
    assert "Ranks" not in text
    assert text.splitlines()[-1] == "FAIL: job x: no node; add one."
