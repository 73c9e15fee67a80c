"""Interpolate and its gradient, with half-pixel coordinates as the primitive has them."""

from __future__ import annotations

from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Op
from benchgraph.onednn.primitives.capi import DIFF_DST, DIFF_SRC, DST, INFERENCE, SRC, TRAINING
from benchgraph.onednn.primitives.messages import ATTR, ENGINE, HINT, NOTHING, Argument, Call, Int, Md, Primitive, ProgramStep, View
from benchgraph.onednn.primitives.step import NoPrimitive, Step, Target, operand, permuted
from benchgraph.ops.spatial import channel_axis, spatial_axes

_NEAREST, _LINEAR = 0x2FFF0, 0x2FFF1


def _alg(op: Op) -> int:
    attrs = op.full_attrs
    if attrs.string("coordinate_transformation_mode") != "half_pixel":
        raise NoPrimitive("the resampling primitive has half-pixel coordinates alone")
    return _NEAREST if attrs.string("mode") == "nearest" else _LINEAR


def _data(op: Op, t: LogicalTensor) -> View:
    rank = len(t.known_shape)
    return permuted(t, (0, channel_axis(op.full_attrs, rank), *spatial_axes(op.full_attrs, rank)))


def _forward(prop: int, alg: int, src: int, dst: int) -> Call:
    arguments: tuple[Argument, ...] = (ENGINE, Int(prop), Int(alg), NOTHING, Md(src), Md(dst), ATTR)
    return Call("dnnl_resampling_forward_primitive_desc_create", arguments)


def forward(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    op = step.anchor
    src, dst = op.inputs[0], op.outputs[0]
    call = _forward(INFERENCE, _alg(op), SRC, DST)
    outputs = (operand(DST, dst, _data(op, dst), is_free=True),)
    return (Primitive("resampling", call, (operand(SRC, src, _data(op, src)),), outputs, target.attributes),)


def backward(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    op, alg = step.anchor, _alg(step.anchor)
    diff_dst, diff_src = op.inputs[1], op.outputs[0]
    arguments = ENGINE, Int(alg), NOTHING, Md(DIFF_SRC), Md(DIFF_DST), HINT, ATTR
    return (
        Primitive(
            "resampling",
            Call("dnnl_resampling_backward_primitive_desc_create", arguments),
            (operand(DIFF_DST, diff_dst, _data(op, diff_dst)),),
            (operand(DIFF_SRC, diff_src, _data(op, diff_src)),),
            target.attributes,
            hint=_forward(TRAINING, alg, DIFF_SRC, DIFF_DST),
        ),
    )
