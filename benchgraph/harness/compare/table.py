"""A comparison for terminals: a table of times, then lists, the gravest last, then one line."""

from __future__ import annotations

from rich import box
from rich.table import Table

from benchgraph.harness.compare.differences import Comparison, Row, interval
from benchgraph.harness.compare.statistics import Verdict
from benchgraph.harness.terminal import columns, grid, paper, printed

STYLES = {Verdict.regressed: "bold red", Verdict.improved: "green", Verdict.same: "", Verdict.unknown: "yellow"}


def render(c: Comparison, width: int = 0) -> str:
    """As wide as the terminal, or as `width` says; long case names are folded. Plain ASCII unless the output is a terminal."""
    out = paper(width or columns())
    out.print(c.title)
    for note in c.notes:
        out.print(f"note: {note}")
    if c.rows:
        out.print()
        out.print(_table(c, box.SIMPLE_HEAD if out.is_terminal else box.ASCII2))
        out.print(c.legend)
    for title, lines in c.sections.items():
        out.print()
        out.print(f"{title}:", style=STYLES[Verdict.regressed] if title in ("Newly failing", "Regressed") else "bold")
        for line in lines:
            out.print(f"  {line}")
    out.print()
    out.print(c.summary)
    return printed(out)


def _table(c: Comparison, style: box.Box) -> Table:
    """A line per case, and under it one per policy; the geometric means last."""
    t = grid(style)
    t.add_column("case / policy", overflow="fold", min_width=24)
    for name in ("A ms", "B ms", "B / A", "95 % interval"):
        t.add_column(name, justify="right", no_wrap=True)
    t.add_column("verdict", no_wrap=True)
    last = None
    for row in c.rows:
        if row.key != last:
            t.add_row(str(row.key))
        last = row.key
        t.add_row(f"  {row.policy}", *cells(row), style=STYLES[row.judged.verdict])
    t.add_section()
    for policy, mean in c.means.items():
        t.add_row(f"geometric mean, {policy}", "", "", f"{mean:.3f}")
    return t


def cells(row: Row) -> tuple[str, ...]:
    """A ms, B ms, their ratio, its interval, the verdict."""
    return f"{row.a_s * 1e3:.4f}", f"{row.b_s * 1e3:.4f}", f"{row.judged.ratio:.3f}", interval(row.judged), row.judged.verdict.value
