"""Windows over padded planes: where they can be used, and what their loops are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.tir.ir import For, LoopKind, Scope, Store
from benchgraph.tir.text import print_tir
from benchgraph.tir.visit import walk
from tests.lower.depthwise import BY_DATA, depthwise, windows_over
from tests.lower.window_schedules import chosen, lowered_as, windows
from tests.support.tensor_ir import before


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


IN_PLANES = "pack src with padding at d1; unroll_jam d2 by 4; unroll t0; order d0, d1, d2, d3, t0, t1; parallel d0, d1; vectorize d3"


def test_nest(golden: Callable[[str], None]) -> None:
    golden(print_tir(lowered_as(pooled("MaxPool", (8, 4, 9, 9), (3, 3)), IN_PLANES, before("merge-parallel"))))


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (pooled("MaxPool", (2, 16, 14, 14), (3, 3), begin=0, end=0), "no borders"),
        (pooled("MaxPool", (2, 14, 14, 32), (3, 3), data_format="NXC"), "vectors go along channels"),
        (depthwise(BY_DATA, (9, 14), (3, 3), stride=2, channels=17, data_format="NCX"), "other conditions"),
        (depthwise(BY_DATA, (9, 14), (3, 3), stride=(2, 1), channels=17, data_format="NCX"), "along another axis"),
        (pooled("AvgPoolBackward", (2, 16, 9, 14), (3, 3), stride=2), "the same"),
        (pooled("AvgPoolBackward", (2, 16, 9, 14), (3, 3), stride=(2, 1)), "the same along another axis"),
    ],
)
def test_windows_that_cannot_be_padded(graph: Graph, why: str) -> None:
    assert windows(graph).planes is None, why


def test_short_rows_are_padded() -> None:
    """Long ones have few ends, and large planes are far."""
    short, long = (pooled("MaxPool", (2, 16, n, n), (3, 3), stride=stride) for n, stride in ((14, 1), (224, 2)))
    assert (chosen(short).packed is None, chosen(long).packed is None) == (False, True)


def test_a_task_stores_one_plane() -> None:
    main = lowered_as(pooled("MaxPool", (4, 16, 30, 30), (3, 3)), IN_PLANES)
    assert main.thread_bytes <= 2 * 32 * 32 * 4
    (tasks,) = (s for s in walk(main.body) if isinstance(s, For) and s.kind is LoopKind.parallel)
    stores = [s for s in walk(tasks) if isinstance(s, Store) and s.tensor.scope is Scope.param]
    assert len({s.index for s in stores}) > 1
