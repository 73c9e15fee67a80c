"""How many loop nests the norms become: one where each row can be finished before the next."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from benchgraph.compile import compile_partition
from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.gir.ir import FusedOp
from benchgraph.graph.build import GraphBuilder
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.reference.compare import compare, tolerance
from benchgraph.reference.evaluate import evaluate
from benchgraph.reference.fill import fill
from tests.support.graph_ir import scheduled

F32 = DType.f32


def nests(build: Callable[[GraphBuilder], object]) -> list[FusedOp]:
    """The nests that run at every execution, of a graph that is one partition."""
    g = scheduled(build)
    return [n for n in g.nodes if isinstance(n, FusedOp) and not all(g.value(v).is_constant for v in n.outs)]


def kinds(node: FusedOp) -> list[str]:
    return [op.kind for op in node.ops]


@pytest.mark.parametrize("dtype", [DType.f32, DType.bf16, DType.f16])
def test_layer_norm_over_the_last_axis_is_one_nest(dtype: DType) -> None:
    def build(b: GraphBuilder) -> None:
        b.op("LayerNorm", b.input((8, 33), dtype), b.input((33,)), b.input((33,)), keep_stats=False)

    assert len(nests(build)) == 1


def test_statistics_are_outputs_of_the_same_nest() -> None:
    def build(b: GraphBuilder) -> None:
        b.outs("LayerNorm", b.input((8, 33)), b.input((33,)), b.input((33,)), dtypes=(F32,) * 3)

    (nest,) = nests(build)
    assert len(nest.outs) == 3


@pytest.mark.parametrize(
    ("kind", "shapes", "attrs"),
    [
        ("LayerNorm", ((4, 3, 5, 7),), Attrs(begin_norm_axis=2, use_affine=False, keep_stats=False)),
        ("RMSNorm", ((8, 33), (33,)), Attrs()),
        ("GroupNorm", ((2, 6, 5, 3), (6,), (6,)), Attrs(groups=3, data_format="NCX", keep_stats=False)),
        ("GroupNorm", ((2, 5, 3, 6), (6,), (6,)), Attrs(groups=3, keep_stats=False)),
        ("LogSoftmax", ((8, 33),), Attrs()),
        ("SoftMaxBackward", ((8, 33), (8, 33)), Attrs()),
        ("ReduceL1", ((8, 33),), Attrs(axes=(1,))),
        ("ReduceL2", ((8, 33),), Attrs(axes=(0,))),
    ],
)
def test_one_nest(kind: str, shapes: tuple[tuple[int, ...], ...], attrs: Attrs) -> None:
    assert len(nests(lambda b: b.append(kind, tuple(b.input(s) for s in shapes), attrs))) == 1


def test_batch_statistics_and_running_ones_are_one_nest() -> None:
    def build(b: GraphBuilder) -> None:
        ins = (b.input((2, 3, 4, 5)), *(b.input((3,)) for _ in range(4)))
        b.outs("BatchNormForwardTraining", *ins, dtypes=(F32,) * 5, epsilon=0.1, momentum=0.5, data_format="NCX")

    assert len(nests(build)) == 1


def test_init_computes_the_channel_factors_of_a_constant_batch_norm() -> None:
    def build(b: GraphBuilder) -> None:
        b.op("BatchNormInference", b.input((2, 3, 4, 5)), *(b.constant((3,)) for _ in range(4)), epsilon=0.1, data_format="NCX")

    (nest,) = nests(build)
    assert kinds(nest) == ["Subtract", "Multiply", "Add"]


def test_layer_norm_after_a_product_shares_its_nest() -> None:
    def build(b: GraphBuilder) -> None:
        product = b.op("MatMul", b.input((64, 32)), b.constant((32, 48)))
        b.op("LayerNorm", b.op("Add", product, b.input((64, 48))), b.input((48,)), b.input((48,)), keep_stats=False)

    (nest,) = nests(build)
    assert kinds(nest)[0] == "MatMul"


def test_a_product_shares_the_rows_of_the_layer_norm_before_it() -> None:
    def build(b: GraphBuilder) -> None:
        rows = b.op("LayerNorm", b.input((64, 32)), b.input((32,)), b.input((32,)), keep_stats=False)
        b.op("MatMul", rows, b.constant((32, 48)))

    (nest,) = nests(build)
    assert kinds(nest)[-1] == "MatMul"


def residual_block(b: GraphBuilder) -> None:
    x = b.input((64, 32))
    product = b.op("Add", b.op("MatMul", x, b.constant((32, 32))), x)
    y, _, _ = b.outs("LayerNorm", product, b.input((32,)), b.input((32,)), dtypes=(F32,) * 3)
    b.op("MatMul", b.op("ReLU", y), b.constant((32, 48)), b.constant((48,)))


def pre_norm(b: GraphBuilder) -> None:
    b.op("GELU", b.op("MatMul", b.op("RMSNorm", b.input((67, 19)), b.input((19,))), b.constant((19, 37))))


def normalised_channels(b: GraphBuilder) -> None:
    y = b.op("MatMul", b.input((2, 9, 8)), b.constant((8, 6)))
    y = b.op("BatchNormInference", y, *(b.input((6,)) for _ in range(4)), epsilon=0.5)
    b.op("ReLU", b.op("GroupNorm", y, b.input((6,)), b.input((6,)), groups=2, keep_stats=False))


def attention_gradient(b: GraphBuilder) -> None:
    p = b.op("SoftMax", b.op("MatMul", b.input((2, 10, 8)), b.input((2, 8, 20))), axis=-1)
    d = b.op("MatMul", b.input((2, 10, 16)), b.input((2, 20, 16)), transpose_b=True)
    b.op("MatMul", b.op("SoftMaxBackward", d, p, axis=-1), b.input((2, 20, 8)))


def trained(b: GraphBuilder) -> None:
    y = b.op("MatMul", b.input((33, 8)), b.constant((8, 6)))
    y, *_ = b.outs("BatchNormForwardTraining", y, *(b.input((6,)) for _ in range(4)), dtypes=(F32,) * 5, epsilon=0.5, momentum=0.25)
    b.op("Tanh", y)


@pytest.mark.covering(1)
@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("build", [residual_block, pre_norm, normalised_channels, attention_gradient, trained])
def test_norms_among_products_compute_what_the_reference_says(build: Callable[[GraphBuilder], None], policy: Policy) -> None:
    b = GraphBuilder()
    build(b)
    graph = b.graph()
    tensors = fill(graph, seed=1)
    want = evaluate(graph, tensors)
    for p in partitions(graph, policy):
        outs = [np.full(t.known_shape, np.nan, t.dtype.numpy) for t in p.outputs]
        compile_partition(p).bind([tensors[t.id] for t in p.inputs], outs)()
        tensors |= {t.id: out for t, out in zip(p.outputs, outs, strict=True)}
    for t in graph.outputs:
        assert compare(tensors[t.id], want[t.id], t.dtype, tolerance(graph)).ok
