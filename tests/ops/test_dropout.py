"""Dropout's random stream: published values; the word of each element; and that fusion does not change masks."""

from __future__ import annotations

from itertools import pairwise
from math import floor

import numpy as np
import pytest
from numpy.typing import NDArray

from benchgraph.compile import compile_partition
from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidShape
from benchgraph.core.philox import blocks
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.gir import passes as gir_passes
from benchgraph.gir.build import from_partition
from benchgraph.gir.ir import FusedOp
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.ops import call_of, dropout, spec
from benchgraph.ops.spec import Sample
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.reference.evaluate import evaluate
from benchgraph.reference.fill import fill
from tests.support.targets import TARGET

SEED, OFFSET = -6510615555426900571, 1234567890123  # a seed with its highest bit set, an offset beyond 32 bits
Mask = NDArray[np.uint8]


def test_four_neighbours_take_the_words_of_a_block_in_order() -> None:
    position = np.arange(11)
    assert np.array_equal(dropout.words(11, SEED, OFFSET), np.choose(position % 4, blocks(position, SEED, OFFSET)))


def run(graph: Graph, data: dict[int, NDArray[np.generic]], policy: Policy = Policy.fused) -> dict[int, NDArray[np.generic]]:
    """The graph's tensors after its partitions ran."""
    tensors = dict(data)
    for p in partitions(graph, policy):
        outs = [np.full(t.known_shape, 9, t.dtype.numpy) for t in p.outputs]
        compile_partition(p).bind([tensors[t.id] for t in p.inputs], outs)()
        tensors |= {t.id: out for t, out in zip(p.outputs, outs, strict=True)}
    return tensors


def drop(src: NDArray[np.float32], p: float, seed: int = SEED, offset: int = OFFSET) -> tuple[NDArray[np.float32], Mask]:
    b = GraphBuilder()
    strides = tuple(s // src.itemsize for s in src.strides)
    inputs = [b.input(src.shape, strides=strides), b.input((), DType.s64), b.input((), DType.s64), b.input(())]
    dst, mask = b.outs("Dropout", *inputs, dtypes=(None, DType.u8))
    numbers = (np.array(seed, np.int64), np.array(offset, np.int64), np.array(p, np.float32))
    data = dict(zip((t.id for t in inputs), (src, *numbers), strict=True))
    results = run(b.graph(), data)
    return results[dst.id], results[mask.id]  # type: ignore[return-value]


SRC = np.random.default_rng(5).uniform(1, 2, (7, 5, 33)).astype(np.float32)


def test_a_word_equal_to_the_limit_is_dropped() -> None:
    """p is next to a word's quotient, so that the limit is on either side of the word."""
    word = int(dropout.words(4, SEED, OFFSET)[2])
    at = np.float32(word / (2**32 - 1))
    for p in (np.nextafter(at, np.float32(0)), at, np.nextafter(at, np.float32(1))):
        _, mask = drop(SRC, float(p))
        limit = floor(float(p) * (2**32 - 1))
        assert mask.flat[2] == (word > limit)
    assert drop(SRC, float(np.nextafter(at, np.float32(0))))[1].flat[2] != drop(SRC, float(np.nextafter(at, np.float32(1))))[1].flat[2]


@pytest.mark.parametrize("p", [0.0, -3.0, 2.0**-33])
def test_nothing_is_dropped_at_probability_0(p: float) -> None:
    dst, mask = drop(SRC, p)
    assert mask.all()
    assert np.array_equal(dst, SRC)


def with_a_mask(shape: Shape) -> Sample:
    return Sample((shape, (), (), ()), dtypes=(DType.f32, DType.s64, DType.s64, DType.f32), out_dtypes=(DType.f32, DType.u8))


@pytest.mark.parametrize("p", [1.0, 7.0, np.inf, np.nan])
def test_nothing_is_kept_at_probability_1_or_nan(p: float) -> None:
    src = np.where(SRC > 1.5, np.inf, SRC)
    dst, mask = drop(src, p)
    assert not mask.any()
    assert (dst == 0).all()
    numbers = np.array(SEED), np.array(OFFSET), np.array(p)
    for want in spec("Dropout").semantics.reference(call_of("Dropout", with_a_mask(src.shape)), (src.astype(np.float64), *numbers)):
        assert not want.any(), "the reference says so too"


def test_dropped_elements_are_0_for_any_input() -> None:
    src = np.where(SRC > 1.5, np.inf, np.nan).astype(np.float32)
    dst, mask = drop(src, 0.5)
    assert (dst[mask == 0] == 0).all()
    assert np.array_equal(np.isnan(dst), np.isnan(src) & (mask == 1))


def test_seed_and_offset_determine_the_mask() -> None:
    mask = drop(SRC, 0.5)[1]
    assert np.array_equal(mask, drop(SRC + 1, 0.5)[1])
    other_streams = (SEED + 1, OFFSET), (SEED, OFFSET + 1), (SEED, 0), (SEED + 2**32, OFFSET)
    others = [drop(SRC, 0.5, seed, offset)[1] for seed, offset in other_streams]
    for n, a in enumerate([mask, *others]):
        for b in [mask, *others][:n]:
            assert 0.4 < (a != b).mean() < 0.6, "half of the elements of independent masks differ"


def test_more_is_dropped_as_p_grows_and_dropped_elements_stay_dropped() -> None:
    masks = [drop(SRC, p)[1] for p in (0.1, 0.3, 0.7, 0.99)]
    for less, more in pairwise(masks):
        assert (more <= less).all()
        assert more.sum() < less.sum()


def test_strides_do_not_change_the_mask() -> None:
    """Elements are counted in row-major order of the logical tensor, for any layout."""
    want_dst, want_mask = drop(SRC, 0.4)
    permuted = np.empty((33, 7, 5), np.float32).transpose(1, 2, 0)
    permuted[...] = SRC
    dst, mask = drop(permuted, 0.4)
    assert np.array_equal(mask, want_mask)
    assert np.array_equal(dst, want_dst)


# ---- fused -----------------------------------------------------------------------------------------------------------


def scalars(b: GraphBuilder):  # type: ignore[no-untyped-def]
    return b.input((), DType.s64), b.input((1,), DType.s64), b.input((1,))


def layers(b: GraphBuilder) -> None:
    """Column-blocked activations: an element is not where its number would be in row-major memory."""
    x = b.op("ReLU", b.op("MatMul", b.input((48, 32)), b.constant((32, 128))))
    b.op("MatMul", b.op("Dropout", x, *scalars(b)), b.constant((128, 64)))


def attention(b: GraphBuilder) -> None:
    s = b.op("MatMul", b.input((2, 3, 37, 16)), b.input((2, 3, 16, 21)))
    b.op("MatMul", b.op("Dropout", b.op("SoftMax", s, axis=-1), *scalars(b)), b.input((2, 3, 21, 16)))


def with_mask(b: GraphBuilder) -> None:
    b.outs("Dropout", b.op("MatMul", b.input((3, 33, 16)), b.input((16, 40))), *scalars(b), dtypes=(None, DType.u8))


def transposed(b: GraphBuilder) -> None:
    """The elements are numbered before they are moved."""
    x = b.op("Dropout", b.op("Exp", b.input((6, 4, 10))), *scalars(b))
    b.op("StaticTranspose", x, order=(2, 0, 1))


@pytest.mark.covering(1)
@pytest.mark.parametrize("build", [layers, attention, with_mask, transposed], ids=lambda build: build.__name__)
@pytest.mark.parametrize("policy", Policy)
def test_fusing_changes_no_mask(build, policy: Policy) -> None:  # type: ignore[no-untyped-def]
    b = GraphBuilder()
    build(b)
    graph = b.graph()
    data = fill(graph, seed=2)
    got, want = run(graph, data, policy), evaluate(graph, data)
    for t in graph.outputs:
        np.testing.assert_allclose(np.asarray(got[t.id], np.float64), want[t.id], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("build", [layers, attention, with_mask], ids=lambda build: build.__name__)
def test_dropout_is_fused_with_the_product_before_it(build) -> None:  # type: ignore[no-untyped-def]
    b = GraphBuilder()
    build(b)
    (partition,) = partitions(b.graph(), Policy.fused)
    g = from_partition(partition)
    for p in gir_passes.PIPELINE:
        g = p.fn(g, TARGET)
    busy = [n for n in g.nodes if isinstance(n, FusedOp) and not g.value(n.outs[0]).is_constant]
    assert len(busy) == 1


@pytest.mark.parametrize(("shape", "name"), [((2,), "seed"), ((0,), "seed")])
def test_more_than_one_seed_is_refused(shape: Shape, name: str) -> None:
    types = (TensorType(DType.f32, (4,)), TensorType(DType.s64, shape), TensorType(DType.s64, ()), TensorType(DType.f32, ()))
    with pytest.raises(InvalidShape) as caught:
        spec("Dropout").semantics.infer(Attrs(), types)
    assert str(caught.value) == f"{name} has shape {shape}, which is {shape[0]} numbers; give one number, of shape () or (1,)"
