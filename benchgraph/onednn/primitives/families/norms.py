"""Normalisations and their gradients. Statistics, scales and shifts are f32."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from benchgraph.core.tensor import LogicalTensor, Shape
from benchgraph.graph.ir import Op
from benchgraph.onednn.primitives.capi import (
    BACKWARD,
    BACKWARD_DATA,
    DIFF_DST,
    DIFF_SCALE,
    DIFF_SHIFT,
    DIFF_SRC,
    DST,
    INFERENCE,
    MEAN,
    MULTIPLE_SRC,
    RMS_NORM,
    SCALE,
    SHIFT,
    SRC,
    TRAINING,
    USE_GLOBAL_STATS,
    USE_SCALE,
    USE_SHIFT,
    VARIANCE,
)
from benchgraph.onednn.primitives.families.convolution import channel_first
from benchgraph.onednn.primitives.messages import (
    ATTR,
    ENGINE,
    HINT,
    NOTHING,
    Argument,
    Call,
    Dim,
    Int,
    Md,
    Mds,
    Operand,
    Primitive,
    ProgramStep,
    Real,
    RealList,
    View,
)
from benchgraph.onednn.primitives.step import NoPrimitive, Step, Target, made, operand, permuted, reshaped, temporary, view

_RMS_SINCE = (3, 11)
_MOMENTUM = 0.5  # of oneDNN's code where the attribute is absent


def _forward(sort: str, *arguments: Argument) -> Call:
    return Call(f"dnnl_{sort}_normalization_forward_primitive_desc_create", (ENGINE, *arguments, ATTR))


def _backward(sort: str, *arguments: Argument) -> Call:
    return Call(f"dnnl_{sort}_normalization_backward_primitive_desc_create", (ENGINE, *arguments, HINT, ATTR))


def _vectors(*given: tuple[int, LogicalTensor | None]) -> tuple[Operand, ...]:
    """Operands with a number per channel, or per element of a row, as vectors; those that are there."""
    return tuple(
        operand(arg, t, view(t) if len(t.known_shape) == 1 else reshaped(t, (t.type.elements,))) for arg, t in given if t is not None
    )


# ---- batch normalisation ---------------------------------------------------------------------------------------------


def batch_inference(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    op = step.anchor
    src, gamma, beta, mean, variance = op.inputs
    flags = USE_GLOBAL_STATS | USE_SCALE | USE_SHIFT
    call = _forward("batch", Int(INFERENCE), Md(SRC), Md(DST), Real(op.full_attrs.real("epsilon")), Int(flags))
    vectors = _vectors((SCALE, gamma), (SHIFT, beta), (MEAN, mean), (VARIANCE, variance))
    return (Primitive("batch normalization", call, (_data(op, SRC, src), *vectors), (_free(op, DST),), target.attributes),)


def _data(op: Op, arg: int, t: LogicalTensor) -> Operand:
    return operand(arg, t, permuted(t, channel_first(op, t)))


def _free(op: Op, arg: int) -> Operand:
    return replace(_data(op, arg, op.outputs[0]), is_free=True)


def batch_training(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    """The batch's statistics are the primitive's; the running ones are weighted sums."""
    op = step.anchor
    src, mean, variance, *affine = op.inputs
    dst_mean, dst_variance, batch_mean, batch_variance = op.outputs[1:]
    flags = (USE_SCALE if affine else 0) | (USE_SHIFT if affine[1:] else 0)
    call = _forward("batch", Int(TRAINING), Md(SRC), Md(DST), Real(op.full_attrs.real("epsilon")), Int(flags))
    vectors = _vectors(*zip((SCALE, SHIFT), affine, strict=False))
    statistics = _vectors((MEAN, batch_mean), (VARIANCE, batch_variance))
    norm = Primitive("batch normalization", call, (_data(op, SRC, src), *vectors), (_free(op, DST), *statistics), target.attributes)
    momentum = op.full_attrs.real("momentum") if op.full_attrs.get("momentum") is not None else _MOMENTUM
    return norm, _running(mean, batch_mean, dst_mean, momentum, target), _running(variance, batch_variance, dst_variance, momentum, target)


def _running(old: LogicalTensor, batch: LogicalTensor, new: LogicalTensor, momentum: float, target: Target) -> Primitive:
    args = MULTIPLE_SRC, MULTIPLE_SRC + 1
    arguments = ENGINE, Md(DST), Int(2), RealList((momentum, 1 - momentum)), Mds(args), ATTR
    call = Call("dnnl_sum_primitive_desc_create", arguments)
    return Primitive("sum", call, _vectors(*zip(args, (old, batch), strict=True)), _vectors((DST, new)), target.attributes)


def batch_backward(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    op = step.anchor
    src, diff_dst, mean, variance, *gamma = op.inputs
    epsilon, flags = Real(op.full_attrs.real("epsilon")), Int(USE_SCALE | USE_SHIFT if gamma else 0)
    inputs = _data(op, SRC, src), _data(op, DIFF_DST, diff_dst), *_vectors((MEAN, mean), (VARIANCE, variance), *((SCALE, g) for g in gamma))
    gradients = _gradients(op, gamma[0] if gamma else None)
    prop = BACKWARD if gamma else BACKWARD_DATA
    return (
        Primitive(
            "batch normalization",
            _backward("batch", Int(prop), Md(DIFF_SRC), Md(DIFF_DST), Md(SRC), epsilon, flags),
            inputs,
            (_data(op, DIFF_SRC, op.outputs[0]), *gradients),
            target.attributes,
            hint=_forward("batch", Int(TRAINING), Md(SRC), Md(SRC), epsilon, flags),
        ),
    )


def _gradients(op: Op, gamma: LogicalTensor | None) -> tuple[Operand, ...]:
    """Those of scale and shift: the op's outputs, or temporaries where the primitive writes what the op has not."""
    if gamma is None:
        if len(op.outputs) > 1:
            raise NoPrimitive("it has gradients of gamma and beta without gamma")
        return ()
    found = list(_vectors(*zip((DIFF_SCALE, DIFF_SHIFT), op.outputs[1:], strict=False)))
    for n in range(len(found), 2):
        found.append(made((DIFF_SCALE, DIFF_SHIFT)[n], temporary(op, n), (gamma.type.elements,), gamma.dtype))
    return tuple(found)


# ---- layer and group normalisation -----------------------------------------------------------------------------------


def _rows(op: Op) -> tuple[Shape | None, Shape]:
    """The shape to which data are reshaped so that their last dim is a row, None if they are; and that of the statistics."""
    shape = op.inputs[0].known_shape
    axis = op.full_attrs.integer("begin_norm_axis") % max(len(shape), 1)
    if not shape[:axis]:
        raise NoPrimitive("all of src is one row")
    return None if axis == len(shape) - 1 else (*shape[:axis], prod(shape[axis:])), shape[:axis]


def _check_rows(src: LogicalTensor, affine: list[LogicalTensor], outer: Shape) -> None:
    if any(t.type.elements * prod(outer) != src.type.elements for t in affine):
        raise NoPrimitive("gamma is shorter than a row")


def _row_data(op: Op, arg: int, t: LogicalTensor) -> Operand:
    shape, _ = _rows(op)
    return operand(arg, t, view(t) if shape is None else reshaped(t, shape))


def layer(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    op = step.anchor
    src, *affine = op.inputs
    _, outer = _rows(op)
    _check_rows(src, affine, outer)
    statistics = op.outputs[1:]
    stats = tuple(operand(arg, t, _statistic(t, outer)) for arg, t in zip((MEAN, VARIANCE), statistics, strict=False))
    prop, stat = (TRAINING, Md(MEAN)) if stats else (INFERENCE, NOTHING)
    flags = USE_SCALE | USE_SHIFT if affine else 0
    call = _forward("layer", Int(prop), Md(SRC), Md(DST), stat, Real(op.full_attrs.real("epsilon")), Int(flags))
    inputs = _row_data(op, SRC, src), *_vectors(*zip((SCALE, SHIFT), affine, strict=False))
    dst = replace(_row_data(op, DST, op.outputs[0]), is_free=True)
    return (Primitive("layer normalization", call, inputs, (dst, *stats), target.attributes),)


def _statistic(t: LogicalTensor, outer: Shape) -> View:
    return view(t) if t.known_shape == outer else reshaped(t, outer)


def rms(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    if target.version < _RMS_SINCE:
        raise NoPrimitive("layer normalisation by the root mean square needs oneDNN 3.11")
    op = step.anchor
    src, *gamma = op.inputs
    _check_rows(src, gamma, _rows(op)[1])
    flags = RMS_NORM | (USE_SCALE if gamma else 0)
    call = _forward("layer", Int(INFERENCE), Md(SRC), Md(DST), NOTHING, Real(op.full_attrs.real("epsilon")), Int(flags))
    inputs = _row_data(op, SRC, src), *_vectors(*((SCALE, g) for g in gamma))
    dst = replace(_row_data(op, DST, op.outputs[0]), is_free=True)
    return (Primitive("layer normalization", call, inputs, (dst,), target.attributes),)


def layer_backward(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    op = step.anchor
    src, diff_dst, mean, variance, *affine = op.inputs
    _, outer = _rows(op)
    epsilon, flags = Real(op.full_attrs.real("epsilon")), Int(USE_SCALE | USE_SHIFT if affine else 0)
    stats = tuple(operand(arg, t, _statistic(t, outer)) for arg, t in ((MEAN, mean), (VARIANCE, variance)))
    scale = _vectors(*zip((SCALE, SHIFT), (affine * 2)[:2], strict=False))  # a shift does not enter the gradients; gamma can stand for it
    prop = BACKWARD if affine else BACKWARD_DATA
    return (
        Primitive(
            "layer normalization",
            _backward("layer", Int(prop), Md(DIFF_SRC), Md(DIFF_DST), Md(SRC), Md(MEAN), epsilon, flags),
            (_row_data(op, SRC, src), _row_data(op, DIFF_DST, diff_dst), *stats, *scale),
            (_row_data(op, DIFF_SRC, op.outputs[0]), *_gradients(op, affine[0] if affine else None)),
            target.attributes,
            hint=_forward("layer", Int(TRAINING), Md(SRC), Md(SRC), Md(MEAN), epsilon, flags),
        ),
    )


def group(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    op = step.anchor
    src, *affine = op.inputs
    attrs, statistics = op.full_attrs, op.outputs[1:]
    groups = attrs.integer("groups")
    outer = (src.known_shape[0], groups)
    stats = tuple(operand(arg, t, _statistic(t, outer)) for arg, t in zip((MEAN, VARIANCE), statistics, strict=False))
    flags = USE_SCALE | USE_SHIFT if affine else 0
    prop = TRAINING if stats else INFERENCE
    call = _forward("group", Int(prop), Md(SRC), Md(DST), Dim(groups), Real(attrs.real("epsilon")), Int(flags))
    vectors = _vectors(*zip((SCALE, SHIFT), affine, strict=False))
    return (Primitive("group normalization", call, (_data(op, SRC, src), *vectors), (_free(op, DST), *stats), target.attributes),)
