"""split-heads: which products become one per head, that they compute what the wide ones do, and which stay."""

from __future__ import annotations

import numpy as np
import pytest

from benchgraph.compile import compile_partition
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.passes.split_heads import split_heads
from benchgraph.gir.verify import verify
from benchgraph.graph.build import GraphBuilder
from benchgraph.machine.target import ISAS, Target
from benchgraph.reference.compare import compare, tolerance
from benchgraph.reference.evaluate import evaluate
from tests.support.graph_ir import given_to
from tests.support.partitions import Build, partition_of

TARGET = Target(ISAS["avx512_core_vnni"], l1_bytes=32 << 10, l2_bytes=1 << 20, cores=2)


def attention(
    b: GraphBuilder,
    batch: tuple[int, ...] = (2,),
    heads: int = 4,
    keys: int = 33,
    queries: int = 47,
    *,
    stored: DType = DType.f32,
    divided: str = "wide",
) -> None:
    """One head of keys; the queries of all heads in adjacent columns. divided: where the scores are scaled: wide, or head by head."""

    def real(*shape: int) -> LogicalTensor:
        x = b.input((*batch, *shape), stored)
        return x if stored.is_float else b.op("Dequantize", x, scales=(0.1,), zps=(3,))

    def moved(x: LogicalTensor) -> LogicalTensor:
        n = len(batch)
        return b.op("StaticTranspose", x, order=(*range(n), n + 1, n, n + 2))

    scores = b.op("MatMul", real(keys, 16), real(16, heads * queries))
    scores = b.op("Divide", scores, b.input((1,))) if divided == "wide" else scores
    scores = moved(b.op("StaticReshape", scores, shape=(*batch, keys, heads, queries), special_zero=False))
    scores = scores if divided == "wide" else b.op("Divide", scores, b.input((1,)))
    weights = moved(b.op("SoftMax", scores, axis=-1))
    wide = b.op("StaticReshape", weights, shape=(*batch, keys, heads * queries), special_zero=False)
    if not stored.is_float:
        wide = b.op("Quantize", wide, dtype=stored, scales=(1 / 255,), zps=(0,))
        wide = b.op("Dequantize", wide, scales=(1 / 255,), zps=(0,))
    b.op("MatMul", real(8, keys), wide)


def before(build: Build) -> Graph:
    return given_to("split-heads", build, TARGET)


FORMS = {
    "plain": {},
    "scaled by head": {"divided": "head"},
    "no batch": {"batch": ()},
    "a batch of one": {"batch": (1,)},
    "two batch dims, one of 1": {"batch": (3, 1)},
    "one key": {"keys": 1},
    "one query": {"queries": 1},
    "u8": {"stored": DType.u8},
    "bf16": {"stored": DType.bf16},
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_products_of_heads_compute_what_the_wide_ones_do(form: dict[str, object]) -> None:
    def build(b: GraphBuilder) -> None:
        attention(b, **form)  # type: ignore[arg-type]

    g = before(build)
    split = split_heads(g, TARGET)
    verify(split)
    heads = 4
    assert [g.value(v).shape[-1] % heads for v in _products(g)] == [0, 0]
    assert [split.value(v).shape[-3] for v in _products(split)] == [heads, heads]
    p = partition_of(build)
    rng = np.random.default_rng(3)
    data = {t.id: _numbers(t, rng) for t in p.inputs}
    executable = compile_partition(p)
    (dst,) = p.outputs
    out = np.full(dst.known_shape, 7, dst.dtype.numpy)
    executable.bind([data[t.id] for t in p.inputs], [out])()
    exact = {id: array.astype(np.float64) if p.graph.tensors[id].dtype.is_float else array for id, array in data.items()}
    assert compare(out, evaluate(p.graph, exact)[dst.id], dst.dtype, tolerance(p.graph)).ok


def _products(g: Graph) -> list[int]:
    return [op.outs[0] for op in g.nodes if isinstance(op, Op) and op.kind == "MatMul"]


def _numbers(t: LogicalTensor, rng: np.random.Generator) -> np.ndarray:
    shape = t.known_shape
    if shape == (1,):
        return np.full(shape, 4.0).astype(t.dtype.numpy)
    numbers = rng.normal(size=shape) if t.dtype.is_float else rng.integers(0, 9, shape)
    return np.asarray(numbers).astype(t.dtype.numpy)


# ---- products that stay as they are ----------------------------------------------------------------------------------


def projection(b: GraphBuilder) -> None:
    """No op reduces rows: one wide product reads its src once."""
    wide = b.op("StaticReshape", b.op("MatMul", b.input((2, 33, 16)), b.input((2, 16, 4 * 47))), shape=(2, 33, 4, 47), special_zero=False)
    b.op("Tanh", b.op("StaticTranspose", wide, order=(0, 2, 1, 3)))


def folded(b: GraphBuilder, shape: tuple[int, ...], order: tuple[int, ...], **also: bool) -> None:
    """A softmax after a reshape and a transposition of a product's columns."""
    scores = b.op("MatMul", b.input((2, 33, 16)), b.input((2, 16, 4 * 47)))
    moved = b.op("StaticTranspose", b.op("StaticReshape", scores, shape=shape, special_zero=False), order=order)
    b.op("SoftMax", moved, axis=-1)
    if also.get("is_output"):
        b.end(scores)


def scaled_by_column(b: GraphBuilder) -> None:
    """A factor per column would have to be moved too."""
    scores = b.op("Multiply", b.op("MatMul", b.input((2, 33, 16)), b.input((2, 16, 4 * 47))), b.input((4 * 47,)))
    wide = b.op("StaticReshape", scores, shape=(2, 33, 4, 47), special_zero=False)
    b.op("SoftMax", b.op("StaticTranspose", wide, order=(0, 2, 1, 3)), axis=-1)


STAY: dict[str, Build] = {
    "projection": projection,
    "heads innermost": lambda b: folded(b, (2, 33, 47, 4), (0, 3, 1, 2)),
    "rows innermost": lambda b: folded(b, (2, 33, 4, 47), (0, 2, 3, 1)),
    "read by others too": lambda b: folded(b, (2, 33, 4, 47), (0, 2, 1, 3), is_output=True),
    "scaled by column": scaled_by_column,
}


@pytest.mark.parametrize("build", STAY.values(), ids=STAY)
def test_other_products_stay(build: Build) -> None:
    g = before(build)
    assert split_heads(g, TARGET) is g


def test_heads_that_are_a_dim_would_be_split() -> None:
    g = before(lambda b: folded(b, (2, 33, 4, 47), (0, 2, 1, 3)))
    assert split_heads(g, TARGET) is not g
