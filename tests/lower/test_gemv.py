"""Products of one column or few rows: right for any strides, and in vectors along k or along rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchgraph.compile import compile_partition
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor, Shape, dense_strides
from benchgraph.gir.gemv import LONG_BYTES, Gemv, gemv_form
from benchgraph.gir.ir import FusedOp, Graph
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph as ApiGraph
from benchgraph.lower import lower
from benchgraph.machine.table import table
from benchgraph.machine.target import ISAS, PAGE_BYTES, Target, current
from benchgraph.ops import spec
from benchgraph.reference.compare import compare, tolerance
from benchgraph.reference.evaluate import evaluate
from benchgraph.tir import passes as tir_passes
from benchgraph.tir.ir import Brgemm, Const, For, LoopKind, Ramp, Store
from benchgraph.tir.passes.shrink_tensors import shrink_tensors
from benchgraph.tir.passes.unroll_and_jam import unroll_and_jam
from benchgraph.tir.visit import exprs, loads_of, walk
from tests.support.graph_ir import scheduled
from tests.support.partitions import partition_of
from tests.support.targets import MACHINE_LEVELS

AVX512 = Target(ISAS["avx512_core_vnni"], l1_bytes=32 << 10, l2_bytes=1 << 20, cores=2)
NARROW = replace(current(), cores=2, emulated=frozenset({DType.u8, DType.bf16}))
MACHINE = table(NARROW)
K = PAGE_BYTES // 4 + 1  # terms of columns that are longer than a page
LEVELS = {name: replace(target, emulated=NARROW.emulated) for name, target in MACHINE_LEVELS.items()}

# How a matrix [.., m, k] lies: its strides.
LIES = {
    "rows": lambda m, k: (k, 1),
    "rows apart": lambda m, k: (k + 3, 1),
    "columns": lambda m, k: (1, m),
    "columns apart": lambda m, k: (1, m + 5),
    "neither": lambda m, k: (2 * k + 1, 2),
}


def lying(shape: Shape, how: str) -> Shape:
    """The strides of contiguous matrices, one after the other."""
    *batch, m, k = shape
    rows, columns = LIES[how](m, k)
    step = (m - 1) * rows + (k - 1) * columns + 1
    return (*(step * s for s in dense_strides(tuple(batch))), rows, columns)


def layer(
    b: GraphBuilder,
    m: int,
    k: int,
    n: int = 1,
    *,
    batch: Shape = (),
    shared: bool = False,
    stored: DType = DType.f32,
    src: str = "rows",
    wei: str = "rows",
    constant: bool = False,
    post: str = "",
) -> None:
    """[*batch, m, k] x [*batch, k, n], or x [k, n]. stored: u8 stands for u8 by s8."""

    def matrix(shape: Shape, dtype: DType, how: str, *, is_constant: bool = False) -> LogicalTensor:
        make = b.constant if is_constant else b.input
        x = make(shape, dtype, strides=lying(shape, how))
        return x if dtype.is_float else b.op("Dequantize", x, scales=(0.25,), zps=(3,) if dtype is DType.u8 else (0,))

    heads = (1,) * len(batch) if shared else batch
    x = matrix((*batch, m, k), stored, src)
    w = matrix((*heads, k, n), DType.s8 if stored is DType.u8 else stored, wei, is_constant=constant)
    y = b.op("MatMul", x, w)
    if post == "sigmoid":
        b.op("Sigmoid", b.op("Add", y, b.input((n,), y.dtype)))
    elif post == "per row":
        b.op("Multiply", y, b.input((m, 1), y.dtype))
    elif post == "transposed":
        b.op("StaticTranspose", y, order=(*range(len(batch)), len(batch) + 1, len(batch)))


def built(**options: object) -> ApiGraph:
    b = GraphBuilder()
    layer(b, **options)  # type: ignore[arg-type]
    return b.graph()


def random(t: LogicalTensor, rng: np.random.Generator, *, whole: bool = False) -> np.ndarray:
    """Data for a tensor, with its strides. whole: small integers, whose sums are exact."""
    shape, strides = t.known_shape, t.known_strides
    size = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    buffer = np.full(size, 77).astype(t.dtype.numpy)
    view = np.lib.stride_tricks.as_strided(buffer, shape, tuple(s * buffer.itemsize for s in strides))
    least = -9 if t.dtype is DType.s8 or whole else 0
    view[...] = (rng.normal(size=shape) if t.dtype.is_float and not whole else rng.integers(least, 9, shape)).astype(t.dtype.numpy)
    return view


def assert_right(graph: ApiGraph, target: Target, *, whole: bool = False) -> None:
    partition, rng = partition_of(graph), np.random.default_rng(5)
    data = {t.id: random(t, rng, whole=whole) for t in partition.inputs}
    (dst,) = partition.outputs
    out = np.full(dst.known_shape, 7, dst.dtype.numpy)
    compile_partition(partition, target).bind([data[t.id] for t in partition.inputs], [out])()
    exact = {id: a.astype(np.float64) if graph.tensors[id].dtype.is_float else a for id, a in data.items()}
    assert compare(out, evaluate(graph, exact)[dst.id], dst.dtype, tolerance(graph)).ok


@given(
    m=st.integers(1, 70),
    k=st.one_of(st.integers(1, 70), st.sampled_from([479, 1024, 1030])),
    batch=st.sampled_from([(), (2,), (2, 3)]),
    shared=st.booleans(),
    n=st.sampled_from([1, 1, 2, 13, 64, 130]),
    stored=st.sampled_from([DType.f32, DType.bf16, DType.f16, DType.u8]),
    src=st.sampled_from(list(LIES)),
    wei=st.sampled_from(list(LIES)),
    constant=st.booleans(),
    post=st.sampled_from(["", "sigmoid", "per row", "transposed"]),
)
@settings(max_examples=25, derandomize=True)
def test_product_is_right_for_any_strides(**options: object) -> None:
    assert_right(built(**options), NARROW)


@given(
    m=st.integers(1, 9),
    k=st.sampled_from([16, 100, 129, 479, K]),
    batch=st.sampled_from([(), (), (2, 3)]),
    shared=st.booleans(),
    n=st.sampled_from([1, 13, 64, 130, 600]),
    stored=st.sampled_from([DType.f32, DType.bf16, DType.f16]),
    src=st.sampled_from(["rows", "rows apart", "columns"]),
    wei=st.sampled_from(list(LIES)),
    post=st.sampled_from(["", "sigmoid", "per row", "transposed"]),
    isa=st.sampled_from(list(LEVELS)),
    l2_bytes=st.sampled_from([256, 4096, 1 << 20]),
    llc_bytes=st.sampled_from([0, 256]),
    cores=st.sampled_from([1, 2, 3]),
)
@settings(max_examples=30, derandomize=True, deadline=None)
def test_few_rows_by_variable_weights_are_right(isa: str, l2_bytes: int, llc_bytes: int, cores: int, **options: object) -> None:
    """With weights in any level of memory: caches are so small that small weights do not fit."""
    assert_right(built(**options), replace(LEVELS[isa], l2_bytes=l2_bytes, llc_bytes=llc_bytes, cores=cores), whole=True)


# ---- the form that it takes --------------------------------------------------------------------------------------------


BY_COLUMNS = {"m": 2, "n": 130, "wei": "columns"}


def forms(g: Graph) -> Iterator[Gemv | None]:
    return (gemv_form(g, op) for n in g.nodes if isinstance(n, FusedOp) for op in n.ops if spec(op.kind).lowering.is_contraction)


@pytest.mark.parametrize(
    ("options", "form"),
    [
        ({}, Gemv.dot),
        ({"src": "rows apart"}, Gemv.dot),
        ({"constant": True}, Gemv.dot),
        ({"stored": DType.u8}, Gemv.dot),
        ({"stored": DType.u8, "constant": True, "post": "sigmoid"}, Gemv.dot),
        ({"stored": DType.bf16}, Gemv.dot),
        ({"batch": (2, 3), "shared": True}, Gemv.dot),
        ({"src": "columns"}, Gemv.axpy),
        ({"src": "columns apart", "batch": (2,)}, Gemv.axpy),
        ({"src": "neither"}, None),
        (BY_COLUMNS, Gemv.dot),
        ({**BY_COLUMNS, "stored": DType.f16}, Gemv.dot),
        ({**BY_COLUMNS, "stored": DType.bf16}, Gemv.dot),
        ({**BY_COLUMNS, "wei": "rows"}, None),
        ({**BY_COLUMNS, "src": "columns"}, None),
        ({**BY_COLUMNS, "constant": True}, None),
        ({**BY_COLUMNS, "batch": (2,)}, Gemv.dot),
        ({**BY_COLUMNS, "wei": "columns apart"}, None),
        ({**BY_COLUMNS, "wei": "columns apart", "k": LONG_BYTES // 4}, Gemv.dot),
        ({**BY_COLUMNS, "wei": "columns apart", "stored": DType.f16}, None),
        ({**BY_COLUMNS, "wei": "columns apart", "stored": DType.f16, "k": LONG_BYTES // 2}, Gemv.dot),
        ({**BY_COLUMNS, "m": MACHINE.gemv_rows, "k": 32}, None),
        ({**BY_COLUMNS, "m": MACHINE.gemv_rows, "k": 1024}, Gemv.dot),
        ({**BY_COLUMNS, "m": MACHINE.gemv_rows + 1, "k": 1024}, None),
    ],
    ids=str,
)
def test_vectors_run_along_contiguous_elements(options: dict[str, object], form: Gemv | None) -> None:
    assert list(forms(scheduled(built(**{"m": 33, "k": 48} | options), replace(AVX512, emulated=frozenset({DType.bf16}))))) == [form]


@pytest.mark.parametrize(("isa", "m", "columns"), [("avx512_core", 1, 8), ("avx512_core", 5, 3), ("avx2", 1, 8), ("avx2", 5, 1)])
def test_columns_computed_together_fill_the_registers(isa: str, m: int, columns: int) -> None:
    """The remaining columns come after, and Tensor IR passes do not change that."""
    target = replace(AVX512, isa=ISAS[isa], cores=1)
    g = scheduled(built(m=m, k=K, n=13, wei="columns"), target)
    want = [m * width for width in (columns, 13 % columns) if width]
    main = lower(g).main
    for f in (main, unroll_and_jam(shrink_tensors(main, target), target)):
        folds = [s for s in walk(f.body) if isinstance(s, For) and s.extent == Const(K)]
        assert [sum(isinstance(c, Store) for c in walk(s.body)) for s in folds] == want


@pytest.mark.parametrize("stored", [DType.f32, DType.u8])
def test_dot_products_read_whole_vectors_of_four_rows(stored: DType) -> None:
    """No microkernel is called: its vectors would hold one column."""
    g = scheduled(built(m=64, k=256, stored=stored, constant=True), AVX512)
    main = tir_passes.run(lower(g).main, AVX512)
    assert not any(isinstance(s, Brgemm) for s in walk(main.body))
    src = main.params[0].name
    read = [load for s in walk(main.body) for e in exprs(s) for load in loads_of(e) if load.tensor.name == src]
    assert {load.index[0].lanes if isinstance(load.index[0], Ramp) else 1 for load in read} == {AVX512.lanes}
    sums = {s.tensor.name for s in walk(main.body) if isinstance(s, Store) and any(load in read for load in loads_of(s.value))}
    assert len(sums) >= 4


@pytest.mark.parametrize(("m", "k", "src", "count"), [(64, 128, "rows", 0), (64, 128, "columns", 0), (1024, 1024, "rows", 1)])
def test_short_products_of_one_column_run_on_one_thread(m: int, k: int, src: str, count: int) -> None:
    """A microkernel would take sixteen times as long, and repay fork and join."""
    main = tir_passes.run(lower(scheduled(built(m=m, k=k, src=src), AVX512)).main, AVX512)
    assert sum(isinstance(s, For) and s.kind is LoopKind.parallel for s in walk(main.body)) == count


def test_transposed_product_has_rows_for_columns() -> None:
    main = lower(scheduled(built(m=64, k=48, src="columns"), AVX512)).main
    (call,) = (s for s in walk(main.body) if isinstance(s, Brgemm))
    assert (call.m, call.n, call.k) == (1, 64, 48)


def test_src_that_is_read_by_rows_is_not_blocked() -> None:
    """The layers before a narrow last one store rows."""
    b = GraphBuilder()
    x = b.op("ReLU", b.op("MatMul", b.input((64, 32)), b.constant((32, 128))))
    x = b.op("ReLU", b.op("MatMul", x, b.constant((128, 128))))
    b.op("MatMul", x, b.constant((128, 1)))
    g = scheduled(b.graph(), AVX512)
    assert list(forms(g)) == [None, None, Gemv.dot]
    assert sum(isinstance(n, FusedOp) and not all(g.value(v).is_constant for v in n.outs) for n in g.nodes) == 1
    assert_right(b.graph(), NARROW)
