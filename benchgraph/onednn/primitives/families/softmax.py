"""SoftMax, LogSoftmax and their gradients."""

from __future__ import annotations

from benchgraph.graph.ir import Op
from benchgraph.onednn.primitives.capi import DIFF_DST, DIFF_SRC, DST, INFERENCE, SRC, TRAINING
from benchgraph.onednn.primitives.messages import ATTR, ENGINE, HINT, Argument, Call, Int, Md, Primitive, ProgramStep
from benchgraph.onednn.primitives.step import NoPrimitive, Step, Target, operand

_ACCURATE, _LOG = 0x30000, 0x30001


def _alg(op: Op) -> int:
    mode = op.full_attrs.get("mode", "none")
    if mode != "none":
        raise NoPrimitive(f"the softmax primitive has no mode {mode}")
    return _LOG if op.kind.startswith("Log") else _ACCURATE


def _forward(prop: int, alg: int, axis: int, src: int, dst: int) -> Call:
    arguments: tuple[Argument, ...] = (ENGINE, Int(prop), Int(alg), Md(src), Md(dst), Int(axis), ATTR)
    return Call("dnnl_softmax_forward_primitive_desc_create", arguments)


def _axis(op: Op) -> int:
    return op.full_attrs.integer("axis") % max(len(op.outputs[0].known_shape), 1)


def forward(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    op = step.anchor
    if len(op.outputs) > 1:
        raise NoPrimitive("the softmax primitive does not return statistics")
    call = _forward(INFERENCE, _alg(op), _axis(op), SRC, DST)
    return (Primitive("softmax", call, (operand(SRC, op.inputs[0]),), (operand(DST, op.outputs[0], is_free=True),), target.attributes),)


def backward(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    op = step.anchor
    diff_dst, dst = op.inputs
    alg, axis = _alg(op), _axis(op)
    arguments = ENGINE, Int(alg), Md(DIFF_SRC), Md(DIFF_DST), Md(DST), Int(axis), HINT, ATTR
    return (
        Primitive(
            "softmax",
            Call("dnnl_softmax_backward_primitive_desc_create", arguments),
            (operand(DIFF_DST, diff_dst), operand(DST, dst)),
            (operand(DIFF_SRC, op.outputs[0], is_free=True),),
            target.attributes,
            hint=_forward(TRAINING, alg, axis, DST, DST),
        ),
    )
