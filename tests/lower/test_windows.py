"""Window nests: which ops share one, its loops, and their instructions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph as ApiGraph
from benchgraph.tir.build import constant, type_of
from benchgraph.tir.ir import Binary, BinOp, For, LoopKind, Scope, Seq, Store
from benchgraph.tir.text import print_tir
from benchgraph.tir.visit import walk, walk_expr
from tests.support.graph_ir import nests, scheduled
from tests.support.lowering_graphs import GRAPHS, POOL
from tests.support.partitions import with_strides
from tests.support.reference_check import matches_reference
from tests.support.targets import TARGET
from tests.support.tensor_ir import before, tir


def pool(shape: Shape, data_format: str = "NXC", strides: Shape | None = None) -> ApiGraph:
    b = GraphBuilder()
    b.op("ReLU", b.op("MaxPool", b.input(shape, strides=strides), data_format=data_format, **POOL))
    return b.graph()


@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
def test_nest(data_format: str, golden: Callable[[str], None]) -> None:
    shape = (2, 8, 8, 32) if data_format == "NXC" else (2, 3, 8, 70)
    golden(print_tir(tir(pool(shape, data_format), before("merge-parallel"))))


def test_rows_of_even_and_odd_elements(golden: Callable[[str], None]) -> None:
    """x // 4 and x % 4 of 2x - 1 are affine in every second x: two rows, each with its own weights."""
    b = GraphBuilder()
    b.op("Interpolate", b.input((2, 3, 40)), mode="linear", sizes=(80,), data_format="NCX")
    golden(print_tir(tir(b.graph(), before("merge-parallel"))))


def test_gathered_rows_have_no_interior() -> None:
    """17 elements to 21: taps are affine in every 42nd x only. A row is one vector or two."""
    b = GraphBuilder()
    b.op("Interpolate", b.input((2, 3, 17)), mode="linear", sizes=(21,), data_format="NCX")
    rows = [constant(s.extent) for s in walk(tir(b.graph(), before("merge-parallel")).body) if isinstance(s, For)]
    assert rows == [2, 3, 21]


@pytest.mark.parametrize(
    ("kind", "shapes", "attrs"),
    [
        ("Interpolate", ((2, 8, 30, 30),), {"mode": "linear", "sizes": (60, 90)}),
        ("Interpolate", ((2, 8, 30, 40),), {"mode": "nearest", "sizes": (45, 60)}),
        ("InterpolateBackward", ((2, 8, 20, 40), (2, 8, 40, 80)), {"mode": "linear", "sizes": (40, 80)}),
        ("MaxPoolBackward", ((2, 8, 60, 80), (2, 8, 30, 40)), POOL),
        ("AvgPoolBackward", ((2, 8, 30, 40),), {**POOL, "exclude_pad": False, "src_shape": (2, 8, 60, 80)}),
    ],
)
def test_no_interior_is_scalar(kind: str, shapes: tuple[Shape, ...], attrs: dict[str, object]) -> None:
    """With x a spatial axis: no loop divides its index, and every long one is vectorised, or around vectors."""
    b = GraphBuilder()
    b.op(kind, *map(b.input, shapes), data_format="NCX", **attrs)
    main = tir(b.graph())
    assert ":+16" in print_tir(main)
    loops = [s for s in walk(main.body) if isinstance(s, For) and s.kind is LoopKind.serial and not s.var.name.endswith("_v")]
    innermost = [s for s in loops if not any(isinstance(inner, For) for inner in walk(s.body))]
    assert [text for s in innermost if (constant(s.extent) or 0) > 8 and ":+16" not in (text := print_tir(s))] == []


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("pool_channels_last", [["MaxPool", "Add", "Multiply", "ReLU"]]),
        ("pool_channels_first", [["AvgPool", "Add", "Tanh"]]),
        ("pool_then_rows", [["MaxPool", "Exp"], ["ReduceSum"]]),
        ("two_pools", [["MaxPool"], ["AvgPool"], ["AvgPool", "ReLU"]]),
    ],
)
def test_only_post_ops_share_the_nest(name: str, kinds: list[list[str]]) -> None:
    assert [[op.kind for op in node.ops] for node in nests(scheduled(GRAPHS[name]()))] == kinds


@pytest.mark.parametrize(("data_format", "taps"), [("NXC", 9), ("NCX", 9)])
def test_one_parallel_loop_and_a_vectorised_interior(data_format: str, taps: int) -> None:
    """In the interior all nine taps are one expression, without a condition or a temporary in memory."""
    main = tir(pool((2, 30, 30, 64) if data_format == "NXC" else (2, 8, 60, 80), data_format))
    assert sum(isinstance(s, For) and s.kind is LoopKind.parallel for s in walk(main.body)) == 1
    lines = {line.strip() for line in print_tir(main).splitlines() if line.count(":+16") == taps and "_v*" in line}
    assert {line.count("maximum(") for line in lines} == {8}
    assert all(re.match(r"\w+ = maximum", line) for line in lines), "the value goes on in a register"


def test_jammed_windows_are_stored_after_all_their_loads() -> None:
    """A load whose address has the low bits of a store before it waits for that: 2.4 times as long, where rows are 2048 bytes apart."""
    b = GraphBuilder()
    b.op(
        "ReLU",
        b.op("MaxPool", b.input((2, 30, 30, 64)), data_format="NXC", kernel=(3, 3), strides=(1, 1), pads_begin=(1, 1), pads_end=(1, 1)),
    )
    bodies = [s.body for s in walk(tir(b.graph()).body) if isinstance(s, For) and s.var.name.endswith("_v")]
    texts = [print_tir(body) for body in bodies if isinstance(body, Seq)]
    jammed = [text for text in texts if text.count("v1[") > 1]
    assert jammed
    assert all(text.rindex("v0[") < text.index("v1[") for text in jammed)


@pytest.mark.parametrize(("kind", "is_shared"), [("MaxPool", True), ("AvgPool", False)])
@pytest.mark.parametrize(("data_format", "shape"), [("NXC", (2, 30, 30, 64)), ("NCX", (2, 8, 60, 80))])
def test_jammed_windows_share_maxima_of_lines(kind: str, is_shared: bool, data_format: str, shape: Shape) -> None:
    """Of n neighbouring 3x3 windows: two maxima for each of n + 2 lines, and for each window. Sums depend on their order, and have one."""
    b = GraphBuilder()
    pads = {"pads_begin": (1, 1), "pads_end": (1, 1), **({"exclude_pad": False} if kind == "AvgPool" else {})}
    b.op(kind, b.input(shape), data_format=data_format, kernel=(3, 3), strides=(1, 1), **pads)
    op = BinOp.maximum if is_shared else BinOp.add
    loops = [s.body for s in walk(tir(b.graph()).body) if isinstance(s, For) and s.var.name.endswith("_v")]
    windows = [[s.value for s in walk(loop) if isinstance(s, Store) and s.tensor.scope is Scope.register] for loop in loops]
    jammed = max(([e for e in values if isinstance(e, Binary) and e.op is op] for values in windows), key=len)
    distinct = {e for value in jammed for e in walk_expr(value) if isinstance(e, Binary) and e.op is op and type_of(e)[0] is DType.f32}
    n = len(jammed)
    assert n > 2
    assert len(distinct) == (2 * (n + 2) + 2 * n if is_shared else 8 * n)


def test_vectors_run_along_channels_that_are_last_in_memory() -> None:
    """For any data_format: x is the axis with contiguous elements."""
    graph = pool((2, 64, 9, 9), "NCX", strides=(64 * 81, 1, 9 * 64, 64))
    *others, last = graph.ops
    (dst,) = last.outputs
    permuted = replace(last, outputs=(replace(dst, strides=(64 * 16, 1, 4 * 64, 64)),))
    vectors = re.findall(r":\+16[*\d]*", print_tir(tir(ApiGraph((*others, permuted)))))
    assert set(vectors) == {":+16"}, "no strided vector"
    assert ":+16*" in print_tir(tir(pool((2, 64, 9, 80), "NCX"))), "which there would be otherwise"


def test_the_first_of_two_nests_stores_in_the_order_of_both() -> None:
    """Otherwise the index of a window's largest element would be scattered along channels, and gathered."""
    b, channels_last = GraphBuilder(), (2 * 48 * 60 * 16, 1, 60 * 16, 16)
    src, diff_dst = b.input((2, 16, 48, 60), strides=channels_last), b.input((2, 16, 24, 30), strides=(24 * 30 * 16, 1, 30 * 16, 16))
    b.op("MaxPoolBackward", src, diff_dst, data_format="NCX", **POOL)
    graph = with_strides(b.graph(), t2=channels_last)
    assert set(re.findall(r":\+16[*\d]*", print_tir(tir(graph)))) == {":+16"}
    assert matches_reference(graph)


@pytest.mark.parametrize(("size", "count"), [(210, 170), (41, 59), (61, 99)])
def test_post_ops_of_gathered_rows_are_vectorised(size: int, count: int) -> None:
    """The row is gathered first; without post-ops nothing else is needed."""
    b = GraphBuilder()
    resampled = b.op("Interpolate", b.input((4, 8, size)), mode="nearest", sizes=(count,), data_format="NCX")
    alone = tir(b.graph(), before("merge-parallel"))
    b.op("Tanh", resampled)
    assert "alloc" not in print_tir(alone)
    assert [line for line in print_tir(tir(b.graph())).splitlines() if "tanh" in line and ":+16" not in line] == []


def test_windows_pass_on_planes_through_l1() -> None:
    """Interpolation along rows, then along columns, plane by plane; on one core too."""
    b = GraphBuilder()
    b.op("Interpolate", b.input((2, 64, 32, 32)), mode="linear", sizes=(64, 64), data_format="NCX")
    func = tir(b.graph(), target=replace(TARGET, cores=1))
    assert sum(isinstance(s, For) and s.kind is LoopKind.parallel for s in walk(func.body)) == 1
    assert func.shared_bytes == 0
    assert 0 < func.thread_bytes <= 1 << 14
