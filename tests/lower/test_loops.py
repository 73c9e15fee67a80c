"""Nests without a tunable op: their loops."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape
from benchgraph.graph.build import GraphBuilder
from benchgraph.tir.build import type_of
from benchgraph.tir.ir import Binary, Const, For, Load, LoopKind, Scope, Stmt, Store
from benchgraph.tir.text import print_tir
from benchgraph.tir.visit import loads, walk
from tests.support.partitions import with_strides
from tests.support.reference_check import matches_reference
from tests.support.targets import TARGET
from tests.support.tensor_ir import before, lowered, tir


@pytest.mark.parametrize("shape", [(4096,), (5, 7, 33), (2, 3, 3, 16), (5, 6, 33, 33), (3, 2, 5, 7, 96), (64, 2, 3, 32)])
def test_dense_pointwise_nests_are_vectorised(shape: Shape) -> None:
    b = GraphBuilder()
    b.op("Add", b.op("Exp", b.input(shape)), b.input(shape))
    main = tir(b.graph())
    stores = [Load(s.tensor, s.index) for s in walk(main.body) if isinstance(s, Store)]
    found = [type_of(x) for x in (*stores, *loads(main.body)) if x.tensor.scope is Scope.param]
    assert found
    assert all(lanes == TARGET.lanes for _, lanes in found)


@pytest.mark.parametrize("elements", [16400, 25088, 40001, 70000, 1 << 20])
@pytest.mark.parametrize("threads", [2, 4])
def test_pointwise_nests_are_load_balanced(elements: int, threads: int) -> None:
    b = GraphBuilder()
    b.op("Exp", b.input((elements,)))
    chunks, _ = (s for s in walk(lowered(b.graph(), replace(TARGET, cores=threads)).main.body) if isinstance(s, For))
    assert isinstance(chunks.extent, Const)
    of_a_task = int(print_tir(chunks).split("[c0*")[1].split()[0])
    assert -(-chunks.extent.value // threads) * of_a_task <= 1.25 * elements / threads


CHANNELS_LAST = (1800, 1, 90, 3)


@pytest.mark.parametrize(
    ("x", "y", "order"),
    [
        (None, None, "c0*4096 + i1"),
        (CHANNELS_LAST, CHANNELS_LAST, "c0*4096 + i1"),
        (CHANNELS_LAST, None, "u0_u1*600 + i3"),  # too few channels for tiles
        (None, CHANNELS_LAST, "u0_u1_u2*3 + i4"),
        ((3600, 1, 180, 6), (3600, 1, 180, 6), "u0_u1_u2*6 + i4"),
    ],
    ids=["dense", "channels last", "from channels last", "to channels last", "gaps"],
)
def test_loops_follow_stores(x: Shape | None, y: Shape | None, order: str) -> None:
    b = GraphBuilder()
    b.op("Exp", b.op("ReLU", b.input((8, 3, 20, 30), strides=x)))
    graph = b.graph() if y is None else with_strides(b.graph(), t2=y)
    main = tir(graph, before("merge-blocks"))
    (store,) = (s for s in walk(main.body) if isinstance(s, Store) and s.tensor.scope is Scope.param)
    assert print_tir(store.index[0]).startswith(order)


@pytest.mark.parametrize(
    ("shape", "x", "y", "tiles"),
    [
        ((2, 96, 6, 20), (11520, 1, 1920, 96), (11520, 120, 20, 1), [2, 2, 2, 48, 60]),
        ((2, 96, 6, 20), (11520, 120, 20, 1), (11520, 1, 1920, 96), [2, 2, 2, 60, 48]),
        ((2, 96, 6, 20), (23040, 120, 20, 1), (11520, 1, 1920, 96), [2, 2, 2, 60, 48]),
        ((2, 96, 6, 20), (13440, 140, 22, 1), (11520, 1, 1920, 96), [2, 6, 1, 2, 20, 48]),
        ((70, 113), (1, 70), (113, 1), [2, 2, 35, None]),
        ((1, 96, 120), (11520, 1, 96), (11520, 120, 1), [2, 2, 48, 60]),
    ],
    ids=["to channels first", "to channels last", "gaps between images", "gaps between rows", "a prime", "of one image"],
)
def test_transposed_copies_are_tiled(shape: Shape, x: Shape, y: Shape, tiles: list[int | None]) -> None:
    """Parallel loops over rows of tiles and over tiles; inside, the axis of contiguous reads, then that of contiguous stores."""
    b = GraphBuilder()
    b.op("ReLU", b.input(shape, strides=x))
    found = [s.extent for s in walk(lowered(with_strides(b.graph(), t1=y)).main.body) if isinstance(s, For)]
    assert [e.value if isinstance(e, Const) else None for e in found] == tiles


@pytest.mark.parametrize("shape", [(3, 40, 5, 7), (2, 17, 11, 13), (1, 130, 3, 67), (2, 8, 1, 9)], ids=str)
@pytest.mark.parametrize("dtypes", [(DType.f32, DType.f32), (DType.bf16, DType.f32), (DType.bf16, DType.bf16)], ids=str)
def test_tiles_of_any_size_are_copied(shape: Shape, dtypes: tuple[DType, DType]) -> None:
    _, c, h, w = shape
    b = GraphBuilder()
    x = b.input(shape, dtypes[0], strides=(c * h * w, 1, w * c, c))
    b.op("ReLU", x) if dtypes[0] is dtypes[1] else b.op("TypeCast", x, dtype=dtypes[1])
    assert matches_reference(b.graph())


@pytest.mark.parametrize(
    ("kind", "axis", "shape", "strides", "order"),
    [
        ("SoftMax", 1, (3, 48, 20), (960, 1, 48), "u0*960 + u1*48 + i2"),
        ("SoftMax", 1, (3, 48, 20), None, "u0*960 + i1*20 + i2"),
        ("SoftMax", 0, (48, 3, 20), (1, 960, 48), "u0*960 + u1*48 + i2"),
        ("SoftMax", 1, (3, 3, 20), (60, 1, 3), "i0 + i1*3"),
    ],
    ids=["closer than the last axis", "dense", "first axis", "too short"],
)
def test_reductions_run_along_contiguous_axes(kind: str, axis: int, shape: Shape, strides: Shape | None, order: str) -> None:
    b = GraphBuilder()
    b.op(kind, b.input(shape, strides=strides), axis=axis)
    graph = b.graph() if strides is None else with_strides(b.graph(), t1=strides)
    main = tir(graph, before("merge-blocks"))
    *_, store = (s for s in walk(main.body) if isinstance(s, Store) and s.tensor.scope is Scope.param)
    assert print_tir(store.index[0]) == order


@pytest.mark.parametrize(
    ("shape", "strides", "axes", "extents"),
    [
        ((3, 5, 7, 9), None, (2, 3), [3, 5, 63]),
        ((3, 5, 7, 9), None, (0, 1, 2, 3), [945]),
        ((3, 5, 7, 9), None, (1, 2), [3, 35, 9]),
        ((3, 5, 7, 9), None, (0, 2, 3), [5, 3, 63]),
        ((3, 5, 1, 9), None, (1, 2, 3), [3, 45]),
        ((3, 5, 7, 9), (350, 70, 10, 1), (2, 3), [3, 5, 7, 9]),
        ((3, 5, 7, 9), (630, 126, 18, 2), (2, 3), [3, 5, 63]),
        ((3, 48, 7, 9), (3024, 1, 432, 48), (2, 3), [3, 63, 48]),
        ((3, 48, 20), (960, 1, 48), (1,), [3, 20, 48]),
        ((3, 5, 7, 9), (315, 1, 45, 5), (0, 1, 2, 3), [945]),
        ((3, 5, 7, 9), (315, 1, 45, 5), (1, 2, 3), [3, 315]),
        ((3, 5, 7, 9), (450, 1, 5, 50), (1, 2, 3), [3, 9, 35]),
    ],
    ids=[
        *("last", "all", "in the middle", "with one between", "with one of size 1", "gaps between rows", "steps of two", "channels last"),
        *("columns that are closer", "all, channels last", "images, channels last", "columns of rows, with gaps"),
    ],
)
def test_neighbouring_reduced_axes_collapse(shape: Shape, strides: Shape | None, axes: tuple[int, ...], extents: list[int]) -> None:
    b = GraphBuilder()
    b.op("ReduceMax", b.input(shape, strides=strides), axes=axes, keep_dims=True)
    loops = [s for s in walk(lowered(b.graph()).main.body) if isinstance(s, For) and any(map(is_fold, walk(s.body)))]
    assert [print_tir(s.extent) for s in loops] == [*map(str, extents)]


@pytest.mark.parametrize(
    ("shape", "strides", "extents"),
    [
        ((16, 5, 7, 9), None, ["16", "5", "63"]),
        ((4, 4, 5, 63), None, ["4", "4", "315"]),
        ((16, 5, 90, 100), None, ["16", "5", "9000"]),
        ((3, 5, 90, 100), None, ["3", "5", "5", "2048", "5", "808"]),  # what is left has a loop of its own
        ((3, 5, 128, 128), None, ["3", "8", "5", "2048"]),  # pieces that are alike, and of whole vectors
        ((1, 5, 200, 200), None, ["20", "5", "2000"]),  # pieces enough for tasks
        ((16, 5, 7, 9), (350, 70, 10, 1), ["16", "7", "5", "9"]),
        ((16, 5, 2, 3, 10), None, ["16", "5", "60"]),
    ],
    ids=["rows of an image", "long rows", "images enough for tasks", "a rest", "alike", "one image", "gaps between rows", "three axes"],
)
def test_neighbouring_kept_axes_collapse(shape: Shape, strides: Shape | None, extents: list[str]) -> None:
    b = GraphBuilder()
    b.op("ReduceMax", b.input(shape, strides=strides), axes=[1], keep_dims=True)
    loops = [s for s in walk(lowered(b.graph()).main.body) if isinstance(s, For) and any(map(is_fold, walk(s.body)))]
    assert [print_tir(s.extent) for s in loops] == extents


@pytest.mark.covering(2)
@pytest.mark.parametrize("shape", [(16, 5, 7, 9), (20, 3, 3, 5), (2, 16, 6, 1, 7), (2, 5, 30, 31), (3, 70, 24, 26)], ids=str)
@pytest.mark.parametrize("dtype", [DType.f32, DType.bf16], ids=str)
@pytest.mark.parametrize("kind", ["SoftMax", "LogSoftmax", "ReduceMean"])
def test_reductions_over_collapsed_kept_axes_are_right(shape: Shape, dtype: DType, kind: str) -> None:
    b = GraphBuilder()
    axis = len(shape) - 3
    x = b.input(shape, dtype)
    b.op(kind, x, axes=[axis], keep_dims=False) if kind == "ReduceMean" else b.op(kind, x, axis=axis)
    assert matches_reference(b.graph())


@pytest.mark.parametrize(
    ("dtype", "columns", "stored"),
    [(DType.f32, 64, 100 * 64), (DType.bf16, 128, 100 * 128)],
    ids=str,
)
def test_temporaries_hold_one_block_of_columns(dtype: DType, columns: int, stored: int) -> None:
    """Rows of 256 bytes of memory or more; only the exponentials of a block are stored for a second pass, and three rows of reductions."""
    b = GraphBuilder()
    b.op("SoftMax", b.input((8, 100, 32, 32), dtype), axis=1)
    main = tir(b.graph())
    spread = [s for s in walk(main.body) if isinstance(s, For) and s.kind is LoopKind.parallel]
    assert prod(s.extent.value for s in spread if isinstance(s.extent, Const)) == 8 * 32 * 32 // columns
    assert main.thread_bytes <= (stored + 3 * columns) * 4


@pytest.mark.parametrize(
    ("shape", "axis", "again"),
    [((4, 100, 1000), 2, False), ((4, 100, 1024), 2, False), ((4, 100, 1024), 1, True)],
    ids=["rows with a rest", "rows of whole vectors", "rows across"],
)
def test_conversions_are_repeated_rather_than_stored(shape: Shape, axis: int, again: bool) -> None:
    b = GraphBuilder()
    b.op("SoftMax", b.input(shape, DType.bf16), axis=axis)
    main = lowered(b.graph()).main
    x = main.params[0]
    reads = [s for s in walk(main.body) if isinstance(s, Store) and any(load.tensor == x for load in loads(s))]
    assert len(reads) == (2 if again else 1)
    assert matches_reference(b.graph())


def test_gathers_are_not_repeated() -> None:
    b = GraphBuilder()
    b.op("SoftMax", b.input((64, 4, 10), DType.bf16, strides=(400, 10, 40)), axis=2)
    main = lowered(with_strides(b.graph(), t1=(400, 10, 40))).main
    assert len([s for s in walk(main.body) if isinstance(s, Store) and any(load.tensor == main.params[0] for load in loads(s))]) == 1


@pytest.mark.covering(2)
@pytest.mark.parametrize("columns", [16, 20, 64, 70, 200])
@pytest.mark.parametrize("folded", [0, 5, 4097])
@pytest.mark.parametrize("kind", ["SoftMax", "LogSoftmax", "ReduceL2"])
@pytest.mark.parametrize("batch", [1, 3])
def test_reductions_run_along_a_contiguous_kept_axis(columns: int, folded: int, kind: str, batch: int) -> None:
    """f32[batch, columns, reduced] with contiguous columns: no vector is gathered, from inputs or from temporaries."""
    b = GraphBuilder()
    strides = (columns * folded, 1, columns)
    x = b.input((batch, columns, folded), strides=strides)
    if kind == "ReduceL2":
        b.op(kind, b.op("Tanh", x), axes=[2], keep_dims=True)
    else:
        b.op(kind, x, axis=2)
    graph = b.graph() if kind == "ReduceL2" else with_strides(b.graph(), t1=strides)
    main = tir(graph)
    read = [type_of(x)[1] for x in loads(main.body)]
    assert 1 not in read
    assert matches_reference(graph)


def test_blocks_of_columns_are_tasks() -> None:
    b = GraphBuilder()
    strides = (300 * 4096, 1, 300)
    b.op("SoftMax", b.input((2, 300, 4096), strides=strides), axis=2)
    main = tir(with_strides(b.graph(), t1=strides))
    spread = [s for s in walk(main.body) if isinstance(s, For) and s.kind is LoopKind.parallel]
    tasks = prod(s.extent.value for s in spread if isinstance(s.extent, Const))
    assert tasks >= 2 * 2
    assert main.thread_bytes <= 4096 * 2 * 300 // tasks * 2 * 4


@pytest.mark.parametrize(("kept", "extents"), [(False, ["945"]), (True, ["3", "5", "63"])])
def test_temporaries_of_a_second_pass_are_row_major(kept: bool, extents: list[str]) -> None:
    """Loops along the memory of src would step through temporaries."""
    b = GraphBuilder()
    strides = (315, 1, 45, 5)
    squares = b.op("Square", b.input((3, 5, 7, 9), strides=strides))
    total = b.op("ReduceSum", squares, axes=(0, 1, 2, 3), keep_dims=True)
    if kept:
        b.op("Multiply", squares, total)
    graph = with_strides(b.graph(), t3=strides) if kept else b.graph()
    loops = [s for s in walk(lowered(graph).main.body) if isinstance(s, For) and any(map(is_fold, walk(s.body)))]
    assert [print_tir(s.extent) for s in loops][: len(extents)] == extents


def test_reductions_can_write_a_part_of_a_tensor() -> None:
    b = GraphBuilder()
    total = b.op("ReduceSum", b.input((3, 5, 7)), axes=(1, 2), keep_dims=True)
    b.op("Concat", total, total, axis=0)
    assert matches_reference(b.graph())


def is_fold(s: Stmt) -> bool:
    return isinstance(s, Store) and isinstance(s.value, Binary)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_index_nests_are_vectorised(axis: int) -> None:
    b = GraphBuilder()
    b.op("GenIndex", b.input((5, 7, 48)), axis=axis)
    main = tir(b.graph())
    stores = [s for s in walk(main.body) if isinstance(s, Store)]
    assert stores
    assert all(type_of(s.value) == (DType.s32, TARGET.lanes) for s in stores)
    assert not list(loads(main.body)), "of src only the shape matters"


def test_reductions_with_strided_results_are_vectorised() -> None:
    """Only the reduced values are written there, element by element, once."""
    b = GraphBuilder()
    b.op("StaticTranspose", b.op("ReduceSum", b.input((5, 48, 64)), axes=(0,), keep_dims=False), order=(1, 0))
    graph = b.graph()
    main = tir(graph)
    assert [s.tensor.scope for s in walk(main.body) if isinstance(s, Store)].count(Scope.param) == 1
    assert {type_of(x)[1] for x in loads(main.body) if x.tensor.name == "v0"} == {TARGET.lanes}
    assert matches_reference(graph)


@pytest.mark.parametrize("shape", [(16, 36864), (3, 40001), (1, 20, 5003), (1, 7, 1, 20000)])
def test_one_row_of_reductions_is_cut_into_tasks(shape: Shape) -> None:
    b = GraphBuilder()
    b.op("ReduceSum", b.op("Abs", b.input(shape)), axes=[len(shape) - 2 if len(shape) < 4 else 1])
    spread = [s for s in walk(lowered(b.graph()).main.body) if isinstance(s, For) and s.kind is LoopKind.parallel]
    assert prod(s.extent.value for s in spread if isinstance(s.extent, Const)) >= 8
    assert matches_reference(b.graph())
