"""AvgPool, MaxPool and their gradients."""

from __future__ import annotations

from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Op
from benchgraph.onednn.primitives.capi import DIFF_DST, DIFF_SRC, DST, INFERENCE, SRC, TRAINING
from benchgraph.onednn.primitives.families.convolution import channel_first, right_pads
from benchgraph.onednn.primitives.messages import ATTR, ENGINE, HINT, Argument, Call, DimList, Int, Md, Operand, Primitive, ProgramStep
from benchgraph.onednn.primitives.step import Step, Target, operand, permuted, temporary
from benchgraph.ops.spatial import spatial_dims, windows

_MAX, _AVG_WITH_PADDING, _AVG = 0x1FF, 0x2FF, 0x3FF


def _alg(op: Op) -> int:
    exclude = op.full_attrs.get("exclude_pad")
    return _MAX if exclude is None else _AVG if exclude else _AVG_WITH_PADDING


def _window(op: Op, src: LogicalTensor, dst: LogicalTensor) -> tuple[Argument, ...]:
    """strides, kernel, dilations, pads. The pads at the end are those that make dst's size, as rounding_type ceil needs."""
    attrs = op.full_attrs
    w = windows(attrs, spatial_dims(attrs, src.known_shape), attrs.integers("kernel"))
    end = right_pads(w, spatial_dims(attrs, src.known_shape), spatial_dims(attrs, dst.known_shape))
    return tuple(DimList(values) for values in (w.strides, w.kernel, tuple(d - 1 for d in w.dilations), w.pads_begin, end))


def _forward(prop: int, alg: int, src: int, dst: int, window: tuple[Argument, ...]) -> Call:
    return Call("dnnl_pooling_forward_primitive_desc_create", (ENGINE, Int(prop), Int(alg), Md(src), Md(dst), *window, ATTR))


def forward(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    op = step.anchor
    src, dst = op.inputs[0], op.outputs[0]
    call = _forward(INFERENCE, _alg(op), SRC, DST, _window(op, src, dst))
    inputs = (operand(SRC, src, permuted(src, channel_first(op, src))),)
    outputs = (operand(DST, dst, permuted(dst, channel_first(op, dst)), is_free=True),)
    return (Primitive("pooling", call, inputs, outputs, target.attributes),)


def backward(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    """The gradient of a maximum needs to know where it was: the forward primitive is executed before, for its workspace."""
    op = step.anchor
    alg, diff_src = _alg(op), op.outputs[0]
    diff_dst = op.inputs[1] if alg == _MAX else op.inputs[0]
    window = _window(op, diff_src, diff_dst)
    order = channel_first(op, diff_src)
    workspace = temporary(op, 0)
    items = list[ProgramStep]()
    if alg == _MAX:
        src = operand(SRC, op.inputs[0], permuted(op.inputs[0], order))
        dst = Operand(DST, temporary(op, 1), permuted(diff_dst, order))
        call = _forward(TRAINING, alg, SRC, DST, window)
        items.append(Primitive("pooling", call, (src,), (dst,), target.attributes, workspace=workspace, makes_workspace=True))
    arguments = ENGINE, Int(alg), Md(DIFF_SRC), Md(DIFF_DST), *window, HINT, ATTR
    items.append(
        Primitive(
            "pooling",
            Call("dnnl_pooling_backward_primitive_desc_create", arguments),
            (operand(DIFF_DST, diff_dst, permuted(diff_dst, order)),),
            (operand(DIFF_SRC, diff_src, permuted(diff_src, order)),),
            target.attributes,
            hint=_forward(TRAINING, alg, DIFF_SRC, DIFF_DST, window),
            workspace=workspace if alg == _MAX else 0,
        )
    )
    return tuple(items)
