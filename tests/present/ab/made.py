"""A comparison with a finding of every kind."""

from __future__ import annotations

from dataclasses import replace

from benchgraph.analysis.ab.comparison import CaseRun, Comparison, Policies, Side, compare
from benchgraph.analysis.ab.judge import Plan
from benchgraph.core.implementation import ByPartition, Implementation
from benchgraph.results.result import PartitionTiming, PolicyTiming, Result, Status, Timing

CASES = {
    "--graph --case=attention_with_a_long_name_that_is_folded.json": (1.0, 0.01),
    "--matmul 4x8:8x6": (1.3, 0.01),
    "--matmul --dt=bf16 3x5:5x7": (0.7, 0.01),
    "--conv ic64ih56oc64oh56kh3ph1": (1.0, 1.0),
}
BOTH = (Policies("fused", "old:fused", "new:fused"),)
PASSED, FAILED, LACKING = Result(Status.PASSED), Result(Status.FAILED, "tensor | wrong"), Result(Status.UNIMPLEMENTED, "<no kernel>")


def _timing(label: str, seconds: list[float], compile_s: float) -> PolicyTiming:
    timing = Timing(tuple(seconds), 4)
    return PolicyTiming(label, timing, (PartitionTiming(0, "x", (0,), 1, 1, compile_s, timing),))


def _launch(number: int, ratio: float, noise: float) -> Result:
    rounds = range(12)
    old = [1e-3 * (1 + noise * ((7 * i + number) % 5) / 5) for i in rounds]
    new = [1e-3 * ratio * (1 + noise * ((3 * i + 2 * number) % 5) / 5) for i in rounds]
    return Result(Status.EXECUTED, timings=(_timing("old:fused", old, 0.1), _timing("new:fused", new, 0.1 if ratio < 1.2 else 0.3)))


def _ran(old: str, new: str) -> dict[str, ByPartition]:
    kept = (Implementation("softmax", "jit:avx2"),)
    return {label: (kept, (Implementation("matmul", name),)) for label, name in (("old:fused", old), ("new:fused", new))}


def comparison() -> Comparison:
    runs = [
        CaseRun(case, case.split()[0].strip("-"), BOTH, PASSED, PASSED, {n: _launch(n, ratio, noise) for n in range(3)})
        for case, (ratio, noise) in CASES.items()
    ]
    for i, implementation in ((1, "ref:any"), (2, "brg:avx512_core")):
        launches = {n: replace(r, implementations=_ran("jit:avx2", implementation)) for n, r in runs[i].launches.items()}
        runs[i] = replace(runs[i], launches=launches)
    for case, old, new in (("--pool a", PASSED, FAILED), ("--pool b", PASSED, LACKING), ("--pool c", LACKING, PASSED)):
        runs.append(CaseRun(case, "pool", BOTH, old, new, {}))
    sides = Side("old", "old=benchgraph:/a", "benchgraph:HEAD~1", "0123456789"), Side("new", "new=benchgraph:/b", "benchgraph:.")
    return compare(runs, *sides, 0.05, Plan())
