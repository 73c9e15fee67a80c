"""Which ops share a nest, where several ops make the operands of one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape
from benchgraph.graph.build import GraphBuilder
from tests.support.graph_ir import nests, scheduled
from tests.support.reference_check import matches_reference

Build = Callable[[GraphBuilder], object]
ROWS, COLUMNS = 24, 160


def product(b: GraphBuilder) -> int:
    return b.op("MatMul", b.input((ROWS, 32)), b.input((32, COLUMNS)))


def residual(b: GraphBuilder) -> int:
    return b.op("Dequantize", b.input((ROWS, COLUMNS), DType.u8), qtype="per_tensor", scales=[0.5], zps=[3])


def before(b: GraphBuilder) -> None:
    other = residual(b)
    b.op("ReLU", b.op("Add", product(b), other))


def behind(b: GraphBuilder) -> None:
    acc = product(b)
    b.op("ReLU", b.op("Add", acc, residual(b)))


def with_softmax(b: GraphBuilder) -> None:
    other = residual(b)
    b.op("SoftMax", b.op("Add", product(b), other), axis=-1)


def two_chains(b: GraphBuilder) -> None:
    b.op("Add", b.op("Exp", b.input((ROWS, COLUMNS))), b.op("Abs", b.input((ROWS, COLUMNS))))


def three_chains(b: GraphBuilder) -> None:
    ins = [b.op(kind, b.input((ROWS, COLUMNS))) for kind in ("Exp", "Abs", "Tanh")]
    b.op("Multiply", b.op("Add", ins[0], ins[1]), ins[2])


@pytest.mark.parametrize("build", [before, behind, with_softmax])
def test_an_operand_added_to_a_product_is_computed_in_its_nest(build: Build) -> None:
    (nest,) = nests(scheduled(build))
    (stage,) = nest.stages
    assert stage.ops[0].kind == "MatMul"
    assert matches_reference(build)


@pytest.mark.parametrize("build", [two_chains, three_chains])
def test_chains_that_meet_are_one_nest(build: Build) -> None:
    assert len(nests(scheduled(build))) == 1
    assert matches_reference(build)


def test_a_row_that_all_rows_read_is_computed_once() -> None:
    def build(b: GraphBuilder) -> None:
        acc = product(b)
        b.op("Add", acc, b.op("Exp", b.input((1, COLUMNS))))

    assert sorted(n.ops[0].kind for n in nests(scheduled(build))) == ["Exp", "MatMul"]
    assert matches_reference(build)


def test_pointwise_ops_on_src_are_not_fused_after_a_reduction() -> None:
    """Rows would have to be stored; adjacent loops read them from cache."""

    def build(b: GraphBuilder) -> None:
        src = b.input((ROWS, COLUMNS))
        total = b.op("ReduceSum", src, axes=[1], keep_dims=True)
        b.op("Multiply", b.op("Exp", b.input((ROWS, COLUMNS))), total)

    assert [n.ops[0].kind for n in nests(scheduled(build))] == ["ReduceSum", "Exp"]
    assert matches_reference(build)


@pytest.mark.parametrize(("axis", "count"), [(1, 1), (0, 2)], ids=["the same axis", "another one"])
def test_nests_that_reduce_the_same_axes_are_one(axis: int, count: int) -> None:
    def build(b: GraphBuilder) -> None:
        first = b.op("Abs", b.input((ROWS, COLUMNS)))
        total = b.op("ReduceSum", first, axes=[1], keep_dims=True)
        second = b.op("Multiply", b.op("Exp", b.input((ROWS, COLUMNS))), first)
        other = b.op("ReduceSum", second, axes=[axis], keep_dims=True)
        b.op("Multiply", b.op("Add", second, other), b.op("Subtract", first, total))

    found = nests(scheduled(build))
    assert [n.ops[0].kind for n in found] == ["Abs", "Exp"][:count]
    assert matches_reference(build)


def test_the_gradient_of_src_of_a_layer_norm_is_one_nest() -> None:
    def build(b: GraphBuilder) -> None:
        src, dst, mean, variance, gamma, beta = (b.input(shape) for shape in (*[(ROWS, COLUMNS)] * 2, *[(ROWS,)] * 2, *[(COLUMNS,)] * 2))
        b.outs("LayerNormBackward", src, dst, mean, variance, gamma, beta, dtypes=(DType.f32,) * 3)

    found = [n for n in nests(scheduled(build)) if any(op.kind == "ReduceMean" for op in n.ops)]
    assert [op.kind for n in found for op in n.ops].count("ReduceMean") == 2
    assert len(found) == 1
    assert matches_reference(build)


def test_chains_that_depend_on_each_other_through_a_third_stay_apart() -> None:
    def build(b: GraphBuilder) -> None:
        first = b.op("Exp", b.input((ROWS, COLUMNS)))
        turned = b.op("StaticTranspose", b.op("MatMul", first, b.input((COLUMNS, ROWS))), order=[1, 0])
        b.op("Add", first, b.op("MatMul", turned, b.input((ROWS, COLUMNS))))

    assert matches_reference(build)


@pytest.mark.parametrize(
    ("shape", "slopes", "strides", "is_one"),
    [
        ((4, 128, 40), (4, 1, 40), None, True),
        ((4, 128, 5), (4, 1, 5), None, False),
        ((4, 128, 5), (1, 128, 1), (640, 1, 128), False),
    ],
    ids=["along long rows", "along short rows", "across what lies closest"],
)
def test_chains_join_a_reduction_that_iterates_along_memory(shape: Shape, slopes: Shape, strides: Shape | None, is_one: bool) -> None:
    def build(b: GraphBuilder) -> None:
        src, dst = (b.input(shape, strides=strides) for _ in range(2))
        b.outs("PReLUBackward", src, b.input(slopes), dst, dtypes=(DType.f32, DType.f32), data_format="NCX")

    folding = next(n for n in nests(scheduled(build)) if any(o.kind == "ReduceSum" for o in n.ops))
    assert any(o.kind == "GreaterEqual" for o in folding.ops) == is_one


def test_values_with_other_readers_count_as_results() -> None:
    """The comparison of channels that come last is row-major: stored with diff_src, every element would be on another cache line."""

    def build(b: GraphBuilder) -> None:
        src, slopes, dst = (b.input((4, 128, 5), strides=(640, 1, 128)) for _ in range(3))
        b.outs("PReLUBackward", src, slopes, dst, dtypes=(DType.f32, DType.f32), data_format="NCX")

    assert [n.ops[0].kind for n in nests(scheduled(build))][:1] == ["GreaterEqual"]
    assert len(nests(scheduled(build))) == 3


def test_chains_over_memory_of_other_strides_stay_apart() -> None:
    def build(b: GraphBuilder) -> None:
        b.op("Add", b.op("Exp", b.input((6, 40, 24))), b.op("Abs", b.input((6, 40, 24), strides=(960, 1, 40))))

    assert len(nests(scheduled(build))) == 2


def test_windows_end_where_another_chain_begins() -> None:
    """Their rows are cut into borders and interior; short vectors of three tensors take longer than long ones of all."""

    def build(b: GraphBuilder) -> None:
        other = b.op("Abs", b.input((2, 6, 6, 16)))
        attrs = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "kernel": [3, 3], "data_format": "NXC"}
        b.op("Add", other, b.op("MaxPool", b.input((2, 6, 6, 16)), **attrs))

    assert [n.ops[0].kind for n in nests(scheduled(build))] == ["Abs", "MaxPool"]
    assert matches_reference(build)
