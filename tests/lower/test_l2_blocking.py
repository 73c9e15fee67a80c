"""L2 blocking of weights: when it is used, its loops, and results."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import PropertyType
from benchgraph.gir.parameters import Parameters
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.lower import lower
from benchgraph.machine.target import Target, current
from benchgraph.reference.compare import compare, tolerance
from benchgraph.reference.evaluate import evaluate
from benchgraph.reference.fill import fill
from benchgraph.tir.ir import Brgemm, Const, For, LoopKind
from benchgraph.tir.visit import walk
from tests.lower.batched_products import matmul, nest, partition
from tests.support.graph_ir import scheduled
from tests.support.reference_check import executed
from tests.support.targets import TARGET

SMALL_L2 = 320 << 10  # which holds a third of 64 columns of 3x3 weights of 256 channels in f32, and not 32 columns
f32, bf16 = DType.f32, DType.bf16


def convolution(
    images: int = 4,
    side: int = 7,
    dtype: DType = f32,
    channels: int = 256,
    columns: int = 128,
    taps: int = 3,
    *,
    post_ops: bool = True,
    is_constant: bool = True,
) -> Graph:
    b = GraphBuilder()
    wei = b.input((columns, channels, taps, taps), dtype, property_type=PropertyType.constant if is_constant else PropertyType.undef)
    window = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    src, formats = b.input((images, side, side, channels), dtype), {"data_format": "NXC", "weights_format": "OIX", "groups": 1}
    y = b.op("Convolution", src, wei, **window, **formats)
    if post_ops:
        b.op("ReLU", b.op("BiasAdd", y, b.input((columns,), dtype), data_format="NXC"))
    return b.graph()


def quantised(columns: int = 136) -> Graph:
    """u8 by s8, to s8, with padding equal to the zero point."""
    b = GraphBuilder()
    wei = b.input((columns, 1024, 3, 3), DType.s8, property_type=PropertyType.constant)
    src = b.op("Dequantize", b.input((4, 7, 7, 1024), DType.u8), scales=[0.1], zps=[3], qtype="per_tensor")
    dequantised = b.op("Dequantize", wei, scales=[0.05] * columns, zps=[0] * columns, qtype="per_channel", axis=0)
    window = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    y = b.op("Convolution", src, dequantised, **window, data_format="NXC", weights_format="OIX", groups=1)
    b.op("Quantize", y, scales=[2.0], zps=[0], qtype="per_tensor", dtype=DType.s8)
    return b.graph()


def chosen(graph: Graph, target: Target) -> Parameters:
    found = nest(scheduled(partition(graph), target)).parameters
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("graph", "parts", "groups"),
    [
        (convolution(), 4, 1),
        (convolution(columns=192), 4, 4),
        (convolution(channels=512), 8, 1),
        (convolution(channels=240), 3, 1),
        (convolution(channels=272), 1, 0),
        (convolution(images=1, side=3), 1, 0),
        (convolution(side=50), 1, 0),
        (convolution(channels=128), 1, 0),
        (convolution(channels=144, taps=5), 1, 0),
        (convolution(taps=1, channels=2304), 1, 0),
        (matmul(60, 3), 1, 0),
    ],
    ids=[
        "windows", "three panels for two cores", "twice the channels", "thirds", "no even parts", "few windows", "long rows", "panels fit",
        "short sums", "no taps", "no windows",
    ],
)  # fmt: skip
def test_blocked_products(graph: Graph, parts: int, groups: int) -> None:
    found = chosen(graph, replace(TARGET, l2_bytes=SMALL_L2, cores=2))
    assert (found.l2_parts, found.entry_groups) == (parts, groups)
    assert not groups or found.panels_first
    assert not found.prefetch or parts == 1
    assert ("l2_parts" in {r.parameter for r in found.why}, "prefetch" in {r.parameter for r in found.why}) == (parts > 1, found.prefetch)


def test_weights_that_fit_l2_are_not_cut() -> None:
    assert chosen(convolution(columns=64), replace(TARGET, l2_bytes=SMALL_L2)).l2_parts > 1
    assert chosen(convolution(columns=64), replace(TARGET, l2_bytes=600 << 10)).l2_parts == 1


def test_sums_without_memory_are_not_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No convolution has such results any more: casts and transpositions are ops behind it."""
    monkeypatch.setattr(import_module("benchgraph.gir.passes.schedule"), "acc_axes", lambda *_: None)
    assert chosen(convolution(), replace(TARGET, l2_bytes=SMALL_L2)).l2_parts == 1


def test_a_task_multiplies_all_entries_by_one_part() -> None:
    """Two panels are two tasks; in each, all four images' rows are multiplied by the first 64 channels, then by the next."""
    target = replace(TARGET, l2_bytes=SMALL_L2, cores=2)
    main = lower(scheduled(partition(convolution()), target), target).main
    task = next(s for s in walk(main.body) if isinstance(s, For) and s.var.name.startswith("no"))
    assert (task.kind, task.extent) == (LoopKind.parallel, Const(2))
    assert all(s.kind is LoopKind.serial for s in walk(task.body) if isinstance(s, For))
    calls = [s for s in walk(task.body) if isinstance(s, Brgemm)]
    assert {c.k for c in calls} == {64}
    assert {c.accumulate for c in calls} == {False, True}


@pytest.mark.parametrize(
    ("graph", "l2_bytes"),
    [
        (convolution(), SMALL_L2),
        (convolution(post_ops=False), SMALL_L2),
        (convolution(columns=136), SMALL_L2),
        (convolution(columns=192), SMALL_L2),
        (convolution(dtype=bf16, channels=512, columns=136), SMALL_L2),
        (convolution(images=4, side=5, channels=512), 2 * SMALL_L2),
        (convolution(dtype=bf16, channels=512, is_constant=False), SMALL_L2),
        (quantised(), SMALL_L2),
    ],
    ids=["f32", "no post-ops", "a last panel of less", "groups", "bf16", "rows that leave out padding", "weights that change", "u8 by s8"],
)
def test_results_are_right_and_the_same_for_any_number_of_threads(graph: Graph, l2_bytes: int) -> None:
    p, small = partition(graph), replace(current(), l2_bytes=l2_bytes)
    assert chosen(graph, replace(small, cores=2)).l2_parts > 1
    want = evaluate(graph, fill(graph, seed=1))[graph.outputs[0].id]
    found = [executed(graph, p, replace(small, cores=cores))[0] for cores in (1, 2, 3)]
    assert compare(found[0], want, graph.outputs[0].dtype, tolerance(graph)).ok
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()
