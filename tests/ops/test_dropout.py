"""Dropout's random stream: the published answers, twice; which element takes which word; and that fusing changes no mask."""

from __future__ import annotations

from itertools import count, pairwise
from math import floor

import numpy as np
import pytest
from numpy.typing import NDArray

from benchgraph.codegen.emit import emit
from benchgraph.compile import compile_partition
from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidShape
from benchgraph.core.target import host
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.gir import passes as gir_passes
from benchgraph.gir.build import from_partition
from benchgraph.gir.ir import Fused
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.ops import call_of, dropout, spec
from benchgraph.ops.spec import Sample
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.reference.evaluate import evaluate
from benchgraph.reference.fill import fill
from benchgraph.runtime.executable import Executable, Signature
from benchgraph.runtime.jit import jit
from benchgraph.tir.build import seq
from benchgraph.tir.interpret import interpret
from benchgraph.tir.ir import Const, Expr, For, Func, Load, Scope, Store, Var, tensor
from benchgraph.tir.module import Module
from benchgraph.tir.passes.flatten_index import flatten_index
from benchgraph.tir.passes.vectorize import vectorize
from benchgraph.tir.share import share
from tests.lower.test_meaning import TARGET

# (counter, key, words) of philox4x32-10: the known answers published with Random123, the authors' own library.
ANSWERS = (
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)
SEED, OFFSET = -6510615555426900571, 1234567890123  # a seed with its highest bit set, an offset beyond 32 bits
Mask = NDArray[np.uint8]


@pytest.mark.parametrize(("counter", "key", "words"), ANSWERS, ids=["zeros", "ones", "pi"])
def test_the_reference_gives_the_published_words(counter: tuple[int, ...], key: tuple[int, int], words: tuple[int, ...]) -> None:
    assert tuple(map(int, dropout.philox(counter, key))) == words


# ---- the compiled stream ---------------------------------------------------------------------------------------------

LANES = 24  # more than one vector, and a tail


def _blocks() -> Func:
    """out[w, i] = word w of the block of in[0..3, i] with the key in[4..5, i]."""
    src, dst, i = tensor("src", DType.s64, (6, LANES), Scope.param), tensor("dst", DType.s64, (4, LANES), Scope.param), Var("i")
    values: list[Expr] = [Load(src, (Const(n), i)) for n in range(6)]
    names = (f"r{n}" for n in count())
    shared, words = share(dropout.block(tuple(values[:4]), tuple(values[4:])), lambda: next(names))
    return Func("main", (src, dst), For(i, Const(LANES), seq(*shared, *(Store(dst, (Const(n), i), w) for n, w in enumerate(words)))))


def _inputs() -> NDArray[np.int64]:
    columns = [(*counter, *key) for counter, key, _ in ANSWERS]
    return np.array([columns[n % len(columns)] for n in range(LANES)], np.int64).T.copy()


def _outputs() -> list[list[int]]:
    return [[ANSWERS[n % len(ANSWERS)][2][w] for n in range(LANES)] for w in range(4)]


def test_the_lowering_interpreted_gives_the_published_words() -> None:
    got = np.zeros((4, LANES), np.int64)
    interpret(_blocks(), [_inputs(), got])
    assert got.tolist() == _outputs()


@pytest.mark.parametrize("widened", [False, True], ids=["scalar", "vector"])
def test_the_lowering_compiled_gives_the_published_words(widened: bool) -> None:
    flat = flatten_index(_blocks(), host())
    f = vectorize(flat, host()) if widened else flat
    assert (f is not flat) == widened
    executable = _executable(f)
    src, got = _inputs().reshape(-1), np.zeros(4 * LANES, np.int64)
    executable.bind([src], [got])()
    assert got.reshape(4, LANES).tolist() == _outputs()


def _executable(f: Func) -> Executable:
    """One input, one output, no constants."""
    signature = Signature(f.params[:1], f.params[1:], (), (), ())
    return Executable(jit(emit([f], host()), host()), Module(f), signature, 0.0)


# ---- which element takes which word ----------------------------------------------------------------------------------


def test_four_neighbours_share_a_block_and_take_its_words_in_order() -> None:
    words = dropout.words(11, SEED, OFFSET)
    for group in (0, 4, 8):
        counter = OFFSET % 2**32, OFFSET // 2**32, group, 0
        block = dropout.philox(counter, (SEED % 2**32, SEED // 2**32 % 2**32))
        assert words[group : group + 4].tolist() == [int(w) for w in block][: 11 - group]


def test_elements_beyond_32_bits_of_counter_have_blocks_of_their_own() -> None:
    low = dropout.philox((0, 0, np.array([0, 0]), np.array([0, 1])), (1, 2))
    assert len({int(w) for word in low for w in word}) == 8


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
    found = run(b.graph(), data)
    return found[dst.id], found[mask.id]  # type: ignore[return-value]


SRC = np.random.default_rng(5).uniform(1, 2, (7, 5, 33)).astype(np.float32)


def test_a_word_equal_to_the_limit_is_dropped() -> None:
    """p is chosen next to what a word divides to, so that the limit falls to either side of the word."""
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
def test_nothing_is_kept_at_probability_1_or_none(p: float) -> None:
    src = np.where(SRC > 1.5, np.inf, SRC)
    dst, mask = drop(src, p)
    assert not mask.any()
    assert (dst == 0).all()
    numbers = np.array(SEED), np.array(OFFSET), np.array(p)
    for want in spec("Dropout").reference(call_of("Dropout", with_a_mask(src.shape)), (src.astype(np.float64), *numbers)):
        assert not want.any(), "the reference says so too"


def test_dropped_elements_are_0_whatever_they_were() -> None:
    src = np.where(SRC > 1.5, np.inf, np.nan).astype(np.float32)
    dst, mask = drop(src, 0.5)
    assert (dst[mask == 0] == 0).all()
    assert np.array_equal(np.isnan(dst), np.isnan(src) & (mask == 1))


def test_a_seed_and_an_offset_are_one_mask_and_others_are_others() -> None:
    mask = drop(SRC, 0.5)[1]
    assert np.array_equal(mask, drop(SRC + 1, 0.5)[1])
    other_streams = (SEED + 1, OFFSET), (SEED, OFFSET + 1), (SEED, 0), (SEED + 2**32, OFFSET)
    others = [drop(SRC, 0.5, seed, offset)[1] for seed, offset in other_streams]
    for n, a in enumerate([mask, *others]):
        for b in [mask, *others][:n]:
            assert 0.4 < (a != b).mean() < 0.6, "half of the elements of independent masks differ"


def test_more_is_dropped_as_p_grows_and_nothing_comes_back() -> None:
    masks = [drop(SRC, p)[1] for p in (0.1, 0.3, 0.7, 0.99)]
    for less, more in pairwise(masks):
        assert (more <= less).all()
        assert more.sum() < less.sum()


def test_strides_do_not_change_the_mask() -> None:
    """Elements are counted in row-major order of the logical tensor, wherever they lie."""
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
def test_it_joins_the_nest_of_the_product_before_it(build) -> None:  # type: ignore[no-untyped-def]
    b = GraphBuilder()
    build(b)
    (partition,) = partitions(b.graph(), Policy.fused)
    g = from_partition(partition)
    for p in gir_passes.PIPELINE:
        g = p.fn(g, TARGET)
    busy = [n for n in g.nodes if isinstance(n, Fused) and not g.value(n.outs[0]).is_constant]
    assert len(busy) == 1


@pytest.mark.parametrize(("shape", "name"), [((2,), "seed"), ((0,), "seed")])
def test_more_than_one_seed_is_refused(shape: Shape, name: str) -> None:
    types = (TensorType(DType.f32, (4,)), TensorType(DType.s64, shape), TensorType(DType.s64, ()), TensorType(DType.f32, ()))
    with pytest.raises(InvalidShape) as caught:
        spec("Dropout").infer(Attrs(), types)
    assert str(caught.value) == f"{name} has shape {shape}, which is {shape[0]} numbers; give one number, of shape () or (1,)"
