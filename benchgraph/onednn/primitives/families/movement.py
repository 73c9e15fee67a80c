"""Reorders: copies, casts, quantisation, transposition; reshapes, which move nothing; Concat."""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.dtypes import DType
from benchgraph.graph.ir import Op
from benchgraph.onednn.primitives.capi import ATTR_SCALES, ATTR_ZERO_POINTS, DST, MULTIPLE_SRC, SRC
from benchgraph.onednn.primitives.messages import ATTR, ENGINE, Alias, Call, Factors, Int, Md, Mds, Primitive, ProgramStep
from benchgraph.onednn.primitives.step import NoPrimitive, Step, Target, is_dense, operand, permuted, view

REORDER = Call("dnnl_reorder_primitive_desc_create", (Md(SRC), ENGINE, Md(DST), ENGINE, ATTR))


def copies(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    """A copy, cast, quantisation or transposition, and the copies, casts and the quantisation behind it, as one reorder.

    Dequantize: dst = (src - zero point) * scale. Quantize: dst = round(src / scale) + zero point.
    """
    op, src = step.anchor, step.anchor.inputs[0]
    rank = len(src.known_shape)
    is_transposition = "order" in op.full_attrs
    v = permuted(src, tuple(axis % rank for axis in op.full_attrs.integers("order"))) if is_transposition else view(src)
    scales, zero_points = list[Factors](), list[Factors]()
    for scaled in (o for o in step.ops if "scales" in o.full_attrs):
        found = factors(scaled, SRC if scaled.inputs[0].dtype.bits <= 8 else DST)
        scales += found[0]
        zero_points += found[1]
    if any(f.mask for f in zero_points):
        raise NoPrimitive("the reorder primitive has one zero point for all channels")  # one per channel is accepted, and ignored
    attrs = replace(target.attributes, scales=tuple(scales), zero_points=tuple(zero_points))
    return (Primitive("reorder", REORDER, (operand(SRC, src, v),), (operand(DST, step.dst),), attrs),)


def factors(op: Op, arg: int, dim: int | None = None) -> tuple[tuple[Factors, ...], tuple[Factors, ...]]:
    """Scales and zero points of a Quantize or Dequantize as attributes of an argument. dim: where the primitive has the channels; the op's
    axis unless given. Zero points that are all 0 are left out."""
    attrs = op.full_attrs
    scales, zero_points = attrs.reals("scales"), attrs.reals("zps")
    mask = 0
    if attrs.string("qtype") == "per_channel":
        shape = op.inputs[0].known_shape
        axis = attrs.integer("axis") % len(shape)
        if len(scales) != shape[axis]:
            raise NoPrimitive("its scales are per group of the input channels")
        mask = 1 << (axis if dim is None else dim)
    if len(set(zero_points)) == 1:
        zero_points = zero_points[:1]
    found = (Factors(arg, 0 if len(zero_points) == 1 else mask, zero_points),) if any(zero_points) else ()
    return (Factors(arg, mask, scales),), found


def scaled_at_runtime(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    """DynamicQuantize, DynamicDequantize: scales and zero points are operands."""
    op = step.anchor
    src, scales, *zero_points = op.inputs
    attrs = op.full_attrs
    if attrs.string("qtype") == "per_group":
        raise NoPrimitive("the reorder primitive has no groups of scales")
    arg = DST if src.dtype.is_float and src.dtype.bits > 8 else SRC
    mask = 1 << attrs.integer("axis") % len(src.known_shape) if attrs.string("qtype") == "per_channel" else 0
    if zero_points and (mask or zero_points[0].dtype is not DType.s32):
        raise NoPrimitive("the reorder primitive has one zero point for all channels, s32")
    if scales.dtype is not DType.f32:
        raise NoPrimitive("the reorder primitive has f32 scales")
    given = (operand(ATTR_SCALES | arg, scales), *(operand(ATTR_ZERO_POINTS | arg, t) for t in zero_points))
    shifts = (Factors(arg, 0, ()),) if zero_points else ()
    attributes = replace(target.attributes, scales=(Factors(arg, mask, ()),), zero_points=shifts)
    return (Primitive("reorder", REORDER, (operand(SRC, src), *given), (operand(DST, op.outputs[0]),), attributes),)


def reshape(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    src, dst = step.anchor.inputs[0], step.anchor.outputs[0]
    if not (is_dense(src) and is_dense(dst)):
        raise NoPrimitive("src or dst is not dense")
    return (Alias(operand(SRC, src), operand(DST, dst)),)


def concat(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    op = step.anchor
    inputs = tuple(operand(MULTIPLE_SRC + n, t) for n, t in enumerate(op.inputs))
    axis = op.full_attrs.integer("axis") % len(op.outputs[0].known_shape)
    arguments = ENGINE, Md(DST), Int(len(inputs)), Int(axis), Mds(tuple(o.arg for o in inputs)), ATTR
    call = Call("dnnl_concat_primitive_desc_create", arguments)
    return (Primitive("concat", call, inputs, (operand(DST, op.outputs[0], is_free=True),), target.attributes),)
