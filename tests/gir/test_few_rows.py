"""Products of few rows with weights that change: these are read in place where that is faster, neither copied nor widened first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.gir.ir import Graph, Stage
from benchgraph.graph.build import GraphBuilder
from benchgraph.machine.target import ISAS, PAGE_BYTES, Target
from benchgraph.ops import spec
from benchgraph.schedule.limits import unrolled_columns
from benchgraph.tir.groups import SIDE_BY_SIDE
from tests.support.graph_ir import kernels, nests, scheduled

PLAIN = Target(ISAS["avx512_core"], l1_bytes=32 << 10, l2_bytes=1 << 20, cores=1)
MULTIPLIES = replace(PLAIN, isa=ISAS["avx512_core_bf16"])
K, N = 256, 1024
FAR = 2 * K * N  # of the last-level cache: weights of 16 bits take all of it


def layer(
    m: int, dtype: DType, *, transposed: bool = False, constant: bool = False, cast: bool = False
) -> Callable[[GraphBuilder], object]:
    def build(b: GraphBuilder) -> object:
        make = b.constant if constant else b.input
        wei = make((N, K) if transposed else (K, N), dtype)
        wei = b.op("Abs", wei) if cast else wei
        return b.op("MatMul", b.input((m, K), dtype), wei, transpose_b=transposed)

    return build


def kernel(g: Graph) -> Stage:
    (stage,) = kernels(g)
    return stage


def is_read_as_given(g: Graph) -> bool:
    """Only the product reads the weights."""
    given = {v for v in g.ins if g.value(v).type.elements == K * N}
    readers = [op for n in nests(g) for op in n.ops if given & {g.root(v) for v in op.ins}]
    return all(spec(op.kind).lowering.is_contraction for op in readers)


@pytest.mark.parametrize(
    ("m", "dtype", "transposed", "target", "wanted"),
    [
        (8, DType.f16, False, PLAIN, True),
        (9, DType.f16, False, PLAIN, False),
        (6, DType.f16, True, PLAIN, True),
        (7, DType.f16, True, PLAIN, False),
        (8, DType.bf16, False, PLAIN, True),
        (2, DType.bf16, False, MULTIPLIES, True),
        (3, DType.bf16, False, MULTIPLIES, False),
        (8, DType.bf16, False, replace(MULTIPLIES, llc_bytes=FAR), True),
        (9, DType.bf16, False, replace(MULTIPLIES, llc_bytes=FAR), False),
        (2, DType.bf16, True, MULTIPLIES, True),
        (3, DType.bf16, True, MULTIPLIES, False),
        (4, DType.bf16, True, replace(MULTIPLIES, llc_bytes=FAR), True),
        (5, DType.bf16, True, replace(MULTIPLIES, llc_bytes=FAR), False),
        (6, DType.f32, True, PLAIN, True),
        (7, DType.f32, True, PLAIN, False),
    ],
)
def test_weights_stay_unpacked_up_to_so_many_rows(m: int, dtype: DType, transposed: bool, target: Target, wanted: bool) -> None:
    assert is_read_as_given(scheduled(layer(m, dtype, transposed=transposed), target)) == wanted


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("llc_bytes", [0, 1])
@pytest.mark.parametrize("dtype", [DType.f16, DType.f32])
def test_few_rows_do_not_pack_weights_however_large(dtype: DType, llc_bytes: int, cores: int) -> None:
    target = replace(PLAIN, llc_bytes=llc_bytes, cores=cores, l2_bytes=1 << 16)
    g = scheduled(lambda b: b.op("MatMul", b.input((4, 2048), dtype), b.input((2048, 512), dtype)), target)
    (op, *_) = kernel(g).ops
    assert not g.value(op.ins[1]).layout.blocks


@pytest.mark.parametrize("options", [{"constant": True}, {"cast": True}], ids=str)
def test_constant_and_computed_weights_are_packed(options: dict[str, bool]) -> None:
    assert not is_read_as_given(scheduled(layer(1, DType.f16, transposed=True, **options), PLAIN))


@pytest.mark.parametrize(
    ("m", "l2_bytes", "llc_bytes", "wanted"),
    [
        (1, FAR, 0, SIDE_BY_SIDE),
        (1, FAR, 2 * FAR, SIDE_BY_SIDE),
        (4, 4 * FAR, 0, 0),
        (4, FAR, 2 * FAR, SIDE_BY_SIDE),
        (8, FAR, 2 * FAR, SIDE_BY_SIDE),
        (64, FAR, 2 * FAR, 0),
    ],
)
def test_rows_of_weights_are_read_together_where_l2_does_not_hold_them(m: int, l2_bytes: int, llc_bytes: int, wanted: int) -> None:
    """The result is row-major, since a packed block is wider than a column block would be."""
    g = scheduled(layer(m, DType.f32), replace(PLAIN, l2_bytes=l2_bytes, llc_bytes=llc_bytes))
    (op, *_), p = kernel(g).ops, kernel(g).parameters
    assert p is not None
    assert (p.ks if not g.value(op.ins[1]).layout.blocks else 0) == wanted
    assert not wanted or (p.ns > p.nb and not g.value(op.outs[0]).layout.blocks)


def test_entries_of_a_batch_have_weights_of_their_own() -> None:
    """Attention of one query: neither keys nor values are copied or split over cores, since there are enough batch entries."""

    def attention(b: GraphBuilder) -> None:
        q, k, v = (b.input((4, rows, 128), DType.bf16) for rows in (1, 512, 512))
        scores = b.op("SoftMax", b.op("MatMul", q, k, transpose_b=True), axis=-1)
        b.op("MatMul", scores, v)

    g = scheduled(attention, replace(MULTIPLIES, cores=2, l2_bytes=1 << 14))
    (nest,) = nests(g)
    assert [op.kind for op in nest.ops if op.ins[0] in g.ins] == ["TypeCast"], "of the query"
    scores, values = (stage.parameters for stage in kernels(g))
    assert scores is not None
    assert values is not None
    assert (scores.unrolled_columns, values.ks, values.ns) == (1, 1, 128)


def test_a_product_that_reads_rows_together_has_no_column_blocks() -> None:
    def chain(b: GraphBuilder) -> None:
        x = b.op("ReLU", b.op("MatMul", b.input((2, 256)), b.constant((256, 1024))))
        x = b.op("ReLU", b.op("MatMul", x, b.input((1024, 1024))))
        b.op("MatMul", x, b.constant((1024, 256)))

    g = scheduled(chain, replace(PLAIN, l2_bytes=1 << 18))
    _, middle, _ = kernels(g)
    assert middle.parameters is not None
    assert middle.parameters.ks
    assert not any(g.value(v).layout.blocks for v in (middle.ops[0].ins[0], *middle.ops[0].outs))


@pytest.mark.parametrize(
    ("rows", "n", "wei", "cores", "at_a_time"),
    [
        (1, 4096, DType.f16, 1, 1),
        (1, 4112, DType.f16, 1, SIDE_BY_SIDE),  # L1 has 32 KiB: half of it is 4096 sums
        (2, 2048, DType.f16, 1, SIDE_BY_SIDE),
        (1, 4096, DType.f16, 2, SIDE_BY_SIDE),  # each reads a part of every row
        (1, 4096, DType.f32, 1, SIDE_BY_SIDE),
    ],
)
def test_narrow_weights_are_read_from_end_to_end_where_their_sums_stay_in_l1(
    rows: int, n: int, wei: DType, cores: int, at_a_time: int
) -> None:
    target = replace(PLAIN, cores=cores, l2_bytes=1 << 16)
    p = kernel(scheduled(lambda b: b.op("MatMul", b.input((rows, 512), wei), b.input((512, n), wei)), target)).parameters
    assert p is not None
    assert p.ks == at_a_time


def test_columns_of_a_page_are_read_one_after_the_other() -> None:
    assert [unrolled_columns(1, nbytes, PLAIN) for nbytes in (PAGE_BYTES, PAGE_BYTES + 1)] == [1, 8]


@pytest.mark.parametrize(("machine", "abreast"), [("zen4", [8, 8, 5, 4, 2]), ("zen5", [1, 4, 4, 4, 2])])
def test_columns_at_a_time_depend_on_how_many_streams_suit_the_cores(machine: str, abreast: list[int]) -> None:
    target = replace(PLAIN, machine=machine)
    assert [unrolled_columns(rows, 2 * PAGE_BYTES, target) for rows in (1, 2, 3, 4, 6)] == abreast


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("isa", ["avx512_core_bf16", "avx512_core_amx"])
@pytest.mark.parametrize("l2_bytes", [FAR // 8, FAR // 2])
def test_more_rows_pack_weights_in_blocks_that_stay_in_l2(l2_bytes: int, transposed: bool, isa: str) -> None:
    target = replace(MULTIPLIES, l2_bytes=l2_bytes, isa=ISAS[isa])
    p = kernel(scheduled(layer(16, DType.bf16, transposed=transposed), target)).parameters
    assert p is not None
    assert p.ks
    assert 2 * p.ks * p.ns <= 0.75 * l2_bytes


def made(b: GraphBuilder) -> None:
    wei = b.op("SoftMax", b.input((N, K), DType.bf16), axis=-1)
    b.op("MatMul", b.input((16, K), DType.bf16), wei, transpose_b=True)


@pytest.mark.parametrize(
    ("build", "l2_bytes", "wanted"),
    [
        (layer(16, DType.bf16), FAR // 2, True),
        (layer(16, DType.bf16, transposed=True), FAR // 2, True),
        (layer(16, DType.bf16), 4 * FAR, False),  # L2 has them
        (layer(16, DType.f16), FAR // 2, False),  # converted
        (made, FAR // 2, False),
    ],
    ids=["rows", "columns", "in_l2", "converted", "made"],
)
def test_input_weights_beyond_l2_are_prefetched_before_they_are_packed(
    build: Callable[[GraphBuilder], object], l2_bytes: int, wanted: bool
) -> None:
    *_, last = kernels(scheduled(build, replace(MULTIPLIES, l2_bytes=l2_bytes)))
    p = last.parameters
    assert p is not None
    assert p.ks
    assert p.prefetch == wanted
    assert p.prefetch == any(r.parameter == "prefetch" and "next block" in r.text for r in p.why)
