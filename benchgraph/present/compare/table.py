"""A comparison for terminals: a table of times, then lists, the most important last, then one line."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from benchgraph.analysis.compare.differences import Comparison, Row, corrected, interval
from benchgraph.analysis.inference.verdicts import Verdict
from benchgraph.core.formats import milliseconds
from benchgraph.present.terminal import columns, fitting, grid, printed, text_console

STYLES = {Verdict.regressed: "bold red", Verdict.improved: "green", Verdict.same: "", Verdict.unknown: "yellow"}

INTERVAL = "95 % interval"
LABEL = 24  # width of the names of cases; a third of a narrow terminal
# Columns left out on a narrow terminal: first the times, which the ratio summarises, then the interval
SPARE = ("A ms", "B ms", INTERVAL)


def render(c: Comparison, width: int = 0) -> str:
    """As wide as the terminal, or as `width`; long case names are folded. Plain ASCII unless the output is a terminal."""
    out = text_console(width or columns())
    out.print(c.title)
    for note in c.notes:
        out.print(f"note: {note}")
    if c.rows:
        out.print()
        kept = _kept(c, out.width)
        for name, part in c.by_kind:
            if name:
                out.print(f"on {name}:")
            out.print(_table(c, part, box.SIMPLE_HEAD if out.is_terminal else box.ASCII2, out.width, kept))
        out.print(c.legend)
        if heads(c).index(INTERVAL) + 1 not in kept:
            out.print(f"no room for the {INTERVAL}: in a wider terminal, and in --report=markdown:FILE")
    for title, lines in c.sections.items():
        out.print()
        out.print(f"{title}:", style=STYLES[Verdict.regressed] if title in ("Newly failing", "Regressed") else "bold")
        for line in lines:
            out.print(f"  {line}")
    out.print()
    out.print(c.summary)
    return printed(out)


def _kept(c: Comparison, width: int) -> list[int]:
    """The columns that fit, by number; 0 is the case's."""
    names, least = heads(c), _least(width)
    rows = [("case / policy".ljust(least), *names), *(("", *cells(c, row)) for row in c.rows)]
    return fitting(rows, width, [names.index(name) + 1 for name in SPARE], least)


def _least(width: int) -> int:
    return min(LABEL, width // 3)


def _table(c: Comparison, part: Comparison, style: box.Box, width: int, kept: Sequence[int]) -> Table:
    """A line per case, and under it one per policy; the geometric means last. part: the rows of c that the table has."""
    names = heads(c)
    t = grid(style)
    t.add_column("case / policy", overflow="fold", min_width=_least(width))
    for i in kept[1:]:
        t.add_column(names[i - 1], justify="left" if names[i - 1] == "verdict" else "right", no_wrap=True)
    last = None
    for row in part.rows:
        texts = cells(c, row)
        if row.key != last:
            t.add_row(str(row.key))
        last = row.key
        t.add_row(f"  {row.policy}", *(texts[i - 1] for i in kept[1:]), style=STYLES[row.judged.verdict])
    t.add_section()
    for policy, mean in part.means.items():
        texts_of_mean = ("", "", f"{part.raw_means[policy]:.3f}", f"{mean:.3f}") if c.is_corrected else ("", "", f"{mean:.3f}")
        t.add_row(f"geometric mean, {policy}", *(texts_of_mean[i - 1] for i in kept[1:] if i <= len(texts_of_mean)))
    return t


def heads(c: Comparison) -> tuple[str, ...]:
    """The column heads of `cells`; with the corrected ratio if there was drift."""
    return "A ms", "B ms", "B / A", *(("corrected",) if c.is_corrected else ()), INTERVAL, "verdict"


def cells(c: Comparison, row: Row) -> tuple[str, ...]:
    times = milliseconds(row.a_s), milliseconds(row.b_s), f"{row.raw:.3f}"
    return *times, *((corrected(row.judged),) if c.is_corrected else ()), interval(row.judged), row.judged.verdict.value
