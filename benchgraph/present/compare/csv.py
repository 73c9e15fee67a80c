"""A comparison as CSV: a row per case and policy that both sides timed."""

from __future__ import annotations

import pandas as pd

from benchgraph.analysis.compare.differences import Comparison, Row

COLUMNS = ("case", "policy", "a_ms", "b_ms", "ratio", "low", "high", "verdict", "raw_ratio", "is_corrected", "machine")


def render(c: Comparison) -> str:
    """CSV with a header. ratio: B over A, corrected for drift, in [low, high], which are empty without an interval.

    raw_ratio: as measured, b_ms / a_ms. is_corrected: whether `ratio` differs from it because of drift. machine: the kind that both are of,
    empty where there is one.
    """
    table = pd.DataFrame([_row(r, name) for name, part in c.by_kind for r in part.rows], columns=list(COLUMNS))
    return table.to_csv(index=False, float_format="%.6g", lineterminator="\n")


def _row(r: Row, machine: str) -> tuple[object, ...]:
    j = r.judged
    return str(r.key), r.policy, r.a_s * 1e3, r.b_s * 1e3, j.ratio, j.low, j.high, j.verdict.value, r.raw, j.is_corrected, machine
