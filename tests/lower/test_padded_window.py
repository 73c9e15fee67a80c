"""Windows over padded planes: where they are used, and that padding does not change results."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.tir.ir import Cast, For, Func, If, Load, LoopKind, Scope, Store
from benchgraph.tir.text import print_tir
from benchgraph.tir.visit import loads, walk
from tests.lower.depthwise import BY_DATA, FORWARD, depthwise, windows_over
from tests.support.reference_check import matches_reference
from tests.support.tensor_ir import before, tir


def pooled(
    kind: str,
    src: Shape,
    kernel: Shape,
    stride: int | Shape = 1,
    begin: int = 1,
    end: int = 1,
    dtype: DType = DType.f32,
    data_format: str = "NCX",
    **more: object,
) -> Graph:
    """Pooling, or a gradient of it, of a src of this shape."""
    b, rank = GraphBuilder(), len(kernel)
    first = 2 if data_format == "NCX" else 1
    spatial = src[first : first + rank]
    strides, windows = windows_over(spatial, kernel, stride, 1, begin, end)
    dst = (*src[:first], *windows, *src[first + rank :])
    ins = {"MaxPoolBackward": (src, dst), "AvgPoolBackward": (dst,)}.get(kind, (src,))
    more |= {"exclude_pad": False} if "Avg" in kind and "exclude_pad" not in more else {}
    more |= {"src_shape": src} if kind == "AvgPoolBackward" else {}
    pads = {"pads_begin": (begin,) * rank, "pads_end": (end,) * rank}
    b.op(kind, *(b.input(s, dtype) for s in ins), kernel=kernel, strides=strides, data_format=data_format, **pads, **more)
    return b.graph()


def lowered(graph: Graph) -> Func:
    return tir(graph, before("merge-parallel"))


def lays_out(graph: Graph) -> bool:
    """Whether a plane is filled before its windows are computed."""
    stores = [s for s in walk(lowered(graph).body) if isinstance(s, Store) and s.tensor.scope is not Scope.param]
    return any(isinstance(s.value, Load | Cast) and any(load.tensor.scope is Scope.param for load in loads(s)) for s in stores)


def test_nest(golden: Callable[[str], None]) -> None:
    golden(print_tir(lowered(pooled("MaxPool", (8, 4, 5, 9), (3, 3)))))


@pytest.mark.parametrize(
    "graph",
    [
        pooled("MaxPool", (2, 16, 9, 14), (5, 5), begin=2, end=2),
        pooled("MaxPool", (2, 16, 9, 14), (3, 3), stride=2, begin=1, end=0),
        pooled("AvgPool", (2, 16, 9, 14), (3, 3), exclude_pad=True),
        pooled("AvgPool", (2, 16, 9, 14), (3, 3), exclude_pad=False, dtype=DType.bf16),
        pooled("AvgPool", (2, 20, 5, 7, 6), (3, 3, 3)),
        pooled("MaxPool", (2, 20, 17), (3,)),
        pooled("MaxPool", (2, 16, 4, 5), (3, 3), begin=3, end=4),
        pooled("AvgPoolBackward", (2, 16, 9, 14), (3, 3), exclude_pad=True),
        pooled("MaxPoolBackward", (2, 16, 9, 14), (3, 3)),
        pooled("MaxPoolBackward", (2, 16, 9, 14), (3, 3), stride=2),
        depthwise(FORWARD, (9, 14), (3, 3), channels=17, data_format="NCX"),
        depthwise(FORWARD, (9, 14), (3, 3), stride=2, channels=17, data_format="NCX", dtype=DType.f16),
        depthwise(FORWARD, (9, 14), (3, 3), dilation=2, pad=2, channels=17, data_format="NCX"),
        depthwise(BY_DATA, (9, 14), (5, 5), pad=2, channels=17, data_format="NCX"),
    ],
    ids=lambda graph: f"{graph.ops[0].kind} {graph.ops[0].inputs[0].shape}",
)
def test_padded_windows_are_right(graph: Graph) -> None:
    assert lays_out(graph)
    assert matches_reference(graph)


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (pooled("MaxPool", (2, 16, 14, 14), (3, 3), begin=0, end=0), "no borders"),
        (pooled("MaxPool", (2, 14, 14, 32), (3, 3), data_format="NXC"), "vectors go along channels"),
        (pooled("MaxPool", (1, 16, 14, 14), (3, 3)), "few planes"),
        (pooled("MaxPool", (2, 16, 300, 300), (13, 13), begin=6, end=6), "planes that L2 might not hold"),
        (pooled("MaxPool", (2, 16, 112, 112), (3, 3), stride=2, end=0), "a border of one element of 56"),
        (pooled("MaxPool", (2, 16, 112, 112), (3, 3), stride=2, end=0, dtype=DType.bf16), "as narrow as they are"),
        (depthwise(BY_DATA, (9, 14), (3, 3), stride=2, channels=17, data_format="NCX"), "other conditions"),
        (depthwise(BY_DATA, (9, 14), (3, 3), stride=(2, 1), channels=17, data_format="NCX"), "along another axis"),
        (pooled("AvgPoolBackward", (2, 16, 9, 14), (3, 3), stride=2), "the same"),
        (pooled("AvgPoolBackward", (2, 16, 9, 14), (3, 3), stride=(2, 1)), "the same along another axis"),
    ],
)
def test_windows_that_are_not_padded(graph: Graph, why: str) -> None:
    assert not lays_out(graph), why


def test_narrow_elements_are_padded_for_fewer_borders() -> None:
    """Their conversion is done once."""
    wide, narrow = (pooled("MaxPool", (2, 16, 112, 112), (3, 3), dtype=dtype) for dtype in (DType.f32, DType.bf16))
    assert (lays_out(wide), lays_out(narrow)) == (False, True)


def test_a_task_stores_one_plane() -> None:
    main = tir(pooled("MaxPool", (4, 16, 30, 30), (3, 3)))
    assert main.thread_bytes <= 2 * 32 * 32 * 4
    (tasks,) = (s for s in walk(main.body) if isinstance(s, For) and s.kind is LoopKind.parallel)
    assert not any(isinstance(s, If) for loop in walk(tasks) if isinstance(loop, For) and loop.var.name.startswith("g") for s in walk(loop))
    stores = [s for s in walk(tasks) if isinstance(s, Store) and s.tensor.scope is Scope.param]
    assert len({s.index for s in stores}) > 1
