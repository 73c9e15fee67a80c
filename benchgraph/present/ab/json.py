"""Two versions compared, as JSON: docs/ab.md describes every field. Fields are added, never renamed; `version` counts what is added."""

from __future__ import annotations

import json
from dataclasses import asdict
from math import isfinite

from benchgraph.analysis.ab.comparison import CaseRun, Comparison, Mean, Row, Side
from benchgraph.analysis.ab.findings import Finding
from benchgraph.results.result import Result

VERSION = 2


def render(c: Comparison) -> str:
    """One object."""
    values = {
        "version": VERSION,
        "old": _side(c.old),
        "new": _side(c.new),
        "threshold": c.threshold,
        "launches": c.plan.launches,
        "max_launches": c.plan.launches * c.plan.looks,
        "is_interrupted": c.stopped is not None,
        "exit_code": int(c.exit_code),
        "findings": [_finding(f) for f in c.findings],
        "means": [_mean(m) for m in c.means],
        "cases": [_case(run, [r for r in c.rows if r.timed.case == str(i)]) for i, run in enumerate(c.runs)],
        "machine": None if c.machine is None else asdict(c.machine),
    }
    return json.dumps(values, indent=1) + "\n"


def _side(side: Side) -> dict[str, object]:
    return {"label": side.label, "library": side.word, "given": side.given, "version": side.version}


def _finding(f: Finding) -> dict[str, object]:
    return {"kind": f.kind.value, "case": f.case, "policy": f.policy, "old": f.before, "new": f.after, "is_worse": f.kind.is_worse}


def _mean(m: Mean) -> dict[str, object]:
    return {"group": m.group, "policy": m.policy, "cases": m.cases, **_ratio(m.ratio, m.low, m.high)}


def _case(run: CaseRun, rows: list[Row]) -> dict[str, object]:
    return {"case": run.case, "group": run.group, "old": _status(run.old), "new": _status(run.new), "times": [_row(r) for r in rows]}


def _status(result: Result) -> dict[str, object]:
    return {"status": result.status.value, "reason": result.reason}


def _row(row: Row) -> dict[str, object]:
    j = row.judged
    return {
        "policy": row.policy,
        "verdict": row.kind.value,
        "old_s": _number(row.old_s),
        "new_s": _number(row.new_s),
        **_ratio(j.ratio, j.low, j.high),
        "launches": [{"number": x.number, "ratio": x.ratio, "old_s": x.old, "new_s": x.new} for x in row.timed.launches],
    }


def _ratio(ratio: float, low: float, high: float) -> dict[str, object]:
    return {"ratio": _number(ratio), "low": _number(low), "high": _number(high)}


def _number(x: float) -> float | None:
    """None for what is not known, since JSON has no nan."""
    return x if isfinite(x) else None
