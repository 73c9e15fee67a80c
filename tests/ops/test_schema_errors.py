"""Messages of check_op, spec and infer for illegal ops: the port or attribute, and the remedy."""

from __future__ import annotations

import pytest

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import BenchgraphError, InvalidDataType, InvalidGraphOp, InvalidShape, NoSuchOpKind, Status, Unimplemented
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import check_op, spec, with_defaults

f32, bf16, f16, s8, s32, u8, boolean = DType.f32, DType.bf16, DType.f16, DType.s8, DType.s32, DType.u8, DType.boolean


def refusal(kind: str, ins: tuple[DType, ...], outs: tuple[DType, ...], **attrs: object) -> BenchgraphError:
    with pytest.raises(BenchgraphError) as caught:
        check_op(kind, Attrs(attrs), tuple((dtype, None) for dtype in ins), outs)
    assert caught.value.where == "", "the caller knows where"
    return caught.value


def infer(kind: str, *shapes: Shape, **attrs: object) -> tuple[Shape, ...]:
    return spec(kind).semantics.infer(with_defaults(kind, Attrs(attrs)), tuple(TensorType(f32, s) for s in shapes))


def test_an_unknown_kind_gets_a_suggestion() -> None:
    with pytest.raises(NoSuchOpKind) as caught:
        spec("Relu")
    assert str(caught.value) == "unknown op kind 'Relu'; did you mean 'ReLU'?"
    assert caught.value.status is Status.invalid_graph_op


def test_an_unknown_kind_like_no_other_is_told_where_kinds_are_listed() -> None:
    with pytest.raises(NoSuchOpKind) as caught:
        spec("Xyzzy")
    assert str(caught.value) == "unknown op kind 'Xyzzy'; 'benchgraph ops' lists them"


def test_defaults_are_filled_and_given_values_kept() -> None:
    assert with_defaults("SoftMax", Attrs(axis=-1)) == Attrs(axis=-1, mode="none")
    assert with_defaults("ReduceSum", Attrs()) == Attrs(axes=(), keep_dims=False)
    complete = Attrs(alpha=0.5)
    assert with_defaults("Elu", complete) is complete


@pytest.mark.parametrize(
    ("kind", "ins", "outs", "attrs", "error", "message"),
    [
        ("ReLU", (f32, f32), (f32,), {}, InvalidGraphOp, "has 2 inputs; give it 1: src"),
        ("MatMul", (f32,), (f32,), {}, InvalidGraphOp, "has 1 input; give it 2 or 3: src, weights, bias"),
        ("SoftMax", (f32,), (f32, f32, f32), {}, InvalidGraphOp, "has 3 outputs; give it 1 or 2: dst, stats"),
        ("End", (f32,), (f32,), {}, InvalidGraphOp, "has 1 output; it takes 0"),
        ("ReLU", (s8,), (s8,), {}, InvalidDataType, "input src has dtype s8; use f32 or bf16 or f16"),
        ("GreaterEqual", (f32, f32), (f32,), {}, InvalidDataType, "output dst has dtype f32; use boolean"),
        (
            "MatMul",
            (f32, bf16),
            (f32,),
            {},
            InvalidDataType,
            "input weights has dtype bf16 where input src has f32; give both the same dtype, with a cast in front if need be",
        ),
        (
            "Tanh",
            (bf16,),
            (f32,),
            {},
            InvalidDataType,
            "output dst has dtype f32 where input src has bf16; give both the same dtype, with a cast in front if need be",
        ),
        ("SoftMax", (f32,), (f32,), {"axes": 1}, InvalidGraphOp, "unknown attribute 'axes'; did you mean 'axis'?"),
        ("SoftMax", (f32,), (f32,), {"zzz": 1}, InvalidGraphOp, "unknown attribute 'zzz'; its attributes are axis, mode"),
        ("Exp", (f32,), (f32,), {"alpha": 1.0}, InvalidGraphOp, "unknown attribute 'alpha'; it has no attributes"),
        (
            "Concat",
            (f32, f32, bf16),
            (f32,),
            {"axis": 0},
            Unimplemented,
            "input 2 has dtype bf16 where input 0 has f32; give all inputs one dtype, with casts in front if need be",
        ),
        (
            "Concat",
            (f32, f32),
            (f16,),
            {"axis": 0},
            InvalidDataType,
            "output dst has dtype f16 where input 0 has f32; give both the same dtype, with a cast in front if need be",
        ),
        ("Concat", (f32, s8), (f32,), {"axis": 0}, InvalidDataType, "input src_i has dtype s8; use f32 or bf16 or f16"),
        ("Concat", (), (f32,), {"axis": 0}, InvalidGraphOp, "has 0 inputs; give it 1 to 64"),
        ("Concat", (f32,) * 65, (f32,), {"axis": 0}, InvalidGraphOp, "has 65 inputs; give it 1 to 64"),
        ("GenIndex", (f32,), (s32,), {}, InvalidGraphOp, "attribute 'axis' is missing; give it a value of type s64"),
        ("GenIndex", (f32,), (f32,), {"axis": 0}, InvalidDataType, "output dst has dtype f32; use s32"),
        ("LeakyReLU", (f32,), (f32,), {}, InvalidGraphOp, "attribute 'alpha' is missing; give it a value of type f32"),
        ("LeakyReLU", (f32,), (f32,), {"alpha": "x"}, InvalidGraphOp, "attribute 'alpha' is 'x'; give it a value of type f32"),
        ("MatMul", (f32, f32), (f32,), {"transpose_a": 1}, InvalidGraphOp, "attribute 'transpose_a' is 1; give it a value of type bool"),
        ("SoftMax", (f32,), (f32,), {"axis": True}, InvalidGraphOp, "attribute 'axis' is True; give it a value of type s64"),
        ("StaticTranspose", (f32,), (f32,), {"order": 1}, InvalidGraphOp, "attribute 'order' is 1; give it a value of type s64[]"),
        (
            "StaticTranspose",
            (f32,),
            (f32,),
            {"order": (0.5,)},
            InvalidGraphOp,
            "attribute 'order' is (0.5,); give it a value of type s64[]",
        ),
        ("GELU", (f32,), (f32,), {"mode": "gelu_tan"}, InvalidGraphOp, "attribute 'mode' is 'gelu_tan'; did you mean 'gelu_tanh'?"),
        ("Add", (f32, f32), (f32,), {"auto_broadcast": "x"}, InvalidGraphOp, "attribute 'auto_broadcast' is 'x'; choose none or numpy"),
        ("TypeCast", (f32,), (f32,), {}, InvalidGraphOp, "src and dst are both f32; drop the op, or cast between f32 and bf16 or f16"),
        ("TypeCast", (bf16,), (f16,), {}, InvalidGraphOp, "there is no cast from bf16 to f16; cast to f32 in between"),
        ("MatMul", (bf16, bf16), (f16,), {}, InvalidGraphOp, "output dst has dtype f16 while input src has bf16; use bf16 or f32"),
        (
            "ReduceSum",
            (f32, s32),
            (f32,),
            {"axes": (0,)},
            InvalidGraphOp,
            "input axes cannot be used, since the attribute 'axes' always has a value; remove the input and set the attribute 'axes'",
        ),
        (
            "Quantize",
            (f32,),
            (u8,),
            {"scales": (1.0, 2.0)},
            InvalidGraphOp,
            "attribute 'scales' has 2 values for qtype per_tensor; give it exactly one",
        ),
        (
            "Dequantize",
            (u8,),
            (f32,),
            {"scales": (1.0,), "zps": (1, 2)},
            InvalidGraphOp,
            "attribute 'zps' has 2 values where 'scales' has 1; give both the same number",
        ),
        (
            "Quantize",
            (f32,),
            (u8,),
            {"scales": (1.0,), "qtype": "x"},
            InvalidGraphOp,
            "attribute 'qtype' is 'x'; choose per_tensor or per_channel",
        ),
        (
            "Dequantize",
            (DType.f8_e4m3,),
            (f32,),
            {"scales": (1.0,), "zps": (0,)},
            InvalidGraphOp,
            "attribute 'zps' is given for f8_e4m3, which has no zero points; remove it",
        ),
    ],
)
def test_a_wrong_op_is_refused(
    kind: str, ins: tuple[DType, ...], outs: tuple[DType, ...], attrs: dict[str, object], error: type[BenchgraphError], message: str
) -> None:
    refused = refusal(kind, ins, outs, **attrs)
    assert type(refused) is error
    assert str(refused) == message


def test_the_number_of_inputs_is_checked_before_their_dtypes() -> None:
    assert "inputs" in str(refusal("ReLU", (s8, s8), (f32,), alpha=1.0))


def test_dtypes_are_checked_before_attributes() -> None:
    assert "dtype" in str(refusal("LeakyReLU", (s8,), (f32,)))


def test_mixed_floats_are_fine_where_the_ports_are_independent() -> None:
    check_op("Add", Attrs(), ((bf16, None), (f32, (3,))), (f32,))
    check_op("MatMul", Attrs(), ((bf16, None), (bf16, None)), (f32,))
    check_op("Wildcard", Attrs(), ((s8, None), (boolean, None), (f32, (2,))), (u8, f32))


@pytest.mark.parametrize(
    ("kind", "shapes", "attrs", "message"),
    [
        (
            "MatMul",
            ((4, 8), (7, 8)),
            {},
            "inner dimensions differ: src (4, 8) has K=8, weights (7, 8) has K=7; check the shapes and transpose_a, transpose_b",
        ),
        ("MatMul", ((), (7,)), {}, "src has rank 0; MatMul takes vectors and matrices; use Multiply for a scalar"),
        (
            "MatMul",
            ((2, 4, 8), (3, 8, 5)),
            {},
            "the batch dims of src (2,) and of weights (3,) do not broadcast: dim -1 is 2 against 3; "
            "dims must be equal or 1, counted from the right",
        ),
        (
            "MatMul",
            ((4, 8), (8, 5), (4,)),
            {},
            "bias (4,) does not broadcast to dst (4, 5); each dim of bias, counted from the right, must be 1 or equal",
        ),
        (
            "Add",
            ((4, 8), (3, 8)),
            {},
            "src_0 (4, 8) and src_1 (3, 8) do not broadcast: dim -2 is 4 against 3; dims must be equal or 1, counted from the right",
        ),
        (
            "Add",
            ((4, 8), (8,)),
            {"auto_broadcast": "none"},
            "src_0 (4, 8) and src_1 (8,) differ while auto_broadcast is none; make the shapes equal or set auto_broadcast to numpy",
        ),
        (
            "Select",
            ((3, 5), (2, 3, 4, 5), (1,)),
            {},
            "cond (3, 5) does not broadcast to the sources' shape (2, 3, 4, 5); "
            "each dim of cond, counted from the right, must be 1 or equal",
        ),
        ("BiasAdd", ((4, 8), (4,)), {}, "bias (4,) does not fit src (4, 8), which has 8 channels; give bias the shape (8,)"),
        ("BiasAdd", ((4,), (4,)), {}, "src (4,) has rank 1; BiasAdd takes rank 2 or more: batch and channel"),
        ("ReduceSum", ((4, 8),), {}, "attribute 'axes' is empty; name at least one axis to reduce"),
        ("ReduceSum", ((4, 8),), {"axes": (2,)}, "axis 2 is out of range for src of rank 2; use -2 to 1"),
        ("ReduceSum", ((4, 8),), {"axes": (1, -1)}, "axes (1, -1) name an axis twice; name every axis once"),
        ("SoftMax", ((4,),), {}, "axis 1 is out of range for src of rank 1; use -1 to 0"),
        (
            "Concat",
            ((4, 8), (2, 4, 8)),
            {"axis": 0},
            "source 1 (2, 4, 8) has rank 3, source 0 (4, 8) has rank 2; "
            "give all sources one rank, with a StaticReshape in front if need be",
        ),
        (
            "Concat",
            ((4, 8), (3, 8), (3, 7)),
            {"axis": -2},
            "dim 1 of source 2 (3, 7) is 7, of source 0 (4, 8) it is 8; sources may differ along axis 0 only",
        ),
        ("Concat", ((4, 8), (4, 8)), {"axis": 2}, "axis 2 is out of range for src of rank 2; use -2 to 1"),
        ("GenIndex", ((4, 8),), {"axis": -3}, "axis -3 is out of range for src of rank 2; use -2 to 1"),
        ("GenIndex", ((),), {"axis": 0}, "axis 0 is out of range for src of rank 0; give src a rank"),
        (
            "StaticTranspose",
            ((4, 8),),
            {"order": (0, 0)},
            "order (0, 0) is not a permutation of src's 2 axes; name each axis from 0 to 1 once",
        ),
        (
            "StaticReshape",
            ((4, 8),),
            {"shape": (5, 7), "special_zero": False},
            "src (4, 8) has 32 elements, shape (5, 7) has room for 35; make the products of the dims equal, or let one dim be -1",
        ),
        (
            "StaticReshape",
            ((4, 8),),
            {"shape": (5, -1), "special_zero": False},
            "src (4, 8) has 32 elements, which no size for the -1 in shape (5, -1) makes room for; "
            "let the product of the other dims divide the number of elements",
        ),
        (
            "StaticReshape",
            ((4, 8),),
            {"shape": (-1, -1), "special_zero": False},
            "shape (-1, -1) is no target for (4, 8); dims are sizes, and one of them may be -1",
        ),
        (
            "StaticReshape",
            ((4,),),
            {"shape": (4, 0), "special_zero": True},
            "shape (4, 0) copies dim 1 of src (4,), which has none; give that dim a size",
        ),
        (
            "Quantize",
            ((4, 8),),
            {"qtype": "per_channel", "scales": (1.0, 2.0)},
            "there are 2 scales, but axis 1 of src (4, 8) has 8 channels; give one scale per channel",
        ),
        (
            "Quantize",
            ((4,),),
            {"qtype": "per_channel", "scales": (1.0,)},
            "axis 1 is out of range for src (4,); let axis name a dim of src",
        ),
    ],
)
def test_wrong_shapes_are_refused(kind: str, shapes: tuple[Shape, ...], attrs: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidShape) as caught:
        infer(kind, *shapes, **attrs)
    assert str(caught.value) == message
