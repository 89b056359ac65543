"""Latency and bus bandwidth over message size as inline SVG, one line per carrier.

Colors of text and frame are left to the page, so that one drawing serves light and dark.
"""

import io
import re
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

from workloads.report import figures
from workloads.report.results import CaseEvent, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Draw = Callable[[Axes, Sequence[CaseEvent], str, str, str], None]
    Finish = Callable[[Axes], None]

PALETTE: Final = ("#2f7ed8", "#d9730d", "#2a9d6f", "#a855c7", "#c2387b")
"""Readable on white and on near-black, also for color-blind readers; by order of carriers."""

INK: Final = "#010203"
"""Stands for the page's text color; replaced by `currentColor`."""

LIMIT: Final = "#e5484d"

_STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",  # text stays text: searchable, and in the page's font
    "font.size": 8.5,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.13,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "legend.fontsize": 8,
}


def latency_svg(results: Results, carriers: Sequence[str]) -> str | None:
    """Time of one allreduce over its size, both logarithmic; None without timed cases."""

    def draw(axes: "Axes", curve: Sequence[CaseEvent], color: str, style: str, label: str) -> None:
        times = [case.seconds for case in curve if case.seconds]
        _line(axes, curve, times, color, style, label)

    def finish(axes: "Axes") -> None:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: figures.duration(value))
        axes.yaxis.set_minor_formatter("")
        axes.set_ylabel("time of one allreduce")

    return _plot(results, carriers, draw, finish, prefix="latency")


def bandwidth_svg(results: Results, carriers: Sequence[str], link_mbits: int | None) -> str | None:
    """Bus bandwidth over size, with the link's limit as a line; None without timed cases."""

    def draw(axes: "Axes", curve: Sequence[CaseEvent], color: str, style: str, label: str) -> None:
        rates = [case.busbw_mbs if case.busbw_mbs is not None else 0.0 for case in curve]
        _line(axes, curve, rates, color, style, label)

    def finish(axes: "Axes") -> None:
        axes.set_ylabel("bus bandwidth [MB/s]")
        if link_mbits is not None:
            axes.axhline(link_mbits / 8, color=LIMIT, linewidth=1, linestyle=(0, (5, 3)))
            axes.annotate(
                f"limit of the slowest link: {link_mbits / 8:,.0f} MB/s",
                xy=(0, link_mbits / 8),
                xycoords=("axes fraction", "data"),
                xytext=(4, 3),
                textcoords="offset points",
                color=LIMIT,
                fontsize=8,
            )
            axes.set_ylim(top=max(axes.get_ylim()[1], link_mbits / 8 * 1.12))
        axes.set_ylim(bottom=0)

    return _plot(results, carriers, draw, finish, prefix="bandwidth")


def _plot(
    results: Results, carriers: Sequence[str], draw: "Draw", finish: "Finish", *, prefix: str
) -> str | None:
    # matplotlib takes more than a second to import, and not every command draws.
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    curves = [
        (carrier, color, in_place, figures.timed(results.cases_of(carrier), in_place=in_place))
        for carrier, color in zip(carriers, cycle(PALETTE), strict=False)
        for in_place in (True, False)
    ]
    curves = [curve for curve in curves if curve[-1]]
    if not curves:
        return None
    with mpl.rc_context({**_STYLE, "svg.hashsalt": prefix}):
        figure = Figure(figsize=(4.7, 3.3), layout="constrained")
        axes = figure.add_subplot()
        for carrier, color, in_place, cases in curves:
            draw(axes, cases, color, "-" if in_place else ":", carrier)
        axes.set_xscale("log", base=2)
        axes.set_xlabel("message size (solid: in place, dotted: out of place)")
        axes.xaxis.set_major_locator(LogLocator(base=2, numticks=7))
        axes.xaxis.set_major_formatter(lambda value, _: figures.size(value).replace(" ", ""))
        axes.grid(visible=True)
        finish(axes)
        handles, labels = axes.get_legend_handles_labels()
        first = {label: handle for handle, label in reversed([*zip(handles, labels, strict=True)])}
        names = [carrier for carrier in carriers if carrier in first]
        figure.legend([first[name] for name in names], names, loc="outside upper left", ncols=5)
        return _inline(figure, prefix)


def _line(
    axes: "Axes",
    curve: Sequence[CaseEvent],
    values: Sequence[float],
    color: str,
    style: str,
    label: str,
) -> None:
    sizes = [case.num_bytes for case in curve]
    axes.plot(sizes, values, style, color=color, linewidth=1.4, marker="o", ms=2.5, label=label)


def _inline(figure: "Figure", prefix: str) -> str:
    """The drawing as an element of a page: no prolog, no fixed size, no ids of another drawing."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    svg = text[text.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg)
    svg = svg.replace("xlink:href", "href")
    # The page sizes it, and its style sheet would reach the rest of the page.
    svg = re.sub(r'(<svg\b[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg\b[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, count=1, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r'href="#', f'href="#{prefix}-', svg)
    svg = re.sub(r"url\(#", f"url(#{prefix}-", svg)
    return svg.replace(INK, "currentColor").strip()
