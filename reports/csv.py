"""one row per case and policy, for spreadsheets: times, rates, shares of the roofs, ratio to the first policy"""

from __future__ import annotations

import pandas as pd

from benchgraph.results.result import CaseResult, PolicyTiming, ResultSet

COLUMNS = (
    *("index", "repro", "status", "reason", "policy", "n_partitions", "cold_cache", "num_streams", "min_ms", "median_ms"),
    *("flops", "bytes", "intensity", "gflops", "peak_share", "gbytes", "bandwidth_share", "compile_ms"),
)
WHERE = ("host", "machine")

SUFFIXES = (".csv",)


def render(results: ResultSet) -> str:
    """CSV with a header. Cases that were not timed have one row with empty policy columns. ratio: median time over the first policy's.

    machine: its CPU and what tells it from others of that name; rows of different ones cannot be put together.
    """
    rows = [row(c, t) for c in results.cases for t in c.result.timings or (None,)]
    machines = [results.machine_of(c) for c in results.cases for _ in c.result.timings or (None,)]
    where = pd.DataFrame([(m.host, m.full_name) if m else ("", "") for m in machines], columns=list(WHERE))
    table = pd.DataFrame(rows, columns=list(COLUMNS)).astype({"flops": "Int64", "bytes": "Int64"})
    first = table.groupby("index")["median_ms"].transform("first")
    return table.assign(ratio=table["median_ms"] / first).join(where).to_csv(index=False, float_format="%.6g", lineterminator="\n")


def row(c: CaseResult, t: PolicyTiming | None) -> dict[str, object]:
    r = c.result
    found: dict[str, object] = {"index": c.index, "repro": c.repro, "status": r.status.value, "reason": r.reason}
    if t is None:
        return found
    work = r.roofline(t)
    return found | {
        "policy": t.policy,
        "n_partitions": r.n_partitions.get(t.policy),
        "cold_cache": r.cold_cache,
        "num_streams": r.num_streams,
        "min_ms": t.timing.min_s * 1e3,
        "median_ms": t.timing.median_s * 1e3,
        "flops": work.flops,
        "bytes": work.bytes,
        "intensity": work.intensity,
        "gflops": giga(work.flops_per_s),
        "peak_share": work.peak_share,
        "gbytes": giga(work.bytes_per_s),
        "bandwidth_share": work.bandwidth_share,
        "compile_ms": t.compile_s * 1e3,
    }


def giga(rate: float | None) -> float | None:
    return None if rate is None else rate / 1e9
