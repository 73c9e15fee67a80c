"""The builder, and one-op graphs from samples."""

from __future__ import annotations

import pytest

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidDataType, InvalidGraphOp, InvalidShape, NoSuchOpKind
from benchgraph.core.tensor import PropertyType
from benchgraph.graph import GraphBuilder, dumps, infer_shapes, loads, sample_graph
from benchgraph.ops import OPS


def test_shapes_dtypes_and_ids_follow() -> None:
    b = GraphBuilder()
    x, w, bias = b.input((128, 13)), b.constant((13, 512)), b.constant((512,))
    y = b.op("ReLU", b.op("MatMul", x, w, bias, name="mm"), name="act")
    g = b.graph()
    assert (y.id, y.shape, y.strides, y.dtype) == (4, (128, 512), (512, 1), DType.f32)
    assert [(op.id, op.kind, op.name) for op in g.ops] == [(0, "MatMul", "mm"), (1, "ReLU", "act")]
    assert [t.property_type for t in g.inputs] == [PropertyType.variable, PropertyType.constant, PropertyType.constant]


def test_strides_and_properties_can_be_given() -> None:
    b = GraphBuilder()
    assert b.input((2, 3), strides=(1, 2)).strides == (1, 2)
    assert b.constant((2, 3), strides=(1, 2)).strides == (1, 2)
    assert b.input((), DType.s32, property_type=PropertyType.host_scalar).property_type is PropertyType.host_scalar


def test_lists_of_attributes_become_tuples() -> None:
    b = GraphBuilder()
    b.op("ReduceSum", b.input((2, 3)), axes=[1], keep_dims=True)
    assert b.graph().ops[0].attrs == Attrs(axes=(1,), keep_dims=True)


def test_the_dtype_of_an_output_follows_from_the_row() -> None:
    b = GraphBuilder()
    assert b.op("Dequantize", b.input((2, 3), DType.u8), scales=(1.0,)).dtype is DType.f32
    assert b.op("MatMul", b.input((2, 3), DType.bf16), b.input((3, 2), DType.bf16)).dtype is DType.bf16
    assert b.op("Select", b.input((2, 3), DType.boolean), b.input((2, 3)), b.input((2, 3))).dtype is DType.f32


def test_the_dtype_of_an_output_can_be_given() -> None:
    b = GraphBuilder()
    assert b.op("TypeCast", b.input((2, 3)), dtype=DType.bf16).dtype is DType.bf16


def test_a_dtype_that_does_not_follow_must_be_given() -> None:
    b = GraphBuilder()
    with pytest.raises(InvalidDataType) as bad:
        b.op("Quantize", b.input((2, 3)), scales=(1.0,))
    assert str(bad.value) == "op 0: Quantize: the dtype of output 0 does not follow from the inputs; give it: dtype=..."


def test_ops_with_several_outputs() -> None:
    b = GraphBuilder()
    dst, stats = b.outs("SoftMax", b.input((4, 8), DType.bf16), dtypes=(None, DType.f32), axis=1)
    assert (dst.shape, dst.dtype, stats.shape, stats.dtype) == ((4, 8), DType.bf16, (4, 1), DType.f32)


def test_end_marks_a_tensor() -> None:
    b = GraphBuilder()
    x = b.op("ReLU", b.input((2, 3)))
    y = b.op("ReLU", x)
    b.end(x)
    assert [t.id for t in b.graph().outputs] == [x.id, y.id]


def test_mistakes_name_the_op() -> None:
    b = GraphBuilder()
    x = b.op("ReLU", b.input((2, 3)))
    with pytest.raises(NoSuchOpKind, match=r"op 1: Relu: unknown op kind 'Relu'; did you mean 'ReLU'\?"):
        b.op("Relu", x)
    with pytest.raises(InvalidGraphOp, match=r"op 1: LeakyReLU: unknown attribute 'alfa'; did you mean 'alpha'\?"):
        b.op("LeakyReLU", x, alpha=0.1, alfa=0.1)
    with pytest.raises(InvalidShape, match=r"op 1: MatMul: "):
        b.op("MatMul", x, b.constant((7, 5)))
    assert b.op("ReLU", x).id == 3, "refused ops leave nothing behind but the constant"


def test_a_graph_needs_an_op() -> None:
    with pytest.raises(InvalidGraphOp, match="the graph has no op"):
        GraphBuilder().graph()


@pytest.mark.parametrize("kind", OPS)
def test_every_sample_makes_a_legal_graph_that_round_trips(kind: str) -> None:
    for sample in OPS[kind].testing.samples:
        g = sample_graph(OPS[kind], sample)
        assert [t.shape for t in g.ops[0].inputs] == list(sample.shapes)
        assert infer_shapes(g) is g
        assert loads(dumps(g)) == g
