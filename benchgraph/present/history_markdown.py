"""Runs, series and what got slower as Markdown, for pull requests and job summaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchgraph.analysis.history.changes import Change
from benchgraph.analysis.history.run_order import date, name, short
from benchgraph.analysis.history.series import History, Key
from benchgraph.core.formats import counted, milliseconds
from benchgraph.present.history import notes
from benchgraph.present.markup import code, table

Changes = Mapping[Key, Sequence[Change]]


def runs(h: History) -> str:
    rows = [(str(r.id), date(r), code(short(r)), ", ".join(code(h.machines[m]) for m in r.machines)) for r in h.shown]
    return table(("run", "date", "commit", "machine"), rows, left=4) + "\n"


def history(h: History, changes: Changes) -> str:
    """A table for each series: its runs, and where it changed."""
    parts = []
    for key in sorted(h.series):
        series, after = h.series[key], {c.after: c for c in changes.get(key, ())}
        rows = [
            (str(h.runs[i].id), date(h.runs[i]), code(short(h.runs[i])), milliseconds(t), _percent(after[i].ratio) if i in after else "")
            for i, t in zip(series.runs, series.times, strict=True)
            if i >= h.start - 1
        ]
        if rows:
            title = f"#### {code(key.case)} {code(key.policy)}\n\n{code(h.machines[key.machine])}"
            parts.append(f"{title}\n\n{table(('run', 'date', 'commit', 'ms', 'change'), rows, left=3)}")
    return "\n\n".join(parts) + "\n"


def regressions(h: History, changes: Changes, threshold: float) -> str:
    """What got slower for good, the worst first, and between which commits; mended ones last."""
    slower = [(c, key) for key, of_one in changes.items() for c in of_one if c.ratio > 1]
    slower.sort(key=lambda row: (row[0].mended is not None, -row[0].ratio, row[1]))
    left = sum(c.mended is None for c, _ in slower)
    counts = f"{counted(left, 'case')} slower for good by more than {100 * threshold:.3g}%"
    head = f"**benchgraph regressions**: {counts}, of {len(h.series)} series in {counted(len(h.runs), 'run')}"
    rows = [
        (
            code(key.case),
            code(key.policy),
            code(f"{name(h.runs[c.before])}..{name(h.runs[c.after])}"),
            "" if c.mended is None else code(name(h.runs[c.mended])),
            _percent(c.ratio),
            f"{_percent(c.low)} to {_percent(c.high)}",
        )
        for c, key in slower
    ]
    heads = ("case", "policy", "last good..first bad", "mended in", "slower by", "95 % interval")
    return "\n\n".join([head, *([table(heads, rows, left=4)] if rows else []), *notes(h)]) + "\n"


def _percent(ratio: float) -> str:
    return f"{ratio - 1:+.1%}"
