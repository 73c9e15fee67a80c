"""The plots, drawn by matplotlib as SVG with the page's colours and font, also in dark mode and print.

Every plot is drawn twice, for wide and for narrow pages, since a scaled picture is unreadable on a phone. Marks link to their cases. The
text is reproducible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any, TypeAlias
from warnings import catch_warnings, filterwarnings

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from benchgraph.core.formats import counted, unit
from benchgraph.present.page.labels import apart, labels
from benchgraph.present.page.partition_bar import segments
from benchgraph.present.page.svg_theme import themed
from benchgraph.present.page.view import Case, Run
from benchgraph.results.result import PolicyTiming

WIDE, NARROW = 520.0, 340.0  # points, the units of the SVG, for screens of 1400 and 390 pixels
POINT = 72.0  # per inch
LABEL_WIDE, LABEL_NARROW = 34, 20  # letters of a case's name
LABELLED = 40  # bars with names; for more a sorted curve is drawn
AIR = 4.0  # extends the axis beyond the ridge point by this factor, so that the peak's line is visible
SERIES = 6  # colours in the page's style sheet; further series reuse them
PARTITIONS = 8  # colours of present/show/picture.py, likewise
MARKERS = "osD^vP"
# Placeholder colours for variables of the style sheet
INK, MUTED, GRID = "#00aa10", "#00aa11", "#00aa12"
GROUND, TEXT_ON_COLOUR = "#00aa13", "#00aa14"
PARTITION_COLOUR = "#00aa2"  # and its number
STYLE: Any = {
    **mpl.rcParamsDefault,
    "svg.fonttype": "none",
    "text.parse_math": False,  # names may contain $
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "grid.color": GRID,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "legend.handletextpad": 0.3,
}

Paint: TypeAlias = Callable[[Axes, bool], None]  # True for a wide page


@dataclass(frozen=True)
class Chart:
    """description: for screen readers. note: the text under the plot. wide, narrow: SVG."""

    name: str
    title: str
    description: str
    note: str
    wide: str
    narrow: str


def charts(run: Run) -> Iterator[Chart]:
    timed = [c for c in run.cases if c.result.timings]
    if any(_points(c, run.series) for c in timed):
        yield _roofline(run, timed)
    if len(run.series) > 1:
        yield _ratios(run, timed)
    several = [c for c in timed if any(len(t.partitions) > 1 for t in c.result.timings)]
    if several:
        yield _partitions(run, several)


# ---- roofline --------------------------------------------------------------------------------------------------------


def _points(c: Case, series: Sequence[str]) -> list[tuple[int, float, float]]:
    """Series, FLOP/B, FLOP/s of a case's policies."""
    works = [(series.index(t.policy), c.result.roofline(t)) for t in c.result.timings]
    return [(s, w.intensity, w.flops_per_s) for s, w in works if w.intensity is not None and w.flops_per_s is not None]


def _roofs(run: Run, timed: Sequence[Case]) -> tuple[dict[str, float], list[tuple[str, float]]]:
    """The best peak of each arithmetic in operations/s, and bandwidths in bytes/s: of memory, and of the fastest cache used."""
    machine = run.results.machine
    peaks = dict(machine.peak_flops) if machine else {}
    for r in (c.result for c in timed if c.result.peak):
        peaks[r.arithmetic] = max(peaks.get(r.arithmetic, 0.0), r.peak)
    memory = machine.memory_bandwidth if machine else 0.0
    fastest = max((s for c in timed for samples in c.result.bandwidth_samples.values() for s in samples), default=0.0)
    named = [("memory", memory)] if memory else []
    return peaks, [*named, *([("cache", fastest)] if fastest > 1.1 * memory else [])]


def _roofline(run: Run, timed: Sequence[Case]) -> Chart:
    peaks, bandwidths = _roofs(run, timed)
    peak = max(peaks.values(), default=0.0)
    points = [(c, *p) for c in timed for p in _points(c, run.series)]
    names = _names(run)

    def paint(axes: Axes, wide: bool) -> None:
        axes.set_xscale("log")
        axes.set_yscale("log")
        for s in range(len(run.series)):
            mine = [(c, x, y) for c, series, x, y in points if series == s]
            dots = axes.scatter(
                [x for _, x, _ in mine], [y / 1e9 for _, _, y in mine], s=34, marker=_marker(s), linewidths=0.6,
                color=_colour(s), alpha=0.85, label=names[s], zorder=3,
            )  # fmt: skip
            dots.set_urls([_link(c, s) for c, _, _ in mine])
        low, high = axes.get_xlim()
        low, high = low / 2, max([high * 2, *(AIR * peak / b for _, b in bandwidths[-1:])])
        for name, bandwidth in bandwidths:
            end = min(high, peak / bandwidth) if peak else high
            if end > low:
                axes.plot([low, end], [low * bandwidth / 1e9, end * bandwidth / 1e9], color=MUTED, linewidth=1.2)
                axes.annotate(
                    f"{name} {rate(bandwidth)} GB/s", (low, low * bandwidth / 1e9), (4, 3), textcoords="offset points",
                    rotation=45, rotation_mode="anchor", transform_rotates_text=True, va="bottom", color=MUTED, fontsize=8.5, zorder=5,
                )  # fmt: skip
        for roof in peaks.values():
            start = min([roof / b for _, b in bandwidths[-1:]] or [low])
            axes.plot([max(low, start), high], [roof / 1e9] * 2, color=MUTED, linewidth=1.2)
        bottom, top = axes.get_ylim()
        for description, roof in ceilings(peaks, (top / bottom) ** (12 / 250)):
            axes.annotate(
                description, (high, roof / 1e9), (0, 3), textcoords="offset points", ha="right", va="bottom",
                color=MUTED, fontsize=8.5, zorder=5, bbox={"facecolor": GROUND, "edgecolor": "none", "pad": 0.5},
            )  # fmt: skip
        axes.set_xlim(low, high)
        axes.set_xlabel("arithmetic intensity, FLOP/B")
        axes.set_ylabel("GFLOP/s")
        axes.grid(visible=True, which="major")
        for axis in (axes.xaxis, axes.yaxis):
            _plain(axis, LogLocator(numticks=8))
        _legend(axes, wide)

    description = f"Roofline: rate over arithmetic intensity of {counted(len(timed), 'case')}, both on logarithmic axes."
    return _chart("roofline", "Roofline", description, "Whole graphs, at their median time.", paint, 320.0)


def ceilings(peaks: Mapping[str, float], factor: float) -> list[tuple[str, float]]:
    """Labels for the lines of peaks, and the peak at which each is written: one label for peaks within `factor`."""
    groups = list[list[tuple[float, str]]]()
    for name, roof in sorted(peaks.items(), key=lambda item: item[1]):
        if groups and roof < factor * groups[-1][-1][0]:
            groups[-1].append((roof, name))
        else:
            groups.append([(roof, name)])
    return [(", ".join(f"{name} peak {rate(roof)} {unit(name)}" for roof, name in group), group[-1][0]) for group in groups]


def rate(value: float) -> str:
    """Billions per second, with three digits, or all before the point if there are more."""
    return f"{value / 1e9:.3g}" if value < 999.5e9 else f"{value / 1e9:.0f}"


def _plain(axis: Axis, ticks: LogLocator) -> None:
    """Powers of ten as 0.1, 1, 10."""
    axis.set_major_locator(ticks)
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axis.set_minor_formatter(NullFormatter())


# ---- ratios ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Ratio:
    case: Case
    series: int
    value: float
    low: float
    high: float


def _ratio_bars(run: Run, timed: Sequence[Case]) -> list[_Ratio]:
    """Of every case and every series but the first, from the table's rows."""
    start = next(i for i, g in enumerate(run.groups) if g.heads == run.series[1:])
    before = sum(len(g.heads) for g in run.groups[:start])
    ratios = []
    for c in timed:
        for s, cell in enumerate(c.cells[before : before + len(run.series) - 1], 1):
            if cell.value is not None:
                low, high = (cell.value, cell.value) if cell.low is None or cell.high is None else (cell.low, cell.high)
                ratios.append(_Ratio(c, s, cell.value, low, high))
    return ratios


def _ratios(run: Run, timed: Sequence[Case]) -> Chart:
    ratios = _ratio_bars(run, timed)
    first, names = run.series[0], _names(run)
    few = len(ratios) <= LABELLED
    note = f"Above 1, {first} is faster. Lines are 95 % intervals within this run; very wide ones are cut off at the edge."
    description = f"Times over those of {first}, with intervals, of {counted(len({r.case.key for r in ratios}), 'case')}."
    height = 70.0 + 15.0 * (len(ratios) + 0.6 * len({r.case.key for r in ratios})) if few else 320.0

    def bars(axes: Axes, wide: bool) -> None:
        y, ticks, rows = 0.0, list[tuple[float, str]](), list[tuple[float, _Ratio]]()
        label_of = labels(timed, LABEL_WIDE if wide else LABEL_NARROW)
        for key in dict.fromkeys(r.case.key for r in ratios):
            mine = [r for r in ratios if r.case.key == key]
            ticks.append((y + (len(mine) - 1) / 2, label_of[key]))
            rows += [(y + i, r) for i, r in enumerate(mine)]
            y += len(mine) + 0.6
        for at, r in rows:
            bar = Rectangle((min(r.value, 1.0), at - 0.4), abs(r.value - 1.0), 0.8, color=_colour(r.series), alpha=0.85, linewidth=0)
            bar.set_url(_link(r.case, r.series))
            axes.add_patch(bar)
        axes.add_collection(LineCollection([[(r.low, at), (r.high, at)] for at, r in rows], colors=INK, linewidths=1.3, zorder=4))
        for s in range(1, len(run.series)):
            axes.scatter([], [], marker="s", color=_colour(s), label=names[s])
        axes.axvline(1.0, color=MUTED, linewidth=1.2)
        axes.set_ylim(y - 0.6, -0.8)
        axes.set_yticks([at for at, _ in ticks], [name for _, name in ticks])
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(*_linear_limits(ratios))
        axes.set_xlabel(f"time / {names[0]}")
        axes.grid(visible=True, axis="x")
        _legend(axes, wide)

    def curve(axes: Axes, wide: bool) -> None:
        axes.set_yscale("log")
        for s in range(1, len(run.series)):
            mine = sorted((r for r in ratios if r.series == s), key=lambda r: r.value)
            lines = LineCollection([[(i, r.low), (i, r.high)] for i, r in enumerate(mine)], colors=_colour(s), alpha=0.4, linewidths=1.0)
            axes.add_collection(lines)
            dots = axes.scatter(
                range(len(mine)), [r.value for r in mine], s=14, marker=_marker(s), color=_colour(s), linewidths=0, label=names[s], zorder=3
            )
            dots.set_urls([_link(r.case, s) for r in mine])
        axes.axhline(1.0, color=MUTED, linewidth=1.2)
        axes.set_xlabel("cases, each series by itself, from the smallest ratio to the largest")
        axes.set_ylabel(f"time / {names[0]}")
        axes.set_ylim(*_log_limits(ratios))
        axes.grid(visible=True, axis="y")
        _plain(axes.yaxis, LogLocator(subs=(1, 2, 5)))
        _legend(axes, wide)

    return _chart("ratios", "Ratios", description, note, bars if few else curve, height)


def _linear_limits(ratios: Sequence[_Ratio]) -> tuple[float, float]:
    """The limits of a linear axis, with margins beside the bars."""
    left, right = _limits(ratios, lambda low, high: (low - max(high - low, 0.2), high + max(high - low, 0.2)))
    air = 0.05 * max(right - left, 0.2)
    return max(left - air, 0.0), right + air


def _log_limits(ratios: Sequence[_Ratio]) -> tuple[float, float]:
    """The limits of a logarithmic axis."""
    left, right = _limits(ratios, lambda low, high: (low / max(high / low, 1.2), high * max(high / low, 1.2)))
    return left / 1.05, right * 1.05


def _limits(ratios: Sequence[_Ratio], reach: Callable[[float, float], tuple[float, float]]) -> tuple[float, float]:
    """The range of all bars and of 1, extended to their intervals only as far as `reach` says, so that wide ones do not hide the rest."""
    left, right = min([1.0, *(r.value for r in ratios)]), max([1.0, *(r.value for r in ratios)])
    least, most = reach(left, right)
    return max(min([left, *(r.low for r in ratios)]), least), min(max([right, *(r.high for r in ratios)]), most)


# ---- partitions ------------------------------------------------------------------------------------------------------


def _partitions(run: Run, several: Sequence[Case]) -> Chart:
    rows, shown, series = list[tuple[Case, PolicyTiming]](), 0, _names(run)
    for c in several:
        if len(rows) + len(c.result.timings) > LABELLED:
            break
        rows += [(c, t) for t in c.result.timings]
        shown += 1
    left = len(several) - shown
    note = (
        "Numbers and colours are the partitions', in order of execution, as in the pictures of the graphs; (n): n small ones together."
        + (f" {counted(left, 'more case')} in the table." if left else "")
    )
    description = f"Median time of each partition, summed by policy, of {counted(shown, 'case')}, over the time of {run.series[0]}."

    def paint(axes: Axes, wide: bool) -> None:
        names, y, last = list[tuple[float, str]](), 0.0, ""
        label_of = labels(several, LABEL_WIDE if wide else LABEL_NARROW)
        longest = max(sum(p.timing.median_s for p in t.partitions) / c.result.timings[0].timing.median_s for c, t in rows)
        for c, t in rows:
            y += 0.7 if last and c.key != last else 0.0
            if c.key != last:
                names.append((y, label_of[c.key]))
                y += 1
            first, x = c.result.timings[0].timing.median_s, 0.0
            for segment in segments(t):
                width, name = segment.seconds / first, segment.name(at_most=segment.seconds / first / longest * (70 if wide else 40))
                bar = Rectangle(
                    (x, y - 0.42),
                    width,
                    0.84,
                    facecolor=GRID if segment.id is None else f"{PARTITION_COLOUR}{segment.id % PARTITIONS}",
                    edgecolor=GROUND,
                    linewidth=0.8,
                )
                bar.set_url(_link(c, run.series.index(t.policy)))
                axes.add_patch(bar)
                if name:
                    ink = INK if segment.id is None else TEXT_ON_COLOUR
                    axes.text(x + width / 2, y, name, ha="center", va="center", fontsize=8, color=ink)
                x += width
            axes.annotate(
                series[run.series.index(t.policy)], (x, y), (4, 0), textcoords="offset points", va="center", fontsize=8.5, color=MUTED
            )
            y, last = y + 1, c.key
        axes.set_ylim(y - 0.3, -0.8)
        axes.set_xlim(0, longest * (1.18 if wide else 1.35))
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        for at, name in names:
            axes.annotate(name, (0, at), (0, -1), textcoords="offset points", va="center", ha="left", color=INK)
        axes.set_xlabel(f"sum of the partitions' median times / {series[0]}")
        axes.grid(visible=True, axis="x")

    cases = len({c.key for c, _ in rows})
    return _chart("partitions", "Time per partition", description, note, paint, 50.0 + 15.0 * (len(rows) + 1.7 * cases))


# ---- drawing ---------------------------------------------------------------------------------------------------------


def _chart(name: str, title: str, description: str, note: str, paint: Paint, height: float) -> Chart:
    wide, narrow = (_svg(paint, width, height, f"{name}{width:.0f}") for width in (WIDE, NARROW))
    return Chart(name, title, description, note, wide, narrow)


def _svg(paint: Paint, width: float, height: float, salt: str) -> str:
    """salt: makes ids unique on the page."""
    out = StringIO()
    with mpl.rc_context({**STYLE, "svg.hashsalt": salt}), catch_warnings():
        filterwarnings("ignore", "Glyph")  # letters missing in this font: the browser draws them with its own
        figure = Figure((width / POINT, height / POINT), layout="constrained")
        axes = figure.add_subplot()
        axes.set_axisbelow(True)
        paint(axes, width == WIDE)
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return themed(out.getvalue(), salt)


def _link(c: Case, series: int) -> str:
    return f"#{c.key}.s{series}"


def _colour(series: int) -> str:
    return f"#00aa0{series % SERIES}"


def _names(run: Run) -> list[str]:
    return apart(run.series, range(len(run.series)), 24)


def _marker(series: int) -> str:
    """Another shape where colours repeat."""
    return MARKERS[(series + series // SERIES) % len(MARKERS)]


def _legend(axes: Axes, wide: bool) -> None:
    handles, labels = axes.get_legend_handles_labels()
    room = (90 if wide else 55) // (max(map(len, labels), default=0) + 5)
    axes.get_figure(root=True).legend(handles, labels, loc="outside upper left", ncols=max(1, min(len(labels), room)), columnspacing=1.2)  # type: ignore[union-attr]
