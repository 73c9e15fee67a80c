"""Neighbouring windows that are computed together: which can be, what they share, and that results at every border are right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.machine.target import ISAS
from benchgraph.schedule.window import TAP_GROUP
from benchgraph.tir.build import constant
from benchgraph.tir.ir import For, Func, LoopKind, Scope, Store
from benchgraph.tir.text import print_tir
from benchgraph.tir.visit import loads, walk
from tests.lower.depthwise import BY_DATA, BY_WEIGHTS, FORWARD, depthwise
from tests.lower.test_padded_window import pooled
from tests.lower.window_schedules import chosen, lowered_as, windows
from tests.support.reference_check import matches_reference
from tests.support.targets import TARGET
from tests.support.tensor_ir import before, tir

AVX2 = replace(TARGET, isa=ISAS["avx2"])
JAMMED = "unroll_jam d2 by 8; unroll t1; order d0, d1, d2, d3, t0, t1; parallel d0, d1; vectorize d3"


def lowered(graph: Graph) -> Func:
    return tir(graph, before("merge-parallel"))


def test_nest(golden: Callable[[str], None]) -> None:
    golden(print_tir(lowered_as(depthwise(FORWARD, (6, 18), (3, 3)), JAMMED, before("merge-parallel"))))


@pytest.mark.parametrize("kind", [FORWARD, BY_DATA, BY_WEIGHTS])
@pytest.mark.parametrize(
    ("spatial", "kernel", "stride", "dilation", "pad"),
    [
        ((5, 7), (3, 3), 1, 1, 1),
        ((6, 18), (3, 3), 1, 1, 1),
        ((4, 33), (3, 3), 2, 1, 1),
        ((4, 29), (3, 3), 3, 1, 0),
        ((9, 14), (5, 5), 1, 1, 2),
        ((3, 12), (3, 7), 1, 1, 3),
        ((7, 21), (3, 3), 1, 2, 2),
        ((3, 16), (1, 13), 1, 1, 6),
        ((40,), (3,), 1, 1, 1),
        ((3, 4, 11), (3, 3, 3), 1, 1, 1),
        ((2, 3), (3, 3), 1, 1, 2),
    ],
)
def test_borders_are_right(kind: str, spatial: Shape, kernel: Shape, stride: int, dilation: int, pad: int) -> None:
    graph = depthwise(kind, spatial, kernel, stride, dilation, pad)
    assert matches_reference(graph)


@pytest.mark.parametrize("dtype", [DType.bf16, DType.f16])
def test_narrow_floats_are_right_too(dtype: DType) -> None:
    for kind in (FORWARD, BY_DATA, BY_WEIGHTS):
        graph = depthwise(kind, (5, 14), (3, 3), dtype=dtype, channels=35)
        assert matches_reference(graph)


@pytest.mark.parametrize(("dtype", "data_format"), [(DType.u8, "NXC"), (DType.s8, "NXC"), (DType.u8, "NCX")])
def test_quantised_results_are_right_at_padding(dtype: DType, data_format: str) -> None:
    """Padding is the zero point."""
    b = GraphBuilder()
    shape = (2, 9, 14, 35) if data_format == "NXC" else (2, 35, 9, 14)
    src = b.op("Dequantize", b.input(shape, dtype), scales=[0.25], zps=[3], qtype="per_tensor")
    scales = [0.5 + i % 3 for i in range(35)]
    wei = b.op("Dequantize", b.input((35, 1, 3, 3), DType.s8), scales=scales, zps=[0] * 35, qtype="per_channel", axis=0)
    attrs = {"strides": (1, 1), "dilations": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1), "groups": 35}
    dst = b.op("Convolution", src, wei, b.input((35,)), **attrs, data_format=data_format, weights_format="OIX")
    b.op("Quantize", dst, dtype=dtype, scales=[2.0], zps=[1], qtype="per_tensor")
    graph = b.graph()
    assert matches_reference(graph)


@pytest.mark.parametrize("kind", [FORWARD, BY_DATA, BY_WEIGHTS])
def test_empty_batches_are_right(kind: str) -> None:
    graph = depthwise(kind, (5, 5), (3, 3), images=0)
    assert matches_reference(graph)


@pytest.mark.covering(2)
@pytest.mark.parametrize("taps", [12, 2 * TAP_GROUP - 1, 2 * TAP_GROUP, 2 * TAP_GROUP + 1, 3 * TAP_GROUP])
@pytest.mark.parametrize(("data_format", "weights_format"), [("NXC", "XIO"), ("NCX", "OIX")])
@pytest.mark.parametrize("stride", [1, 5])
def test_long_kernels_are_right(taps: int, data_format: str, weights_format: str, stride: int) -> None:
    """Taps in one expression, and taps in groups: with some left over at either end, and with none."""
    formats = {"data_format": data_format, "weights_format": weights_format}
    graph = depthwise(FORWARD, (40, 21), (taps, 3), stride=(stride, 2), pad=0, channels=5, **formats)
    assert matches_reference(graph)


@pytest.mark.parametrize("spatial", [(60, 40), (3, 8400)])
def test_gradients_with_conditions_on_x_are_right(spatial: Shape) -> None:
    """Channels first: x is along the kernel, and its taps depend on the group of windows too."""
    graph = depthwise(BY_WEIGHTS, spatial, (3, 5), pad=2, channels=16, data_format="NCX", weights_format="OIX")
    assert matches_reference(graph)


def test_fewer_registers_hold_fewer_sums() -> None:
    assert [chosen(depthwise(FORWARD, (80, 160), (7, 7)), target).jam.count for target in (TARGET, AVX2)] == [8, 4]


def test_shared_elements_are_loaded_once() -> None:
    """Eight windows of 3x3 load ten elements of src and three weights in each of three rows; each window alone loads three of both."""
    f = lowered_as(depthwise(FORWARD, (40, 60), (3, 3)), JAMMED, before("merge-parallel"))
    loops = (s for s in walk(f.body) if isinstance(s, For) and s.var.name.startswith("x"))
    (loop,) = (s for s in loops if sum(isinstance(c, Store) and c.tensor.scope is Scope.param for c in walk(s.body)) == 8)
    found = {(load.tensor.name, load.index) for load in loads(loop.body) if load.tensor.scope is Scope.param}
    assert len(found) == (8 + 2) + 3


@pytest.mark.parametrize("kind", [FORWARD, BY_DATA])
def test_sums_are_vectors_in_registers(kind: str) -> None:
    """The loop over taps along the other axis is inside of the one over vectors of channels, and no sum is in memory."""
    main = lowered_as(depthwise(kind, (40, 60), (3, 3), channels=64), JAMMED)
    assert main.thread_bytes == main.shared_bytes == 0
    vectors = [s for s in walk(main.body) if isinstance(s, For) and s.var.name.endswith("_v")]
    assert vectors
    for loop in vectors:
        (taps,) = (s for s in walk(loop.body) if isinstance(s, For) and s is not loop)
        assert constant(taps.extent) == 3
        assert all(s.tensor.lanes == 16 for s in walk(taps) if isinstance(s, Store))


def test_gradients_are_stored_once_per_group_of_taps() -> None:
    """The gradient of 3x3 weights: rows of 157 windows; each group of taps updates three sums."""
    f = lowered(depthwise(BY_WEIGHTS, (40, 157), (3, 3)))
    groups = [s for s in walk(f.body) if isinstance(s, For) and (constant(s.extent) or 0) == (157 - 2) // TAP_GROUP]
    assert len(groups) == 1
    sums = [s for s in walk(groups[0].body) if isinstance(s, Store)]
    assert len(sums) == 3
    assert all(len({load.index for load in loads(s)}) == 1 + 2 * TAP_GROUP for s in sums)


@pytest.mark.parametrize(("kernel", "stride", "shares"), [(3, 2, True), (2, 2, False), (1, 2, False)])
def test_windows_that_share_nothing_are_not_jammed(kernel: int, stride: int, shares: bool) -> None:
    graph = pooled("MaxPool", (2, 40, 60, 16), (kernel,) * 2, stride=stride, begin=0, end=0, data_format="NXC")
    assert (windows(graph).neighbours is not None) is shares


@pytest.mark.parametrize(("kernel", "shares"), [(3, True), (2, False)])
def test_elements_of_one_window_are_not_jammed(kernel: int, shares: bool) -> None:
    graph = pooled("AvgPoolBackward", (2, 40, 60, 16), (kernel,) * 2, stride=2, begin=0, end=kernel % 2, data_format="NXC")
    assert (windows(graph).neighbours is not None) is shares


def test_groups_are_tasks() -> None:
    """Where images do not give each core its share."""
    f = lowered(depthwise(FORWARD, (900,), (3,), channels=32, images=1))
    loops = [s.var.name[0] for s in walk(f.body) if isinstance(s, For) and s.kind is LoopKind.parallel]
    assert loops == ["g"]
