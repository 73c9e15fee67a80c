"""A result set of three cases: timed, untested and wrong."""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.layers import Span
from benchgraph.results.accuracy import Accuracy
from benchgraph.results.layers import LayerProfile, LayerTiming
from benchgraph.results.machine import Machine
from benchgraph.results.mode import Mode
from benchgraph.results.result import CaseResult, PartitionTiming, PolicyTiming, Result, ResultSet, Status, Timing
from benchgraph.results.sketch import OpSketch, Sketch

TIMING = Timing((0.1, 0.30000000000000004), 4)
PART = PartitionTiming(0, "chain", (3, 1), 100, 40, 0.125, TIMING)
MEASURED = Result(
    Status.EXECUTED,
    total=7,
    n_partitions={"fused": 1},
    partitions={"fused": ((3, 1),)},
    flops=100,
    bytes=40,
    input_bytes=24,
    accuracy=(Accuracy("partition 0 (chain)", 5, "f32", 7, 0, 1e-7, 2e-7, 1.0, 3e-8, 0.25, "fused"),),
    timings=(PolicyTiming("fused", TIMING, (PART,), TIMING), PolicyTiming("one_op_each", TIMING, (PART, replace(PART, id=1)))),
    peak_samples=(16e9, 15e9),
    bandwidth_samples={40: (5e9, 4e9), 64: (3e9,)},
    cold_cache="all+tlb:1G",
    num_streams=2,
    warnings=("loud",),
    graph=Sketch((OpSketch(3, "SoftMax", "s", ("axis=1",), (0, 1), ()), OpSketch(1, "End", "", (), (2,), ())), {0: "%0"}, (0, 2), (1,)),
)
LAYERS = LayerProfile(
    (
        LayerTiming("a.0.fc", ("MatMul", "ReLU"), (3, 1), ("a.0.act",), 0, "fast", "f32 4x8 -> f32 4x2", 60, 20, (0.2, 0.25), 0.75),
        LayerTiming("a.1.fc", ("MatMul", "ReLU"), (4, 2), ("a.1.act",), 0, "fast", "f32 4x8 -> f32 4x2", 60, 20, (0.1, 0.125)),
    ),
    (0.3125, 0.375, 0.4375),
    (Span(0, 0.0, 0.25), Span(0, 0.0, 0.125, 1, 0.0625), Span(1, 0.25, 0.375)),
    2,
)
LAYERED = replace(MEASURED, timings=(replace(MEASURED.timings[0], layers=LAYERS), *MEASURED.timings[1:]))
MACHINE = Machine("Test CPU", 4, "avx2", {"python": "3.11"}, 2, {"f32": 16e9}, {"f32": 8e9}, {"f32": 6e9}, memory_bandwidth=9e9)
CASES = (
    CaseResult(0, "--mode=P --graph --case=a.json", 1.5, MEASURED, {"compile": 0.125, "other": 1.375}),
    CaseResult(1, "--graph --case=b.json", 0.0, Result(Status.UNTESTED, 'no "such" thing\n\u2028é')),
    CaseResult(2, "--graph --case=c.json", 0.25, Result(Status.FAILED, "wrong", 3, 64)),
)
RESULTS = ResultSet(Mode.performance, MACHINE, CASES, 2.0)
LAYERED_RESULTS = replace(RESULTS, cases=(replace(CASES[0], result=LAYERED), *CASES[1:]))
