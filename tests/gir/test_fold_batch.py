"""fold-batch: which batch entries become rows of one product, that they compute what entries do, and which stay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchgraph.compile import compile_partition
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.layout import LAYOUTS, plain
from benchgraph.core.tensor import LayoutType, LogicalTensor, Shape, dense_strides, reach
from benchgraph.gir.build import from_partition
from benchgraph.gir.ir import Graph, Op, Value
from benchgraph.gir.layouts import packed
from benchgraph.gir.passes.decompose import decompose
from benchgraph.gir.passes.fold_batch import Fold, fold_batch
from benchgraph.gir.verify import verify
from benchgraph.graph.build import GraphBuilder
from benchgraph.machine.target import ISAS, Target
from benchgraph.partition.ir import Partition
from benchgraph.reference.compare import compare, tolerance
from benchgraph.reference.evaluate import evaluate
from tests.support.graph_ir import given_to
from tests.support.partitions import Build, partition_of

TARGET = Target(ISAS["avx512_core_vnni"], l1_bytes=32 << 10, l2_bytes=1 << 20, cores=2)


def before(build: Build) -> Graph:
    return given_to("fold-batch", build, TARGET)


# ---- what is joined ----------------------------------------------------------------------------------------------------


def mlp(b: GraphBuilder, lead: Shape = (6, 1)) -> None:
    """Two layers, the second one with what came in besides."""
    x = b.input((*lead, 32))
    hidden = b.op("GELU", b.op("MatMul", x, b.constant((32, 48)), b.constant((48,))), mode="gelu_erf")
    b.op("Add", b.op("MatMul", hidden, b.constant((48, 32))), x)


def attention(b: GraphBuilder, rows: int = 1, mask: Shape = (2, 1, 1, 1, 21), dtype: DType = DType.f32) -> None:
    """Four heads of queries for each head of keys."""
    q, k, v = b.input((2, 3, 4, rows, 16), dtype), b.input((2, 3, 1, 21, 16), dtype), b.input((2, 3, 1, 21, 8), dtype)
    scores = b.op("Add", b.op("MatMul", q, k, transpose_b=True, dtype=DType.f32), b.input(mask))
    b.op("MatMul", b.op("SoftMax", scores, axis=-1, dtype=dtype), v)


def heads(b: GraphBuilder, strides: Shape | None = None) -> None:
    """A layout op reads the rows as batch entries; the result is an output too."""
    y = b.op("MatMul", b.input((5, 1, 16), strides=strides), b.input((16, 24)))
    b.end(y)
    b.op("StaticTranspose", b.op("StaticReshape", y, shape=(5, 1, 3, 8), special_zero=False), order=(0, 2, 1, 3))


def int8(b: GraphBuilder) -> None:
    """Quantised by the row and by the column."""
    x = b.op("Dequantize", b.input((3, 2, 1, 32), DType.u8), scales=(0.1,), zps=(3,))
    w = b.op("Dequantize", b.constant((32, 20), DType.s8), qtype="per_channel", axis=1, scales=(0.1,) * 20, zps=(0,) * 20)
    y = b.op("Multiply", b.op("MatMul", x, w), b.input((3, 2, 1, 1)))
    b.op("Quantize", y, dtype=DType.s8, scales=(0.5,), zps=(1,))


def normalised(b: GraphBuilder) -> None:
    """Reductions along the rows on both sides, and a residual from another op."""
    x = b.op("StaticTranspose", b.input((4, 7, 24)), order=(1, 0, 2))
    h = b.outs("LayerNorm", x, b.input((24,)), b.input((24,)), keep_stats=False)[0]
    b.op("ReduceMax", b.op("Add", b.op("MatMul", h, b.input((40, 24)), transpose_b=True), b.input((7, 4, 40))), axes=(-1,), keep_dims=True)


POINTS = {"strides": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0), "dilations": (1, 1)}


def image(b: GraphBuilder) -> None:
    """A convolution of images of one pixel."""
    layouts = {"data_format": "NXC", "weights_format": "XIO"}
    b.op("ReLU", b.op("Convolution", b.input((6, 1, 1, 32)), b.constant((1, 1, 32, 24)), **POINTS, **layouts))


def every_other(b: GraphBuilder, src: LogicalTensor) -> None:
    """A product that reads every other row of src."""
    sizes = {"strides": (2,), "pads_begin": (0,), "pads_end": (0,), "dilations": (1,), "data_format": "NXC", "weights_format": "XIO"}
    b.op("Convolution", src, b.constant((1, 24, 8)), **sizes)


def own_weights(b: GraphBuilder) -> None:
    """After the product there is one with a matrix for each batch entry."""
    b.op("MatMul", b.op("MatMul", b.input((4, 1, 16)), b.input((16, 24))), b.input((4, 24, 8)))


def folded(b: GraphBuilder, axes: Shape, *, keep_dims: bool = True) -> None:
    """Groups of entries by weights of their own."""
    b.op("ReduceSum", b.op("MatMul", b.input((4, 4, 4, 16)), b.input((4, 1, 16, 24))), axes=axes, keep_dims=keep_dims)


def pooled(b: GraphBuilder) -> None:
    """What reads an image as one, between products of its pixels."""
    pixels = b.op("ReLU", b.op("Convolution", b.input((1, 3, 4, 16)), b.constant((1, 1, 16, 24)), **POINTS))
    near = b.op("MaxPool", pixels, kernel=(3, 3), strides=(1, 1), pads_begin=(1, 1), pads_end=(1, 1))
    mean = b.op("ReduceMean", pixels, axes=(1, 2), keep_dims=True)
    b.op("Multiply", b.op("Convolution", b.op("Add", near, pixels), b.constant((1, 1, 24, 24)), **POINTS), mean)


FOLDED: dict[str, tuple[Build, Shape]] = {
    "mlp": (mlp, (1, 6, 48)),
    "several batch dims": (lambda b: mlp(b, (2, 3, 2)), (1, 1, 12, 48)),
    "a dim of 1 between": (lambda b: mlp(b, (2, 1, 3, 1)), (1, 1, 1, 6, 48)),
    "attention": (attention, (2, 3, 1, 4, 21)),
    "attention, bf16": (lambda b: attention(b, dtype=DType.bf16), (2, 3, 1, 4, 21)),
    "attention, rows and a mask for all": (lambda b: attention(b, rows=2), (2, 3, 1, 8, 21)),
    "attention, a mask for each head": (lambda b: attention(b, mask=(3, 4, 1, 21)), (2, 3, 1, 4, 21)),
    "heads": (heads, (1, 5, 24)),
    "int8": (int8, (1, 1, 6, 20)),
    "normalised": (normalised, (1, 28, 40)),
    "one column": (lambda b: b.op("MatMul", b.input((9, 1, 33)), b.input((33, 1))), (1, 9, 1)),
    "every other row behind": (lambda b: every_other(b, b.op("MatMul", b.input((4, 4, 16)), b.input((16, 24)))), (1, 16, 24)),
    "weights of their own behind": (own_weights, (1, 4, 24)),
    "sums of groups": (lambda b: folded(b, (0,)), (4, 1, 16, 24)),
    "sums of entries": (lambda b: folded(b, (1,)), (4, 1, 16, 24)),
    "windows and a mean of an image": (pooled, (1, 1, 12, 24)),
    "image": (image, (1, 1, 6, 24)),
    "rows with gaps": (lambda b: heads(b, (40, 16, 1)), (1, 5, 24)),
    "rows inside out": (lambda b: b.op("MatMul", b.input((3, 4, 16), strides=(20, 70, 1)), b.input((16, 24))), (1, 12, 24)),
    "columns first": (lambda b: b.op("MatMul", b.input((3, 4, 16), strides=(4, 1, 12)), b.input((16, 24))), (1, 12, 24)),
}


@pytest.mark.parametrize("form", FOLDED.values(), ids=FOLDED)
def test_folded_rows_compute_what_batch_entries_do(form: tuple[Build, Shape]) -> None:
    build, shape = form
    g = fold_batch(before(build), TARGET)
    verify(g)
    assert next(g.value(op.outs[0]).shape for op in g.nodes if isinstance(op, Op) and op.kind in ("MatMul", "Convolution")) == shape
    assert fold_batch(g, TARGET) is g
    _check(build)


def _check(build: Build) -> None:
    """Compiled code against the reference; buffers have the shapes and strides that the user gave."""
    p = partition_of(build)
    ins, outs = {t.id: _numbers(t) for t in p.inputs}, {t.id: _buffer(t) for t in p.outputs}
    compile_partition(p).bind(list(ins.values()), list(outs.values()))()
    _compare(p, ins, outs)


def _compare(p: Partition, ins: dict[int, np.ndarray], outs: dict[int, np.ndarray]) -> None:
    wanted = evaluate(p.graph, {id: a.astype(np.float64) if p.graph.tensors[id].dtype.is_float else a for id, a in ins.items()})
    for t in p.outputs:
        assert compare(outs[t.id], wanted[t.id], t.dtype, tolerance(p.graph)).ok, t.id


def _buffer(t: LogicalTensor) -> np.ndarray:
    """An array with the strides of the tensor, full of sevens."""
    memory = np.full(reach(t.known_shape, t.known_strides), 7, t.dtype.numpy)
    return np.lib.stride_tricks.as_strided(memory, t.known_shape, tuple(s * memory.itemsize for s in t.known_strides))


def _numbers(t: LogicalTensor) -> np.ndarray:
    array, rng = _buffer(t), np.random.default_rng(t.id)
    array[...] = (rng.normal(size=t.known_shape) if t.dtype.is_float else rng.integers(0, 9, t.known_shape)).astype(array.dtype)
    return array


# ---- borders -----------------------------------------------------------------------------------------------------------


def borders(b: GraphBuilder) -> None:
    b.op("MatMul", b.input((3, 2, 16)), b.input((16, 24)))


def _with(id: int, **changes: object) -> Partition:
    """The partition of `borders` with a tensor of another layout."""
    b = GraphBuilder()
    borders(b)
    g = b.graph()
    return partition_of(g.with_tensors({id: replace(g.tensors[id], **changes)}))


@pytest.mark.parametrize("strides", [(60, 30, 1), (100, 30, 1), (24, 72, 1)], ids=["gaps", "gaps of two kinds", "inside out"])
def test_outputs_with_strides(strides: Shape) -> None:
    p = _with(2, strides=strides)
    ins, (dst,) = {t.id: _numbers(t) for t in p.inputs}, p.outputs
    out = _buffer(dst)
    compile_partition(p).bind(list(ins.values()), [out])()
    _compare(p, ins, {dst.id: out})


@pytest.mark.parametrize("id", [0, 2], ids=["src", "dst"])
def test_tensors_in_blocks_keep_their_shape(id: int) -> None:
    blocked = packed(3, 8, 1)
    p = _with(id, layout_type=LayoutType.opaque, layout_id=LAYOUTS.id(blocked), strides=None)
    ins, (dst,) = {t.id: _numbers(t) for t in partition_of(borders).inputs}, p.outputs
    given = ins if id else {**ins, 0: np.ascontiguousarray(ins[0].reshape(3, 2, 2, 8).swapaxes(1, 2)).ravel()}
    out = np.full(3 * 2 * 24, 7, np.float32)
    compile_partition(p).bind(list(given.values()), [out if id else out.reshape(3, 2, 24)])()
    _compare(
        partition_of(borders), ins, {dst.id: out.reshape(3, 3, 2, 8).swapaxes(1, 2).reshape(3, 2, 24) if id else out.reshape(3, 2, 24)}
    )


def test_outputs_left_open_are_row_major() -> None:
    p = partition_of(borders)
    assert compile_partition(p, open_outputs={2}).layouts == (plain(3),)
    g = fold_batch(decompose(from_partition(p, {2}), TARGET), TARGET)
    assert g.open_layouts == ()


def test_what_is_dense_stays_dense() -> None:
    shape = (7, 3, 2, 1, 16)
    fold, value = Fold((3, 2, 1)), Value(0, DType.f32, shape, plain(5), strides=dense_strides(shape))
    assert fold.strides(value) == dense_strides(fold.folded(shape)) == dense_strides((7, 1, 1, 6, 16))


def test_messages_name_the_users_shape() -> None:
    p = partition_of(mlp)
    arrays = [_buffer(t) for t in p.inputs]
    with pytest.raises(InvalidArguments, match=r"shape \(1, 6, 32\) .* compiled for shape \(6, 1, 32\) with strides \(32, 32, 1\)"):
        compile_partition(p).bind([arrays[0].reshape(1, 6, 32), *arrays[1:]], [_buffer(t) for t in p.outputs])


# ---- what stays --------------------------------------------------------------------------------------------------------


def causal(b: GraphBuilder) -> None:
    """The mask of a row depends on its index in its batch entry."""
    scores = b.op("MatMul", b.input((4, 2, 16)), b.input((16, 24)))
    mask = b.op("GreaterEqual", b.op("GenIndex", scores, axis=-2), b.op("GenIndex", scores, axis=-1))
    b.op("Select", mask, scores, b.input((1,)))


def channels_first(b: GraphBuilder) -> None:
    """Pixels are adjacent, not the channels of a pixel."""
    layouts = {"data_format": "NCX", "weights_format": "OIX"}
    b.op("ReLU", b.op("Convolution", b.input((6, 32, 2, 2)), b.constant((24, 32, 1, 1)), **POINTS, **layouts))


STAY: dict[str, Build] = {
    "one entry": lambda b: mlp(b, (1, 3)),
    "many rows": lambda b: mlp(b, (2, 48)),
    "weights of their own": lambda b: b.op("MatMul", b.input((4, 1, 16)), b.input((4, 16, 24))),
    "a mask for each row, the same for all heads": lambda b: attention(b, rows=2, mask=(2, 1, 1, 2, 21)),
    "rows that were columns": lambda b: b.op("MatMul", b.input((4, 16, 2)), b.input((16, 24)), transpose_a=True),
    "every other row": lambda b: every_other(b, b.input((4, 4, 24))),
    "channels first": channels_first,
    "sums that drop an axis": lambda b: folded(b, (-1,), keep_dims=False),
    "sums of one row": lambda b: b.op("ReduceSum", b.op("MatMul", b.input((4, 1, 16)), b.input((16, 24))), axes=(1,), keep_dims=True),
    "rows that tell their place": causal,
}


@pytest.mark.parametrize("build", STAY.values(), ids=STAY)
def test_other_products_stay(build: Build) -> None:
    g = before(build)
    assert fold_batch(g, TARGET) is g
