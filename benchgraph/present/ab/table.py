"""Two versions compared, for terminals: times, means, then what else changed, the most important last, then one line."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from benchgraph.analysis.ab.comparison import Comparison, Mean, Row
from benchgraph.analysis.ab.findings import Kind, limits
from benchgraph.core.formats import with_unit
from benchgraph.present.terminal import columns, fitting, grid, printed, text_console

STYLES = {Kind.slower: "bold red", Kind.faster: "green", Kind.cannot_tell: "yellow"}
MOST = 20  # cases that cannot be told, in a table; with -v all
LABEL = 24  # width of the names of cases; a third of a narrow terminal
INTERVAL = "95 % interval"
HEADS = ("old", "new", "new / old", INTERVAL, "verdict")
SPARE = ("old", "new", INTERVAL)  # left out on a narrow terminal, in this order


def render(c: Comparison, width: int = 0, *, is_verbose: bool = False) -> str:
    """As wide as the terminal, or as `width`. Plain ASCII unless the output is a terminal. is_verbose: cases without changes too."""
    out = text_console(width or columns())
    out.print(f"{c.old}, {c.new}")
    style = box.SIMPLE_HEAD if out.is_terminal else box.ASCII2
    rows = shown(c, is_verbose=is_verbose)
    if rows:
        least = min(LABEL, out.width // 3)
        texts = [("case / policy".ljust(least), *HEADS), *(("", *cells(r)) for r in rows)]
        kept = fitting(texts, out.width, [HEADS.index(name) + 1 for name in SPARE], least)
        out.print()
        out.print(_times(rows, style, least, kept))
        if hidden := [head for i, head in enumerate(HEADS, 1) if i not in kept]:
            out.print(f"no room for {', '.join(hidden)}: in a wider terminal, and in --report=markdown:FILE")
    if c.timed:
        out.print()
        out.print(_means(c.means, style))
        for note in c.notes:
            out.print(note)
    for kind, lines in listed(c):
        out.print()
        out.print(f"{kind.value.capitalize()}:", style="bold red" if kind.is_worse else "bold")
        for line in lines:
            out.print(f"  {line}")
    out.print()
    out.print(c.summary)
    return printed(out)


def shown(c: Comparison, *, is_verbose: bool) -> list[Row]:
    """The rows of the table: what changed, and as many as fit of those that cannot be told. A row without a time is listed elsewhere."""
    if is_verbose:
        return list(c.timed)
    n_untold = 0
    found = []
    for row in c.timed:
        n_untold += row.kind is Kind.cannot_tell
        if row.kind.is_change or (row.kind is Kind.cannot_tell and n_untold <= MOST):
            found.append(row)
    return found


def listed(c: Comparison) -> list[tuple[Kind, tuple[str, ...]]]:
    """Findings that are not in the table of times, the most important last; what both skip is only counted."""
    timed = (Kind.slower, Kind.faster, Kind.same, Kind.cannot_tell)
    kinds = [kind for kind in reversed(Kind) if c.of(kind) and kind is not Kind.skipped_on_both]
    found = [(kind, tuple(str(f) for f in c.of(kind) if kind not in timed or f.judged is None)) for kind in kinds]
    return [(kind, lines) for kind, lines in found if lines]


def cells(row: Row) -> tuple[str, ...]:
    """The texts of HEADS."""
    return (
        with_unit(row.old_s),
        with_unit(row.new_s),
        f"{row.judged.ratio:.3f}",
        limits(row.judged.low, row.judged.high),
        row.kind.value,
    )


def _times(rows: Sequence[Row], style: box.Box, least: int, kept: Sequence[int]) -> Table:
    """A line per case, and under it one per policy."""
    t = grid(style)
    t.add_column("case / policy", overflow="fold", min_width=least)
    for i in kept[1:]:
        t.add_column(HEADS[i - 1], justify="left" if HEADS[i - 1] == "verdict" else "right", no_wrap=True)
    last = ""
    for row in rows:
        if row.case != last:
            t.add_row(row.case)
        last = row.case
        texts = cells(row)
        t.add_row(f"  {row.policy}", *(texts[i - 1] for i in kept[1:]), style=STYLES.get(row.kind, ""))
    return t


def _means(means: Sequence[Mean], style: box.Box) -> Table:
    t = grid(style)
    t.add_column("geometric mean", overflow="fold")
    for head in ("cases", "new / old", INTERVAL):
        t.add_column(head, justify="right", no_wrap=True)
    for m in means:
        t.add_row(f"{m.group}, {m.policy}", str(m.cases), f"{m.ratio:.3f}", limits(m.low, m.high))
    return t
