"""Runs, series and changes as JSON, for other programs.

    {"threshold": 0.05, "left_out": 0,
     "runs": [{"run": 7, "started": 1790604800.0, "commit": "c0ffee...", "is_dirty": false, "machine": "...", "versions": {...}}, ...],
     "series": [{"case": "--graph --case=a.json", "policy": "fused", "machine": "...",
                 "points": [{"run": 7, "median_s": 1e-4, "peak_flops": 1.6e10}, ...],
                 "changes": [{"last_good": 31, "first_bad": 32, "ratio": 1.1, "low": 1.08, "high": 1.12, "mended": null}]}, ...]}

Numbers of runs are those that `benchgraph history` lists; last_good and first_bad are the runs before and after a change, faster or slower
(`ratio` is time after over time before, with its 95 % interval); mended is the run from which on times are as before it again. left_out are
runs of commits that HEAD does not come from. other_machines of a run are those that its machine left cases to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchgraph.analysis.history.changes import Change
from benchgraph.analysis.history.series import History, Key
from benchgraph.analysis.history.store import RunRow


def render(h: History, changes: Mapping[Key, Sequence[Change]], threshold: float) -> str:
    """threshold: beyond which a change is one."""
    runs = [_run(h, r) for r in h.shown]
    series = [_series(h, key, changes.get(key, ())) for key in sorted(h.series)]
    return json.dumps({"threshold": threshold, "left_out": h.left_out, "runs": runs, "series": series}, indent=1) + "\n"


def _run(h: History, r: RunRow) -> dict[str, Any]:
    identity = {"run": r.id, "started": r.started, "commit": r.commit, "is_dirty": r.is_dirty}
    elsewhere = {"other_machines": [h.machines[m] for m in others]} if (others := r.machines[1:]) else {}
    return {**identity, "machine": h.machines[r.machine], **elsewhere, "versions": r.versions}


def _series(h: History, key: Key, changes: Sequence[Change]) -> dict[str, Any]:
    s = h.series[key]
    points = [
        {"run": h.runs[i].id, "median_s": t, "peak_flops": peak}
        for i, t, peak in zip(s.runs, s.times, s.peaks, strict=True)
        if i >= h.start - 1
    ]
    found = [_change(h, c) for c in changes]
    return {"case": key.case, "policy": key.policy, "machine": h.machines[key.machine], "points": points, "changes": found}


def _change(h: History, c: Change) -> dict[str, Any]:
    mended = None if c.mended is None else h.runs[c.mended].id
    runs = {"last_good": h.runs[c.before].id, "first_bad": h.runs[c.after].id}
    return {**runs, "ratio": c.ratio, "low": c.low, "high": c.high, "mended": mended}
