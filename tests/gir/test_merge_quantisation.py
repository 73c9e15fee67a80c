"""merge-quantisation: one factor, one shift and one bound before casts to 8 bits, and only there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchgraph.compile import compile_partition
from benchgraph.core.dtypes import DType
from benchgraph.core.options import Options
from benchgraph.gir.ir import Graph, Op
from benchgraph.graph.build import GraphBuilder
from tests.gir.quantised import per_column, quantised
from tests.support.graph_ir import gir, up_to
from tests.support.partitions import partition_of
from tests.support.targets import EMULATED_DOTS

M, K, N = 64, 16, 32


def layer(b: GraphBuilder, x, *, zp: int, dtype: DType = DType.u8, bias: bool = True):
    """u8 by s8 of N columns, ReLU, back to 8 bits."""
    wei = per_column(b, b.constant((K, N), DType.s8), N)
    dst = b.op("ReLU", b.op("MatMul", quantised(b, x, 0.25, 5), wei, *([b.constant((N,))] if bias else [])))
    return b.op("Quantize", dst, dtype=dtype, scales=[256.0], zps=[zp], qtype="per_tensor")


def ways(g: Graph) -> list[list[str]]:
    """The kinds of the ops from each product to the next cast to 8 bits, or to the end."""
    found = []
    for op in (op for op in g.nodes if isinstance(op, Op) and op.kind == "MatMul"):
        kinds: list[str] = []
        readers = g.consumers.get(op.outs[0], ())
        while len(readers) == 1 and isinstance(readers[0], Op) and not (kinds and kinds[-1] == "TypeCast" and len(kinds) > 1):
            kinds.append(readers[0].kind)
            readers = g.consumers.get(readers[0].outs[0], ())
        found.append(kinds)
    return found


@pytest.mark.parametrize(
    ("zp", "dtype", "bound"), [(0, DType.u8, []), (3, DType.u8, ["Maximum"]), (0, DType.s8, ["Maximum"]), (-128, DType.s8, [])]
)
def test_a_redundant_lower_bound_is_left_out(zp: int, dtype: DType, bound: list[str]) -> None:
    g = up_to(gir(lambda b: layer(b, b.input((M, K), DType.u8), zp=zp, dtype=dtype)), "dead-op", EMULATED_DOTS)
    assert ways(g) == [["TypeCast", "Multiply", "Add", *bound, "TypeCast"]]


def test_chains_that_do_not_end_in_8_bits_stay() -> None:
    def build(b: GraphBuilder) -> None:
        x = b.op("Multiply", b.op("MatMul", b.input((M, K)), b.constant((K, N))), b.constant((N,)))
        b.op("Multiply", b.op("Add", x, b.constant((N,))), b.constant((N,)))

    assert ways(up_to(gir(build), "merge-quantisation", EMULATED_DOTS)) == [["Multiply", "Add", "Multiply"]]


def quantised_after(*steps) -> Graph:
    def build(b: GraphBuilder) -> None:
        x = b.op("MatMul", b.input((M, K)), b.constant((K, N)))
        for step in steps:
            x = step(b, x)
        b.op("Quantize", x, dtype=DType.u8, scales=[1.0], zps=[0], qtype="per_tensor")

    return up_to(gir(build), "merge-quantisation", EMULATED_DOTS)


def relu(b: GraphBuilder, x):
    return b.op("ReLU", x)


def per_channel(kind: str):
    return lambda b, x: b.op(kind, x, b.constant((N,)))


def varying(kind: str):
    return lambda b, x: b.op(kind, x, b.input((N,)))


def test_factors_of_unknown_sign_stay_after_a_bound() -> None:
    scale = per_channel("Multiply")
    assert ways(quantised_after(scale, relu, scale, scale)) == [["Multiply", "ReLU", "Multiply", "TypeCast"]]


def test_operands_that_vary_are_not_merged() -> None:
    scale, add = per_channel("Multiply"), per_channel("Add")
    found = ways(quantised_after(scale, add, varying("Add"), add, add))
    assert found == [["Multiply", "Add", "Add", *("Multiply", "Add"), "TypeCast"]]  # the last two are what quantising and both sums became


def test_a_value_with_other_readers_is_computed() -> None:
    def build(b: GraphBuilder) -> None:
        half = b.op("Add", b.op("Add", b.op("MatMul", b.input((M, K)), b.constant((K, N))), b.constant((N,))), b.constant((N,)))
        more = b.op("Add", b.op("Add", half, b.constant((N,))), b.constant((N,)))
        b.op("Quantize", more, dtype=DType.u8, scales=[1.0], zps=[0], qtype="per_tensor")
        b.op("Exp", half)

    kinds = [op.kind for op in up_to(gir(build), "merge-quantisation", EMULATED_DOTS).nodes if isinstance(op, Op)]
    assert kinds.count("Exp") == 1
    assert kinds.count("Add") == 4  # two of half, one that gathers two constants, one of what it gathered


@pytest.mark.covering(1)
@pytest.mark.parametrize("zp", [0, 3, 200])
@pytest.mark.parametrize("dtype", [DType.u8, DType.s8])
def test_results_equal_those_of_the_separate_steps(zp: int, dtype: DType) -> None:
    """All scales are powers of two and all numbers small, so that no sum is rounded: the results are bitwise equal."""
    if not dtype.range[0] <= zp <= dtype.range[1]:
        pytest.skip("no zero point of this dtype")
    b = GraphBuilder()
    layer(b, b.input((M, K), DType.u8), zp=zp, dtype=dtype)
    partition = partition_of(b.graph())
    noise = np.random.default_rng(0)
    ins = [noise.integers(*((0, 255) if t.dtype is DType.u8 else (-8, 8)), t.known_shape).astype(t.dtype.numpy) for t in partition.inputs]
    results = []
    for off in ((), ("merge-quantisation",)):
        (out,) = partition.outputs
        dst = np.zeros(out.known_shape, out.dtype.numpy)
        compile_partition(replace(partition, options=Options(off=off))).bind(ins, [dst])()
        results.append(dst)
    assert len(np.unique(results[0])) > 20
    np.testing.assert_array_equal(*results)
