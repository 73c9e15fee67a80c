"""A comparison for pull requests: changes are shown, the rest is collapsed."""

from __future__ import annotations

from collections.abc import Sequence

from benchgraph.analysis.compare.differences import Comparison, Row
from benchgraph.analysis.inference.verdicts import Verdict
from benchgraph.present.compare.table import cells, heads
from benchgraph.present.markup import bullets, code, folded, machine, section, table


def render(c: Comparison) -> str:
    parts = [f"**benchgraph compare**: {c.summary}", code(c.title)]
    parts += [bullets([code(note) for note in c.notes])] if c.notes else []
    for verdict in (Verdict.regressed, Verdict.improved):
        if rows := c.of(verdict):
            parts.append(section(verdict.value.capitalize(), _table(c, rows), len(rows)))
    lists = [(title, lines) for title, lines in reversed(c.sections.items()) if title != "Regressed"]  # which has a table
    parts += [section(title, bullets([code(x) for x in lines]), len(lines)) for title, lines in lists]
    for verdict in (Verdict.unknown, Verdict.same):
        if rows := c.of(verdict):
            parts.append(folded(f"{verdict.value.capitalize()} ({len(rows)})", _table(c, rows)))
    if c.means:
        parts.append("Geometric mean of B / A: " + ", ".join(_mean(c, policy) for policy in c.means))
    if c.rows:
        parts.append(c.legend)
    if (m := c.b.machine) is not None:
        parts.append(machine(m))
    return "\n\n".join(parts) + "\n"


def _mean(c: Comparison, policy: str) -> str:
    raw = f" ({c.raw_means[policy]:.3f} as measured, before the correction for drift)" if c.is_corrected else ""
    return f"{policy} **{c.means[policy]:.3f}**{raw}"


def _table(c: Comparison, rows: Sequence[Row]) -> str:
    *names, verdict = heads(c)
    table_rows = []
    for row in rows:
        *numbers, verdict_text = cells(c, row)
        table_rows.append((code(str(row.key)), code(row.policy), verdict_text, *numbers))
    return table(("case", "policy", verdict, *names), table_rows, left=3)
