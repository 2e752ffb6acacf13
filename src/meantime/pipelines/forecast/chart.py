"""A forecast as a PNG, drawn by matplotlib: stacked bars, one colour a series, a line at the capacity, overloads shaded.

matplotlib is an extra (`meantime[plot]`) and is loaded only when a picture is asked for. It draws into memory, so no display
is needed. What it finds out about fonts is kept in the user's cache, so only the first picture waits for it.
"""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from meantime.errors import StackError
from meantime.pipelines.forecast.forecast import Forecast, Series
from meantime.stack.cache import cache_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = 1280, 640
DOTS_PER_INCH = 100
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8c564b", "#b8a800", "#5d5fb0", "#8a8a8a")
"""The last is for all series that have none of their own. None is red, the colour of capacity and overload."""
TOO_MUCH, PALE = "#c62828", "#666666"
HEADROOM = 1.12
NAME_LENGTH = 36
SLOTS_WITH_GAPS = 200
"""More bars than this are too thin for gaps between them."""
FAR = 4
"""A capacity so many times higher than the highest bar is written instead of drawn, else no bar could be seen."""


def need_matplotlib() -> None:
    """Raises StackError where it is missing. Called before any work is done for a picture."""
    if find_spec("matplotlib") is None:
        raise StackError("a picture needs matplotlib, which is not installed: `pip install 'meantime[plot]'`")


def bar_chart(forecast: Forecast, slot: str, size: tuple[int, int] = SIZE) -> bytes:
    """`slot` says how long a slot is, as in `15m`; `size` is width and height in pixels."""
    need_matplotlib()
    os.environ.setdefault("MPLCONFIGDIR", str(cache_folder() / "matplotlib"))
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    inches = size[0] / DOTS_PER_INCH, size[1] / DOTS_PER_INCH
    figure = Figure(figsize=inches, dpi=DOTS_PER_INCH, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1))
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _draw(figure, axes, forecast, slot)
    content = BytesIO()
    figure.savefig(content, format="png")
    return content.getvalue()


def _draw(figure: "Figure", axes: "Axes", forecast: Forecast, slot: str) -> None:
    edges = _edges(forecast)
    shown = grouped(forecast.series, len(COLOURS))
    heights = _stack(axes, shown, edges)
    bars = list(axes.patches)
    highest = max(heights)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(0, highest * HEADROOM or 1)
    handles = [*_capacity(axes, forecast, slot, highest), *_overloads(axes, forecast)]
    _label_axes(axes, forecast, slot)
    _title(axes, forecast, edges, sum(heights))
    if not highest:
        axes.text(0.5, 0.5, "nothing is due in this time", transform=axes.transAxes, ha="center", fontsize=14, color=PALE)
    names = [_short(one.name) for one in shown] + [str(handle.get_label()) for handle in handles]
    if names:
        columns = min(len(names), 5)
        figure.legend([*bars, *handles], names, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)


def grouped(series: Sequence[Series], most: int) -> list[Series]:
    """At most so many series: of more, the smallest together are one."""
    if len(series) <= most:
        return list(series)
    own = set(sorted(range(len(series)), key=lambda index: -sum(series[index].counts))[: most - 1])
    rest = [one.counts for index, one in enumerate(series) if index not in own]
    others = Series(f"{len(rest)} others", [sum(counts) for counts in zip(*rest, strict=True)])
    return [one for index, one in enumerate(series) if index in own] + [others]


def _edges(forecast: Forecast) -> list[float]:
    """Where slots begin, and where the last one ends, in days, which is how matplotlib counts time."""
    slots = max((len(one.counts) for one in forecast.series), default=0) or 1
    return [(forecast.from_ms + index * forecast.step_ms) / 86_400_000 for index in range(slots + 1)]


def _stack(axes: "Axes", series: Sequence[Series], edges: Sequence[float]) -> list[int]:
    """One outline a series, however many slots there are. Returns the height of each stack."""
    heights = [0] * (len(edges) - 1)
    for one, colour in zip(series, COLOURS, strict=False):
        lower, heights = heights, [height + count for height, count in zip(heights, one.counts, strict=True)]
        borders, upper, base = _with_gaps(edges, heights, lower)
        axes.stairs(
            upper, borders, baseline=base, fill=True, color=colour, linewidth=0, antialiased=len(heights) <= SLOTS_WITH_GAPS
        )
    return heights


def _with_gaps(
    edges: Sequence[float], upper: Sequence[int], lower: Sequence[int]
) -> tuple[list[float], list[float], list[float]]:
    if len(upper) > SLOTS_WITH_GAPS:
        return list(edges), list(map(float, upper)), list(map(float, lower))
    gap = (edges[1] - edges[0]) * 0.06
    borders = [border for begin, end in pairwise(edges) for border in (begin + gap, end - gap)]
    nothing = float("nan")
    tops = [value for height in upper for value in (float(height), nothing)]
    bases = [value for height in lower for value in (float(height), nothing)]
    return borders, tops[:-1], bases[:-1]


def _capacity(axes: "Axes", forecast: Forecast, slot: str, highest: int) -> "list[Any]":
    """What all consumers together can do in a slot."""
    known = [one.capacity for one in forecast.series if one.capacity]
    if not known:
        return []
    limit = sum(known) * forecast.step_ms / 1000
    all_known = len(known) == len(forecast.series)
    of_whom = "" if len(forecast.series) == 1 else " of all series" if all_known else f" of {len(known)} series"
    label = f"capacity{of_whom}: {f'{limit:.3g}' if limit < 100 else f'{limit:,.0f}'} per {slot}"
    if limit > FAR * highest:
        axes.text(0.995, 0.98, f"{label}, far above", transform=axes.transAxes, ha="right", va="top", color=TOO_MUCH)
        return []
    axes.set_ylim(0, max(highest, limit) * HEADROOM)
    right = axes.get_yaxis_transform()
    paper = {"facecolor": "white", "alpha": 0.85, "linewidth": 0, "pad": 2}
    axes.text(0.995, limit * 1.01, label, transform=right, ha="right", va="bottom", color=TOO_MUCH, bbox=paper)
    return [axes.axhline(limit, color=TOO_MUCH, linewidth=1.6, linestyle="--", label="capacity")]


def _overloads(axes: "Axes", forecast: Forecast) -> "list[Any]":
    """Slots in which something is left over, side by side ones as one area."""
    begins = sorted({one.from_ms for one in forecast.warnings})
    areas: list[list[int]] = []
    for begin in begins:
        if areas and areas[-1][1] == begin:
            areas[-1][1] = begin + forecast.step_ms
        else:
            areas.append([begin, begin + forecast.step_ms])
    drawn = [
        axes.axvspan(begin / 86_400_000, end / 86_400_000, color=TOO_MUCH, alpha=0.14, linewidth=0, zorder=0)
        for begin, end in areas
    ]
    for begin, end in areas:
        axes.axvspan(begin / 86_400_000, end / 86_400_000, ymin=0.985, color=TOO_MUCH, linewidth=0)
    for one in drawn[:1]:
        one.set_label(f"overload: consumers of a series are behind ({len(begins):,} slots)")
    return drawn[:1]


def _label_axes(axes: "Axes", forecast: Forecast, slot: str) -> None:
    from dateutil.tz import tzlocal  # type: ignore[import-untyped]
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    zone = tzlocal()
    locator = AutoDateLocator(tz=zone, minticks=4, maxticks=12)  # type: ignore[no-untyped-call]
    dates = ConciseDateFormatter(locator, tz=zone)  # type: ignore[no-untyped-call]
    dates.formats[2], dates.zero_formats[2], dates.zero_formats[3] = "%a %d", "%a %d %b", "%a %d %b"
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_ylabel(f"due per {slot}")
    axes.set_xlabel(f"local time ({_instant(forecast.from_ms):%Z})")
    axes.grid(axis="y", color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _title(axes: "Axes", forecast: Forecast, edges: Sequence[float], due: int) -> None:
    until = _instant(forecast.from_ms + (len(edges) - 1) * forecast.step_ms)
    begin = _instant(forecast.from_ms)
    axes.set_title(f"Forecast: {due:,} due", loc="left", fontsize=14, fontweight="bold", pad=10)
    axes.set_title(f"{begin:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M}", loc="right", fontsize=11, color=PALE, pad=10)


def _instant(unix_ms: int) -> datetime:
    return datetime.fromtimestamp(unix_ms / 1000, UTC).astimezone()


def _short(name: str) -> str:
    """matplotlib leaves names out of the legend that begin with an underscore."""
    shown = f" {name}" if name.startswith("_") else name
    return shown if len(shown) <= NAME_LENGTH else f"{shown[: NAME_LENGTH - 1]}…"
