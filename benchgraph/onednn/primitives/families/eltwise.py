"""Functions of one number, and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from benchgraph.core.attrs import Attrs
from benchgraph.graph.ir import Op
from benchgraph.onednn.primitives.capi import DIFF_DST, DIFF_SRC, DST, INFERENCE, SRC, TRAINING
from benchgraph.onednn.primitives.messages import ATTR, ENGINE, HINT, Argument, Call, Eltwise, Int, Md, Primitive, ProgramStep, Real
from benchgraph.onednn.primitives.step import NoPrimitive, Step, Target, operand

_RELU, _TANH, _ELU, _SQUARE, _ABS, _SQRT, _LINEAR, _SOFT_RELU, _HARD_SIGMOID, _LOGISTIC, _EXP = range(0x20, 0x2B)
_GELU_TANH, SWISH, _LOG, _CLIP, _CLIP_V2, _POW, _GELU_ERF, _ROUND, _MISH, _HARD_SWISH = range(0x2B, 0x35)
_RELU_DST, _TANH_DST, _ELU_DST, _SQRT_DST, _LOGISTIC_DST, _EXP_DST, _CLIP_DST = range(0x100, 0x107)

Function: TypeAlias = Callable[[Attrs], Eltwise]


def _plain(alg: int, alpha: float = 0.0, beta: float = 0.0) -> Function:
    return lambda attrs: Eltwise(alg, alpha, beta)


def _of_alpha(alg: int) -> Function:
    return lambda attrs: Eltwise(alg, attrs.real("alpha"), 0.0)


def _gelu(attrs: Attrs) -> Eltwise:
    return Eltwise(_GELU_TANH if attrs.string("mode") == "gelu_tanh" else _GELU_ERF, 0.0, 0.0)


FORWARD: dict[str, Function] = {
    "Abs": _plain(_ABS),
    "Clamp": lambda attrs: Eltwise(_CLIP_V2, attrs.real("min"), attrs.real("max")),
    "Elu": _of_alpha(_ELU),
    "Exp": _plain(_EXP),
    "GELU": _gelu,
    "HardSigmoid": lambda attrs: Eltwise(_HARD_SIGMOID, attrs.real("alpha"), attrs.real("beta")),
    "HardSwish": _plain(_HARD_SWISH, 1 / 6, 0.5),
    "LeakyReLU": _of_alpha(_RELU),
    "Log": _plain(_LOG),
    "Mish": _plain(_MISH),
    "Pow": lambda attrs: Eltwise(_POW, 1.0, attrs.real("beta")),
    "Reciprocal": _plain(_POW, 1.0, -1.0),
    "ReLU": _plain(_RELU),
    "Round": _plain(_ROUND),
    "Sigmoid": _plain(_LOGISTIC),
    "SoftPlus": lambda attrs: Eltwise(_SOFT_RELU, attrs.real("beta"), 0.0),
    "Sqrt": _plain(_SQRT),
    "Square": _plain(_SQUARE),
    "Tanh": _plain(_TANH),
}

_OF_DST = {_RELU: _RELU_DST, _TANH: _TANH_DST, _ELU: _ELU_DST, _SQRT: _SQRT_DST, _LOGISTIC: _LOGISTIC_DST, _CLIP_V2: _CLIP_DST}


def function_of(op: Op) -> Eltwise:
    return FORWARD[op.kind](op.full_attrs)


def forward(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    op, f = step.anchor, function_of(step.anchor)
    call = Call("dnnl_eltwise_forward_primitive_desc_create", _forward_arguments(INFERENCE, f, SRC, DST))
    return (Primitive("eltwise", call, (operand(SRC, op.inputs[0]),), (operand(DST, op.outputs[0], is_free=True),), target.attributes),)


def _forward_arguments(prop: int, f: Eltwise, src: int, dst: int) -> tuple[Argument, ...]:
    return ENGINE, Int(prop), Int(f.alg), Md(src), Md(dst), Real(f.alpha), Real(f.beta), ATTR


def backward(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    """diff_src from diff_dst and src, or dst for use_dst."""
    op = step.anchor
    attrs = op.full_attrs
    f = FORWARD[op.kind.removesuffix("Backward")](attrs)
    of_dst = bool(attrs.get("use_dst", False))
    if of_dst and f.alg not in _OF_DST:
        raise NoPrimitive("its gradient is not computed from dst")
    f = Eltwise(_OF_DST[f.alg], f.alpha, f.beta) if of_dst else f
    data = DST if of_dst else SRC
    arguments = ENGINE, Int(f.alg), Md(DIFF_SRC), Md(DIFF_DST), Md(data), Real(f.alpha), Real(f.beta), HINT, ATTR
    return (
        Primitive(
            "eltwise",
            Call("dnnl_eltwise_backward_primitive_desc_create", arguments),
            (operand(data, op.inputs[0]), operand(DIFF_DST, op.inputs[1])),
            (operand(DIFF_SRC, op.outputs[0], is_free=True),),
            target.attributes,
            hint=Call("dnnl_eltwise_forward_primitive_desc_create", _forward_arguments(TRAINING, f, data, data)),
        ),
    )
