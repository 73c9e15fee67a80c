"""The JSON report's schema."""

import json

from benchgraph.options.plugins import load_report
from benchgraph.results.accuracy import Accuracy
from benchgraph.results.machine import Machine
from benchgraph.results.mode import Mode
from benchgraph.results.result import CaseResult, PartitionTiming, PolicyTiming, Result, ResultSet, Status, Timing
from benchgraph.results.sketch import OpSketch, Sketch

MACHINE = Machine("Test CPU", 4, "avx2", {"python": "3.11"}, 2, {"f32": 16e9}, {"f32": 8e9}, {"f32": 6e9}, memory_bandwidth=9e9)
TIMING = Timing((0.25, 0.75), 4)
FUSED = PolicyTiming("fused", TIMING, (PartitionTiming(0, "chain", (3, 1), 100, 40, 0.125, TIMING),))
FAR = Accuracy("whole graph", 5, "f32", 64, 0, 0.5, 0.25, 2.0, 0.125, 0.0, "fused")
MEASURED = Result(
    Status.EXECUTED,
    n_partitions={"fused": 1},
    partitions={"fused": ((3, 1),)},
    accuracy=(FAR,),
    flops=100,
    bytes=40,
    timings=(FUSED,),
    peak_samples=(16e9, 15e9),
    bandwidth_samples={40: (800.0, 640.0)},
    cold_cache="wei",
    warnings=("loud",),
    graph=Sketch((OpSketch(3, "SoftMax", "s", ("axis=1",), (0,), (1,)),), {0: "%0 f32 4", 1: "%1 f32 4"}, (0,), (1,)),
)
ROOFLINE = {"flops_per_s": 200.0, "bytes_per_s": 80.0, "intensity": 2.5, "peak_share": 200.0 / 16e9, "bandwidth_share": 0.1}
SKIPPED = Result(Status.SKIPPED, "no memory")


def document(machine: Machine | None = MACHINE) -> dict:
    cases = (
        CaseResult(0, "--mode=P --graph --case=a.json", 1.5, MEASURED, {"compile": 0.125, "other": 1.375}),
        CaseResult(1, "--graph --case=b.json", 0.0, SKIPPED),
    )
    return json.loads(load_report("json")(ResultSet(Mode.performance, machine, cases, 2.0)))


def test_the_top_level() -> None:
    d = document()
    assert list(d) == ["schema_version", "mode", "source", "machine", "cases", "elapsed_s", "summary"]
    assert (d["schema_version"], d["mode"], d["elapsed_s"]) == (4, "P", 2.0)


def test_the_machine_carries_measured_peaks_per_dtype() -> None:
    m = document()["machine"]
    assert (m["cpu"], m["cores"], m["threads"], m["isa"], m["versions"]) == ("Test CPU", 4, 2, "avx2", {"python": "3.11"})
    assert (m["peak_flops"], m["peak_flops_1_thread"]) == ({"f32": 16e9}, {"f32": 8e9})
    assert m["memory_bandwidth"] == 9e9
    assert m["microkernel"] == {"shape": "256x256x256", "flops": {"f32": 6e9}, "share": {"f32": 0.75}}


def test_what_was_not_measured_is_null() -> None:
    assert document(Machine("c", 1, "avx2", {}))["machine"]["microkernel"] is None
    assert document(None)["machine"] is None


def test_a_measured_case() -> None:
    assert document()["cases"][0] == {
        "index": 0,
        "repro": "--mode=P --graph --case=a.json",
        "status": "EXECUTED",
        "reason": "",
        "elapsed_s": 1.5,
        "phases_s": {"compile": 0.125, "other": 1.375},
        "errors": 0,
        "total": 0,
        "n_partitions": {"fused": 1},
        "partitions": {"fused": [[3, 1]]},
        "implementations": {},
        "fallback": [],
        "graph": {
            "ops": [[3, "SoftMax", "s", ["axis=1"], [0], [1]]],
            "tensors": [[0, "%0 f32 4"], [1, "%1 f32 4"]],
            "inputs": [0],
            "outputs": [1],
        },
        "accuracy": [
            {
                "where": "whole graph",
                "tensor": 5,
                "dtype": "f32",
                "total": 64,
                "errors": 0,
                "max_abs": 0.5,
                "max_rel": 0.25,
                "max_ulp": 2.0,
                "l2": 0.125,
                "zero_share": 0.0,
                "rtol": 0.0,
                "zero_limit": 1.0,
                "nonfinite": 0,
                "policy": "fused",
            },
        ],
        "flops": 100,
        "bytes": 40,
        "input_bytes": 0,
        "compile_s": 0.125,
        "cold_cache": "wei",
        "num_streams": 1,
        "peak_samples": [16e9, 15e9],
        "arithmetic": "f32",
        "arithmetic_samples": [],
        "bandwidth_samples": [{"bytes": 40, "samples": [800.0, 640.0]}],
        "timings": {
            "fused": {
                "samples_s": [0.25, 0.75],
                "executions_per_sample": 4,
                "compile_s": 0.125,
                **ROOFLINE,
                "partitions": [
                    {
                        "id": 0,
                        "kind": "chain",
                        "ops": [3, 1],
                        "flops": 100,
                        "bytes": 40,
                        "compile_s": 0.125,
                        "is_warm": False,
                        "samples_s": [0.25, 0.75],
                        "executions_per_sample": 4,
                        **ROOFLINE,
                    }
                ],
            }
        },
        "told": [],
        "differences": [],
        "warnings": ["loud"],
        "notes": [],
    }


def test_an_unmeasured_case_has_the_same_keys() -> None:
    measured, skipped = document()["cases"]
    assert measured.keys() == skipped.keys()
    assert (skipped["reason"], skipped["timings"]) == ("no memory", {})
