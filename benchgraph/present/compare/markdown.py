"""A comparison for pull requests: changes are shown, the rest is collapsed."""

from __future__ import annotations

from collections.abc import Sequence

from benchgraph.analysis.compare.differences import Comparison, Row
from benchgraph.analysis.inference.verdicts import Verdict
from benchgraph.present.compare.table import cells, heads
from benchgraph.present.markup import bullets, code, folded, machine, section, table
from benchgraph.results.machine import as_one, kinds


def render(c: Comparison) -> str:
    parts = [f"**benchgraph compare**: {c.summary}", code(c.title)]
    parts += [bullets([code(note) for note in c.notes])] if c.notes else []
    for verdict in (Verdict.regressed, Verdict.improved):
        parts += [section(_title(verdict, name), _table(c, rows), len(rows)) for name, part in c.by_kind if (rows := part.of(verdict))]
    lists = [(title, lines) for title, lines in reversed(c.sections.items()) if title != "Regressed"]  # which has a table
    parts += [section(title, bullets([code(x) for x in lines]), len(lines)) for title, lines in lists]
    for verdict in (Verdict.unknown, Verdict.same):
        parts += [
            folded(f"{_title(verdict, name)} ({len(rows)})", _table(c, rows)) for name, part in c.by_kind if (rows := part.of(verdict))
        ]
    for name, part in c.by_kind:
        if part.means:
            parts.append(f"Geometric mean of B / A{_on(name)}: " + ", ".join(_mean(part, policy) for policy in part.means))
    if c.rows:
        parts.append(c.legend)
    groups = kinds(c.b.machines)
    parts += [machine(as_one(group), is_one_of_several=len(groups) > 1) for group in groups]
    return "\n\n".join(parts) + "\n"


def _title(verdict: Verdict, name: str) -> str:
    return f"{verdict.value.capitalize()}{_on(name)}"


def _on(name: str) -> str:
    """name: of a kind of machine, '' for the only one."""
    return f" on {code(name)}" if name else ""


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
