"""Convolution, ConvTranspose (a deconvolution) and their gradients.

The primitive's dims are batch, channel, spatial for data; output channel, input channel, kernel for weights, with the groups before them.
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.tensor import LogicalTensor, Shape
from benchgraph.graph.ir import Op
from benchgraph.onednn.primitives.capi import BIAS, DIFF_DST, DIFF_SRC, DIFF_WEIGHTS, DST, INFERENCE, SRC, TRAINING, WEIGHTS
from benchgraph.onednn.primitives.families import fused
from benchgraph.onednn.primitives.messages import (
    ATTR,
    ENGINE,
    HINT,
    NOTHING,
    Argument,
    Call,
    DimList,
    Int,
    Md,
    Operand,
    Primitive,
    ProgramStep,
    View,
)
from benchgraph.onednn.primitives.step import Step, Target, operand, permuted, view
from benchgraph.ops.convolution.problem import has_kernel_last
from benchgraph.ops.spatial import Windows, channel_axis, spatial_axes, spatial_dims, windows

_DIRECT = {"convolution": 0x1, "deconvolution": 0xA}


def channel_first(op: Op, t: LogicalTensor) -> Shape:
    """The order of dims in which a primitive sees data: batch, channel, spatial."""
    rank = len(t.known_shape)
    return (0, channel_axis(op.full_attrs, rank), *spatial_axes(op.full_attrs, rank)) if rank > 1 else (0,)


def right_pads(w: Windows, src: Shape, dst: Shape) -> Shape:
    """The pads at the end with which windows over src give dst's size."""
    return tuple((out - 1) * w.strides[i] + w.reach[i] - size - w.pads_begin[i] for i, (size, out) in enumerate(zip(src, dst, strict=True)))


def _sort(op: Op) -> str:
    return "deconvolution" if op.kind.startswith("ConvTranspose") else "convolution"


def _weights(op: Op, t: LogicalTensor) -> View:
    """Weights in the primitive's dims. Those of a ConvTranspose lie as kernel, OC / groups, IC (ops/convolution/problem.py)."""
    groups, out_and_in = op.full_attrs.integer("groups"), _channels(op, t)
    kernel = tuple(axis for axis in range(len(t.known_shape)) if axis not in out_and_in)
    if groups == 1:
        return permuted(t, (*out_and_in, *kernel))
    v = view(t)
    split = out_and_in[_sort(op) == "deconvolution"]  # the axis with the channels of all groups
    inner = v.dims[split] // groups
    axes = (*out_and_in, *kernel)
    dims = (groups, *(inner if axis == split else v.dims[axis] for axis in axes))
    return View(dims, (inner * v.strides[split], *(v.strides[axis] for axis in axes)), v.dtype, None)


def _channels(op: Op, weights: LogicalTensor) -> tuple[int, int]:
    """The axes of the graph's weights with the output channels and the input channels."""
    rank = len(weights.known_shape)
    problem_out, problem_in = (0, 1) if has_kernel_last(op.full_attrs) else (rank - 1, rank - 2)
    return (problem_in, problem_out) if _sort(op) == "deconvolution" else (problem_out, problem_in)


def _window(op: Op, src: LogicalTensor, weights: LogicalTensor, dst: LogicalTensor) -> tuple[Argument, ...]:
    """strides, dilations, pads. src, dst: the smaller and the larger side of a deconvolution."""
    attrs, is_transposed = op.full_attrs, _sort(op) == "deconvolution"
    kernel = weights.known_shape[2:] if has_kernel_last(attrs) else weights.known_shape[:-2]
    inputs, outputs = (spatial_dims(attrs, t.known_shape) for t in (src, dst))
    w = windows(attrs, outputs if is_transposed else inputs, kernel, transposed=is_transposed)
    end = right_pads(w, outputs, inputs) if is_transposed else right_pads(w, inputs, outputs)
    return tuple(DimList(values) for values in (w.strides, tuple(d - 1 for d in w.dilations), w.pads_begin, end))


def _data(op: Op, arg: int, t: LogicalTensor) -> Operand:
    return operand(arg, t, permuted(t, channel_first(op, t)), is_free=True)


def forward(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    op, sort = step.anchor, _sort(step.anchor)
    src, weights = (step.stored(t) for t in op.inputs[:2])
    v = _weights(op, weights)
    order = channel_first(op, step.dst)
    attributes = fused.attributes(step, target, order, _channels(op, weights)[0], fused.channel_dims(op, v))
    inputs = [_data(op, SRC, src), operand(WEIGHTS, weights, v, is_free=True), *attributes.inputs]
    bias = Md(BIAS) if any(o.arg == BIAS for o in inputs) else NOTHING
    dst = replace(_data(op, DST, step.dst), is_free=not attributes.sums_another_dtype)
    arguments = (
        ENGINE,
        Int(INFERENCE),
        Int(_DIRECT[sort]),
        Md(SRC),
        Md(WEIGHTS),
        bias,
        Md(DST),
        *_window(op, op.inputs[0], op.inputs[1], op.outputs[0]),
        ATTR,
    )
    call = Call(f"dnnl_{sort}_forward_primitive_desc_create", arguments)
    return (Primitive(sort, call, tuple(inputs), (dst,), attributes.attributes, chooses_borders=True),)


def backward_data(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    op, sort = step.anchor, _sort(step.anchor)
    diff_dst, weights, diff_src = op.inputs[0], op.inputs[1], op.outputs[0]
    window = _window(op, diff_src, weights, diff_dst)
    arguments = ENGINE, Int(_DIRECT[sort]), Md(DIFF_SRC), Md(WEIGHTS), Md(DIFF_DST), *window, HINT, ATTR
    return (
        Primitive(
            sort,
            Call(f"dnnl_{sort}_backward_data_primitive_desc_create", arguments),
            (_data(op, DIFF_DST, diff_dst), operand(WEIGHTS, weights, _weights(op, weights), is_free=True)),
            (_data(op, DIFF_SRC, diff_src),),
            target.attributes,
            chooses_borders=True,
            hint=_hint(sort, DIFF_SRC, WEIGHTS, DIFF_DST, window),
        ),
    )


def _hint(sort: str, src: int, weights: int, dst: int, window: tuple[Argument, ...]) -> Call:
    data = Md(src, is_any=True), Md(weights, is_any=True), NOTHING, Md(dst, is_any=True)
    return Call(f"dnnl_{sort}_forward_primitive_desc_create", (ENGINE, Int(TRAINING), Int(_DIRECT[sort]), *data, *window, ATTR))


def backward_weights(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    op, sort = step.anchor, _sort(step.anchor)
    src, diff_dst, diff_weights = op.inputs[0], op.inputs[1], op.outputs[0]
    window = _window(op, src, diff_weights, diff_dst)
    arguments = ENGINE, Int(_DIRECT[sort]), Md(SRC), Md(DIFF_WEIGHTS), NOTHING, Md(DIFF_DST), *window, HINT, ATTR
    return (
        Primitive(
            sort,
            Call(f"dnnl_{sort}_backward_weights_primitive_desc_create", arguments),
            (_data(op, SRC, src), _data(op, DIFF_DST, diff_dst)),
            (operand(DIFF_WEIGHTS, diff_weights, _weights(op, diff_weights), is_free=True),),
            target.attributes,
            chooses_borders=True,
            hint=_hint(sort, SRC, DIFF_WEIGHTS, DIFF_DST, window),
        ),
    )
