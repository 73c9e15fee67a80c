"""Layers: every op is in exactly one, where it is computed; profiled code computes the same, and tells when; other code is as it was."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from benchgraph.codegen.clock_readings import RUNTIME, timed_statements
from benchgraph.codegen.emit import emit
from benchgraph.compile import compile_anew
from benchgraph.core.config import override
from benchgraph.core.layers import CALLER, Span
from benchgraph.core.passes import run
from benchgraph.core.record import recorded
from benchgraph.gir import passes as gir_passes
from benchgraph.gir.build import from_partition
from benchgraph.gir.text import print_gir
from benchgraph.gir.verify import verify
from benchgraph.graph import Graph, GraphBuilder, infer_shapes, read, row_major
from benchgraph.layers import compile_layers, find_layers
from benchgraph.library.own_library import Benchgraph
from benchgraph.lower import lower
from benchgraph.machine.target import ISAS, Target, current
from benchgraph.partition.ir import Partition, Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.tir import passes as tir_passes
from benchgraph.tir.ir import Func

TARGET = Target(ISAS["portable"], l1_bytes=32 << 10, l2_bytes=1 << 20, cores=2)
INPUTS = Path(__file__).parents[1] / "inputs" / "graph"


def network() -> Graph:
    """Two convolutions whose windows overlap, a reduction of all, a product: several nests. Constant weights are scaled once, by init; the
    reshape has no code."""
    b = GraphBuilder()
    same = {"strides": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1), "dilations": (1, 1), "data_format": "NCX", "weights_format": "OIX"}
    x = b.op("Convolution", b.input((1, 16, 24, 24)), b.constant((32, 16, 3, 3)), **same)
    x = b.op("ReLU", x)
    x = b.op("Convolution", x, b.op("Multiply", b.constant((32, 32, 3, 3)), b.constant((1,))), **same)
    x = b.op("ReduceMean", x, axes=(2, 3), keep_dims=True)
    x = b.op("StaticReshape", x, shape=(1, 32), special_zero=False)
    b.op("SoftMax", b.op("MatMul", x, b.constant((32, 64))), axis=-1)
    return b.graph()


def fused(graph: Graph) -> Partition:
    (p,) = partitions(graph, Policy.fused)
    return p


def compiled(p: Partition) -> tuple[Func, tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Up to Tensor IR: main, its layers, and those of its statements."""
    with recorded() as record:
        g = run(gir_passes.PIPELINE, from_partition(p), TARGET, show=print_gir, verify=verify, observe=lambda *_: None)
        main = tir_passes.run(lower(g).main, TARGET, lambda *_: None)
    ops, layer_of, _ = find_layers(p, record, timed_statements(main))
    return main, ops, layer_of


def test_layers_are_the_nests_of_the_network() -> None:
    p = fused(network())
    _, layers, _ = compiled(p)
    assert [[p.ops[op].kind for op in layer] for layer in layers] == [
        ["Convolution", "ReLU"],
        ["Multiply", "Convolution"],
        ["ReduceMean"],
        ["StaticReshape", "MatMul", "SoftMax"],
    ]


def test_nests_that_became_one_loop_are_counted() -> None:
    b = GraphBuilder()
    x = b.input((4096, 64))
    for _ in range(3):
        x = b.op("ReLU", b.op("MatMul", x, b.constant((64, 64))))
    with override(threads=2, parallel="always"):
        (whole,) = compile_layers(fused(b.graph())).layers(fused(b.graph()))
    assert whole.nests == 3
    assert len(whole.ops) == 6
    assert [layer.nests for layer in compile_layers(fused(network())).layers(fused(network()))] == [1, 1, 1, 1]


@pytest.mark.parametrize("policy", [Policy.fused, Policy.post_ops])
def test_every_op_is_in_exactly_one_layer(policy: Policy) -> None:
    for file in (*sorted((INPUTS / "pattern").glob("*.json"))[::4], INPUTS / "model" / "unet_small.json", INPUTS / "attention.json"):
        for p in partitions(infer_shapes(row_major(read(file))), policy):
            if not p.is_supported:
                continue
            main, layers, layer_of = compiled(p)
            assert sorted(op for layer in layers for op in layer) == list(range(len(p.ops))), file
            assert all(layers), file
            assert len(layer_of) == len(timed_statements(main)), file
            assert set(layer_of) == set(range(len(layers))), file


def test_code_that_is_not_profiled_is_as_it_was() -> None:
    main, _, _ = compiled(fused(network()))
    plain = list(emit([main], TARGET))
    timed = list(emit([main], TARGET, is_profiled=True))
    assert list(emit([main], TARGET)) == plain
    assert timed[0] == RUNTIME
    assert timed[1:-1] == plain[:-1]  # kernels
    assert "clock" not in "".join(plain)
    assert timed[-1].count('call void @"benchgraph_read_clock"') == 1 + len(timed_statements(main)) + plain[-1].count("define internal")


@pytest.mark.parametrize("threads", [1, 2])
def test_profiled_code_computes_the_same_and_tells_when(threads: int) -> None:
    with override(threads=threads, parallel="always"):
        p = fused(network())
        rng = np.random.default_rng(0)
        ins = [rng.standard_normal(t.known_shape).astype(np.float32) for t in p.inputs]
        want, got = ([np.empty(t.known_shape, np.float32) for t in p.outputs] for _ in range(2))
        compile_anew(p, current(), (), 0.0).bind(ins, want)()
        profiled = Benchgraph().profiled([p], [ins], [got])
        assert profiled is not None
        for _ in range(2):  # the second without init
            spans = profiled.run()
            assert [a.tobytes() for a in got] == [a.tobytes() for a in want]
            check(spans, len(profiled.layers), threads)


def check(spans: list[Span], layers: int, threads: int) -> None:
    """The caller's spans follow each other without a gap; those of threads are inside, and threads are busy no longer than their span."""
    callers = [s for s in spans if s.thread == CALLER]
    assert {s.layer for s in callers} == set(range(layers))
    assert all(a.end_s == b.begin_s for a, b in pairwise(callers))
    assert all(s.begin_s <= s.end_s for s in spans)
    own = [s for s in spans if s.thread != CALLER]
    assert {s.thread for s in own} == set(range(threads))
    for s in own:
        assert 0 < s.busy_s <= s.seconds + 1e-9
        assert any(c.layer == s.layer and c.begin_s <= s.begin_s and s.end_s <= c.end_s for c in callers)


def test_two_partitions_are_layers_of_one_execution() -> None:
    parts = partitions(network(), Policy.post_ops)
    arrays = {t.id: np.zeros(t.known_shape, np.float32) for p in parts for t in (*p.inputs, *p.outputs)}
    profiled = Benchgraph().profiled(
        parts, [[arrays[t.id] for t in p.inputs] for p in parts], [[arrays[t.id] for t in p.outputs] for p in parts]
    )
    assert profiled is not None
    assert sorted({layer.partition for layer in profiled.layers}) == list(range(len(parts)))
    assert sorted(op for layer in profiled.layers for op in layer.ops) == sorted(op.id for p in parts for op in p.ops)
    spans = profiled.run()
    callers = [s for s in spans if s.thread == CALLER]
    assert all(a.end_s <= b.begin_s for a, b in pairwise(callers))
    assert [s.layer for s in callers] == sorted(s.layer for s in callers)


def test_layers_come_from_the_same_code_as_without_profiling() -> None:
    p = fused(network())
    found = compile_layers(p)
    assert len(found.layer_of) == len(found.executable.statements)
    assert found.executable.module.main == compile_anew(p, current(), (), 0.0).module.main
