"""Products of a few rows with weights that change: read as they lie where that is faster, neither copied nor widened first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.target import ISAS, Target
from benchgraph.gir.ir import Graph, Stage
from benchgraph.gir.schedule import FAR, IN_TURN, is_far
from benchgraph.gir.text import print_gir
from benchgraph.graph.build import GraphBuilder
from benchgraph.ops import spec
from tests.gir.test_weights import kernels, nests, scheduled

PLAIN = Target(ISAS["avx512_core"], l1_bytes=32 << 10, l2_bytes=1 << 20, cores=1)
MULTIPLIES = replace(PLAIN, isa=ISAS["avx512_core_bf16"])
K, N = 256, 1024
NEAR, FAR_AWAY = 1 << 20, 2 * K * N // FAR - 1  # of L2: weights of 16 bits fit in it, or come from memory


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
    """No op has the weights but the product."""
    given = {v for v in g.ins if g.value(v).type.elements == K * N}
    readers = [op for n in nests(g) for op in n.ops if given & {g.root(v) for v in op.ins}]
    return all(spec(op.kind).is_contraction for op in readers)


def test_a_gated_perceptron_of_one_row(golden) -> None:
    def gated(b: GraphBuilder) -> None:
        x = b.input((1, 256), DType.bf16)
        gate, up = (b.op("MatMul", x, b.input((256, 2048), DType.bf16)) for _ in range(2))
        b.op("MatMul", b.op("Multiply", b.op("GELU", gate), up), b.input((256, 2048), DType.bf16), transpose_b=True)

    golden(print_gir(scheduled(gated, replace(MULTIPLIES, l2_bytes=1 << 16))))


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
        (8, DType.bf16, False, replace(MULTIPLIES, l2_bytes=FAR_AWAY), True),
        (9, DType.bf16, False, replace(MULTIPLIES, l2_bytes=FAR_AWAY), False),
        (2, DType.bf16, True, MULTIPLIES, True),
        (3, DType.bf16, True, MULTIPLIES, False),
        (4, DType.bf16, True, replace(MULTIPLIES, l2_bytes=FAR_AWAY), True),
        (5, DType.bf16, True, replace(MULTIPLIES, l2_bytes=FAR_AWAY), False),
        (6, DType.f32, True, PLAIN, True),
        (7, DType.f32, True, PLAIN, False),
    ],
)
def test_up_to_how_many_rows(m: int, dtype: DType, transposed: bool, target: Target, wanted: bool) -> None:
    assert is_read_as_given(scheduled(layer(m, dtype, transposed=transposed), target)) == wanted


@pytest.mark.parametrize("options", [{"constant": True}, {"cast": True}], ids=str)
def test_weights_that_are_constant_or_computed_are_not(options: dict[str, bool]) -> None:
    assert not is_read_as_given(scheduled(layer(1, DType.f16, transposed=True, **options), PLAIN))


@pytest.mark.parametrize(
    ("m", "l2_bytes", "wanted"), [(1, 2 << 20, 0), (1, 1 << 19, IN_TURN[0]), (3, 1 << 19, 0), (8, FAR_AWAY, IN_TURN[0]), (9, FAR_AWAY, 0)]
)
def test_rows_of_weights_go_in_turn_where_l2_does_not_hold_them(m: int, l2_bytes: int, wanted: int) -> None:
    """And the result lies in rows, since a piece is wider than a block of columns would be."""
    g = scheduled(layer(m, DType.f32), replace(PLAIN, l2_bytes=l2_bytes))
    (op, *_), p = kernel(g).ops, kernel(g).parameters
    assert p is not None
    assert p.ks == wanted
    assert not wanted or (p.ns == N and not g.value(op.outs[0]).layout.blocks)


def test_what_a_product_in_turn_makes_or_reads_is_not_cut_into_blocks() -> None:
    def chain(b: GraphBuilder) -> None:
        x = b.op("ReLU", b.op("MatMul", b.input((2, 256)), b.constant((256, 1024))))
        x = b.op("ReLU", b.op("MatMul", x, b.input((1024, 1024))))
        b.op("MatMul", x, b.constant((1024, 256)))

    g = scheduled(chain, replace(PLAIN, l2_bytes=1 << 18))
    _, middle, _ = kernels(g)
    assert middle.parameters is not None
    assert middle.parameters.ks == IN_TURN[0]
    assert not any(g.value(v).layout.blocks for v in (middle.ops[0].ins[0], *middle.ops[0].outs))


def test_weights_are_far_that_are_many_times_what_l2_holds() -> None:
    assert not is_far(FAR * NEAR, PLAIN)
    assert is_far(FAR * NEAR + 1, PLAIN)
