"""one row per case and policy, for spreadsheets: times, GFLOP/s, share of peak, ratio to the first policy"""

from __future__ import annotations

import pandas as pd

from benchgraph.harness.results import CaseResult, PolicyTiming, ResultSet

COLUMNS = ("index", "repro", "status", "reason", "policy", "n_partitions", "min_ms", "median_ms", "gflops", "peak_share", "compile_ms")


def render(results: ResultSet) -> str:
    """CSV with a header. Cases that were not timed have one row with empty policy columns. ratio: median time over the first policy's."""
    rows = [row(c, t) for c in results.cases for t in c.result.timings or (None,)]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    first = table.groupby("index")["median_ms"].transform("first")
    return table.assign(ratio=table["median_ms"] / first).to_csv(index=False, float_format="%.6g", lineterminator="\n")


def row(c: CaseResult, t: PolicyTiming | None) -> dict[str, object]:
    r = c.result
    found: dict[str, object] = {"index": c.index, "repro": c.repro, "status": r.status.value, "reason": r.reason}
    if t is None:
        return found
    rate = r.flops / t.timing.median_s
    return found | {
        "policy": t.policy,
        "n_partitions": r.n_partitions.get(t.policy),
        "min_ms": t.timing.min_s * 1e3,
        "median_ms": t.timing.median_s * 1e3,
        "gflops": rate / 1e9,
        "peak_share": rate / r.peak if r.peak else None,
        "compile_ms": t.compile_s * 1e3,
    }
