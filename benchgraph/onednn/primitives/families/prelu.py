"""PReLU and its gradient."""

from __future__ import annotations

from benchgraph.core.tensor import LogicalTensor, Shape
from benchgraph.graph.ir import Op
from benchgraph.onednn.primitives.capi import DIFF_DST, DIFF_SRC, DIFF_WEIGHTS, DST, INFERENCE, SRC, TRAINING, WEIGHTS
from benchgraph.onednn.primitives.messages import ATTR, ENGINE, HINT, Argument, Call, Int, Md, Primitive, ProgramStep, View
from benchgraph.onednn.primitives.step import Step, Target, operand, permuted, view
from benchgraph.ops.elementwise.prelu import aligned
from benchgraph.ops.spatial import channel_axis


def _order(op: Op) -> Shape:
    """Batch, channel, spatial: the primitive's."""
    rank = len(op.inputs[0].known_shape)
    channel = channel_axis(op.full_attrs, rank)
    return (0, channel, *(axis for axis in range(1, rank) if axis != channel)) if rank > 1 else (0,)


def _slope(op: Op, slope: LogicalTensor) -> View:
    """A slope, or its gradient, as it broadcasts to src."""
    v, rank = view(slope), len(op.inputs[0].known_shape)
    shape = aligned(op.full_attrs, op.inputs[0].known_shape, slope.known_shape)
    after = len(shape) - len(slope.known_shape)
    before = rank - len(shape)
    if not before and not after:
        return permuted(slope, _order(op))
    dims, strides = (1,) * before + v.dims + (1,) * after, (1,) * before + v.strides + (1,) * after
    return View(tuple(dims[i] for i in _order(op)), tuple(strides[i] for i in _order(op)), v.dtype, None)


def _forward(prop: int, dst: int) -> Call:
    arguments: tuple[Argument, ...] = (ENGINE, Int(prop), Md(SRC), Md(WEIGHTS), Md(dst), ATTR)
    return Call("dnnl_prelu_forward_primitive_desc_create", arguments)


def forward(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    op = step.anchor
    src, slope = op.inputs
    inputs = operand(SRC, src, permuted(src, _order(op))), operand(WEIGHTS, slope, _slope(op, slope))
    dst = operand(DST, op.outputs[0], permuted(op.outputs[0], _order(op)), is_free=True)
    return (Primitive("prelu", _forward(INFERENCE, DST), inputs, (dst,), target.attributes),)


def backward(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    op, order = step.anchor, _order(step.anchor)
    src, slope, diff_dst = op.inputs
    arguments = ENGINE, Md(SRC), Md(WEIGHTS), Md(DIFF_SRC), Md(DIFF_WEIGHTS), Md(DIFF_DST), HINT, ATTR
    return (
        Primitive(
            "prelu",
            Call("dnnl_prelu_backward_primitive_desc_create", arguments),
            (
                operand(SRC, src, permuted(src, order)),
                operand(WEIGHTS, slope, _slope(op, slope)),
                operand(DIFF_DST, diff_dst, permuted(diff_dst, order)),
            ),
            (
                operand(DIFF_SRC, op.outputs[0], permuted(op.outputs[0], order)),
                operand(DIFF_WEIGHTS, op.outputs[1], _slope(op, op.outputs[1])),
            ),
            target.attributes,
            hint=_forward(TRAINING, DIFF_DST),
        ),
    )
