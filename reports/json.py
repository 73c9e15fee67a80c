"""the raw results: machine, cases, every sample in seconds"""

from __future__ import annotations

import json
from dataclasses import asdict

from benchgraph.harness.results import SCHEMA_VERSION, CaseResult, Machine, PartitionTiming, PolicyTiming, ResultSet


def render(results: ResultSet) -> str:
    """JSON, keys in a fixed order. Units are in the names: _s seconds; flops of a case are operations, of a peak operations per second."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "mode": results.mode.value,
        "elapsed_s": results.elapsed_s,
        "summary": results.summary,
        "machine": None if results.machine is None else machine(results.machine),
        "cases": [case(c) for c in results.cases],
    }
    return json.dumps(document, indent=1) + "\n"


def machine(m: Machine) -> dict[str, object]:
    micro, one = m.microkernel.get("f32", 0.0), m.peak_flops_1_thread.get("f32", 0.0)
    return {
        "cpu": m.cpu,
        "cores": m.cores,
        "threads": m.threads,
        "isa": m.isa,
        "versions": m.versions,
        "peak_flops": m.peak_flops,
        "peak_flops_1_thread": m.peak_flops_1_thread,
        "microkernel": {"shape": m.microkernel_shape, "flops": {"f32": micro}, "share": {"f32": micro / one}} if one else None,
    }


def case(c: CaseResult) -> dict[str, object]:
    r = c.result
    return {
        "index": c.index,
        "repro": c.repro,
        "status": r.status.value,
        "reason": r.reason,
        "elapsed_s": c.elapsed_s,
        "phases_s": c.phases,
        "errors": r.errors,
        "total": r.total,
        "n_partitions": r.n_partitions,
        "partitions": {policy: [list(ops) for ops in found] for policy, found in r.partitions.items()},
        "accuracy": [asdict(a) for a in r.accuracy],
        "flops": r.flops,
        "bytes": r.bytes,
        "compile_s": sum(t.compile_s for t in r.timings),
        "peak_samples": list(r.peak_samples),
        "timings": {t.policy: policy(t) for t in r.timings},
        "warnings": list(r.warnings),
    }


def policy(t: PolicyTiming) -> dict[str, object]:
    return {
        "samples_s": list(t.timing.samples_s),
        "executions_per_sample": t.timing.times,
        "compile_s": t.compile_s,
        "partitions": [partition(p) for p in t.partitions],
    }


def partition(p: PartitionTiming) -> dict[str, object]:
    return {
        "id": p.id,
        "kind": p.kind,
        "ops": list(p.ops),
        "flops": p.flops,
        "bytes": p.bytes,
        "compile_s": p.compile_s,
        "samples_s": list(p.timing.samples_s),
        "executions_per_sample": p.timing.times,
    }
