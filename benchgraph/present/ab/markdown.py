"""Two versions compared, for pull requests: changes are shown, the rest is collapsed."""

from __future__ import annotations

from collections.abc import Sequence

from benchgraph.analysis.ab.comparison import Comparison, Row
from benchgraph.analysis.ab.findings import Kind, limits
from benchgraph.present.ab.table import HEADS, INTERVAL, cells, listed
from benchgraph.present.markup import bullets, code, folded, machine, section, table


def render(c: Comparison) -> str:
    parts = [f"**benchgraph ab**: {c.summary}", code(f"{c.old}, {c.new}")]
    parts += [section(kind.value.capitalize(), bullets([code(x) for x in lines]), len(lines)) for kind, lines in reversed(listed(c))]
    for kind in (Kind.slower, Kind.faster):
        if rows := _of(c, kind):
            parts.append(section(kind.value.capitalize(), _table(rows), len(rows)))
    if c.means:
        means = [(code(f"{m.group}, {m.policy}"), str(m.cases), f"{m.ratio:.3f}", limits(m.low, m.high)) for m in c.means]
        parts.append(table(("geometric mean", "cases", "new / old", INTERVAL), means))
    for kind in (Kind.cannot_tell, Kind.same):
        if rows := _of(c, kind):
            parts.append(folded(f"{kind.value.capitalize()} ({len(rows)})", _table(rows)))
    parts += c.notes
    if c.machine is not None:
        parts.append(machine(c.machine))
    return "\n\n".join(parts) + "\n"


def _of(c: Comparison, kind: Kind) -> list[Row]:
    return [r for r in c.timed if r.kind is kind]


def _table(rows: Sequence[Row]) -> str:
    *heads, verdict = HEADS
    texts = []
    for row in rows:
        *numbers, verdict_text = cells(row)
        texts.append((code(row.case), code(row.policy), verdict_text, *numbers))
    return table(("case", "policy", verdict, *heads), texts, left=3)
