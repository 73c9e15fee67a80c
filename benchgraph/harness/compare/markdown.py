"""A comparison for pull requests: what changed is shown, what did not is folded away."""

from __future__ import annotations

from collections.abc import Sequence

from benchgraph.harness.compare.differences import Comparison, Row
from benchgraph.harness.compare.statistics import Verdict
from benchgraph.harness.compare.table import cells
from benchgraph.harness.markup import bullets, code, folded, machine, section, table

HEADER = ("case", "policy", "verdict", "A ms", "B ms", "B / A", "95 % interval")


def render(c: Comparison) -> str:
    """GitHub's Markdown."""
    parts = [f"**benchgraph compare**: {c.summary}", code(c.title)]
    parts += [bullets([code(note) for note in c.notes])] if c.notes else []
    for verdict in (Verdict.regressed, Verdict.improved):
        if rows := c.of(verdict):
            parts.append(section(verdict.value.capitalize(), _table(rows), len(rows)))
    parts += [section(title, bullets([code(x) for x in lines]), len(lines)) for title, lines in _lists(c)]
    for verdict in (Verdict.unknown, Verdict.same):
        if rows := c.of(verdict):
            parts.append(folded(f"{verdict.value.capitalize()} ({len(rows)})", _table(rows)))
    if c.means:
        parts.append("Geometric mean of B / A: " + ", ".join(f"{policy} **{mean:.3f}**" for policy, mean in c.means.items()))
    if c.rows:
        parts.append(c.legend)
    if (m := c.b.machine) is not None:
        parts.append(machine(m))
    return "\n\n".join(parts) + "\n"


def _lists(c: Comparison) -> list[tuple[str, tuple[str, ...]]]:
    """The gravest first; those with a table of their own left out."""
    return [(title, lines) for title, lines in reversed(c.sections.items()) if title != "Regressed"]


def _table(rows: Sequence[Row]) -> str:
    found = []
    for row in rows:
        *numbers, verdict = cells(row)
        found.append((code(str(row.key)), code(row.policy), verdict, *numbers))
    return table(HEADER, found, left=3)
