"""The report in short, for a terminal; the whole one is page.py's."""

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from workloads.report import figures
from workloads.report.judgement import Judgement
from workloads.report.page import rank_table
from workloads.report.record import Record, Timing
from workloads.report.results import Results

MAX_PROBLEMS = 6


def show(console: Console, record: Record, results: Results, judgement: Judgement) -> None:
    """Ranks, carriers and further problems; the verdict line is printed by `show_verdict`."""
    ranks = rank_table(record, results)
    if ranks.rows:
        table = _table("Ranks", "rank", "vendor", "node", "device", *ranks.libraries)
        for rank in ranks.rows:
            facts = (str(rank.rank), rank.vendor, rank.node, rank.device, *rank.versions)
            table.add_row(*_plain(*facts))
        console.print(table)
    table = _table(
        "Carriers", "carrier", "cases", "wrong", "skipped", "latency", "bandwidth", "of the link"
    )
    for carrier in dict.fromkeys((*record.request.carriers, *results.carriers)):
        row = figures.carrier_figures(results, carrier)
        table.add_row(
            Text(carrier, style="green" if row.is_clean else "bold red"),
            *_plain(str(row.num_cases), str(row.num_wrong), str(row.num_skipped)),
            *_plain(_latency(row), _bandwidth(row)),
            figures.share(row.largest.link_share if row.largest else None),
        )
    console.print(table)
    if len(judgement.problems) > 1:
        console.print(Text("Also:", style="bold"))
        for problem in judgement.problems[1 : MAX_PROBLEMS + 1]:
            console.print(Text(f"  {problem}"))
        if len(judgement.problems) > MAX_PROBLEMS + 1:
            console.print(Text(f"  and {len(judgement.problems) - MAX_PROBLEMS - 1} more"))


def show_timings(console: Console, timings: tuple[Timing, ...]) -> None:
    """Steps with their seconds."""
    table = _table("Timings", "step", "seconds")
    table.columns[1].justify = "right"
    for timing in timings:
        table.add_row(*_plain(timing.step, f"{timing.seconds:.1f}"))
    console.print(table)


def show_verdict(console: Console, judgement: Judgement, report: Path | None) -> None:
    """Where the report is, and the verdict as the last line, unbroken for whoever greps it."""
    if report is not None:
        console.print(Text(f"report: {report}"), soft_wrap=True)
    style = "bold green" if judgement.passed else "bold red"
    console.print(Text(judgement.line, style=style), soft_wrap=True)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2))
    for column in columns:
        table.add_column(column, header_style="dim", overflow="fold")
    return table


def _plain(*texts: str) -> tuple[Text, ...]:
    """What a job said is never markup."""
    return tuple(Text(text) for text in texts)


def _latency(row: figures.CarrierFigures) -> str:
    if row.smallest is None:
        return "-"
    return f"{figures.duration(row.smallest.seconds)} at {figures.size(row.smallest.num_bytes)}"


def _bandwidth(row: figures.CarrierFigures) -> str:
    if row.largest is None:
        return "-"
    return f"{figures.bandwidth(row.largest.busbw_mbs)} at {figures.size(row.largest.num_bytes)}"
