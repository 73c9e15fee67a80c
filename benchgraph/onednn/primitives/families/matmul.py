"""MatMul. Rows of several batch entries that share their weights are rows of one product. u8 weights become s8 ones where they must: a
reorder subtracts 128 from them, and from their zero point."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor, Shape
from benchgraph.graph.ir import Op
from benchgraph.onednn.primitives.capi import BIAS, DST, SRC, WEIGHTS
from benchgraph.onednn.primitives.families import fused
from benchgraph.onednn.primitives.families.movement import REORDER
from benchgraph.onednn.primitives.messages import ATTR, ENGINE, NOTHING, Call, Factors, Md, Operand, Primitive, ProgramStep, View
from benchgraph.onednn.primitives.step import Step, Target, is_dense, operand, permuted, temporary, view, with_leading
from benchgraph.onednn.table import DTYPES

_TO_S8 = 128


def forward(step: Step, target: Target) -> tuple[ProgramStep, ...]:
    op = step.anchor
    src, weights = (step.stored(t) for t in op.inputs[:2])
    rows = _shared_rows(step, src, weights)
    if rows:
        columns = step.dst.known_shape[-1]
        src_view = View((rows, src.known_shape[-1]), (src.known_shape[-1], 1), view(src).dtype, None)
        weights_view, dst_view = _matrix(weights, op, "transpose_b", 2), View((rows, columns), (columns, 1), view(step.dst).dtype, None)
        shape: Shape = (rows, columns)
    else:
        rank = max(len(src.known_shape), len(weights.known_shape), 2)
        src_view, weights_view = _matrix(src, op, "transpose_a", rank), _matrix(weights, op, "transpose_b", rank, is_column=True)
        shape = _shape(src_view, weights_view)
        dst_view = view(step.dst) if step.dst.known_shape == shape else _with_dims(step.dst, shape)
    channel = len(weights.known_shape) - (2 if op.full_attrs.flag("transpose_b") else 1)
    is_shifted = weights.dtype is DType.u8 and not target.multiplies_u8
    attributes = fused.attributes(step, target, None, channel, (len(shape) - 1,), shape, weights_shift=_TO_S8 if is_shifted else 0)
    second = operand(WEIGHTS, weights, weights_view, is_free=weights.is_constant)
    shift: tuple[ProgramStep, ...] = ()
    if is_shifted:
        signed = replace(view(weights), dtype=DTYPES["s8"].code)
        shifted = replace(target.attributes, zero_points=(Factors(SRC, 0, (_TO_S8,)),))
        shift = (Primitive("reorder", REORDER, (operand(SRC, weights),), (Operand(DST, temporary(op, 0), signed),), shifted),)
        second = replace(second, value=temporary(op, 0), view=replace(weights_view, dtype=signed.dtype))
    inputs = (operand(SRC, src, src_view), second, *attributes.inputs)
    bias = Md(BIAS) if any(o.arg == BIAS for o in inputs) else NOTHING
    call = Call("dnnl_matmul_primitive_desc_create", (ENGINE, Md(SRC), Md(WEIGHTS), bias, Md(DST), ATTR))
    dst = operand(DST, step.dst, dst_view, is_free=not attributes.sums_another_dtype)
    return (*shift, Primitive("matmul", call, inputs, (dst,), attributes.attributes))


def _shared_rows(step: Step, src: LogicalTensor, weights: LogicalTensor) -> int:
    """The number of rows of all batch entries of src, if weights are one matrix and everything with rows is dense; else 0."""
    ranks = len(src.known_shape), len(weights.known_shape)
    if ranks[0] < 3 or ranks[1] != 2 or step.anchor.full_attrs.flag("transpose_a"):
        return 0
    dst = step.dst.known_shape
    operands = [step.stored(t) for op in step.post_ops for t in op.inputs[1:] + op.inputs[:1] if t.id not in step.running]
    fits = all((t.known_shape == dst and is_dense(t)) or prod(t.known_shape) == prod(t.known_shape[-1:]) for t in operands)
    return prod(dst[:-1]) if fits and is_dense(src) and is_dense(step.dst) else 0


def _matrix(t: LogicalTensor, op: Op, flag: str, rank: int, *, is_column: bool = False) -> View:
    """Matrices in `rank` dims: transposed if the flag says so, a vector as a row or column."""
    shape, v = t.known_shape, view(t)
    if len(shape) < 2:
        moved = View((*v.dims, 1), (*v.strides, 1), v.dtype, None) if is_column else v
    else:
        order = tuple(range(len(shape)))
        order = (*order[:-2], order[-1], order[-2]) if op.full_attrs.flag(flag) else order
        if len(shape) == rank:
            return permuted(t, order)
        moved = permuted(t, order)
    return with_leading(moved, rank)


def _shape(src: View, weights: View) -> Shape:
    batch = tuple(max(a, b) if min(a, b) else 0 for a, b in zip(src.dims[:-2], weights.dims[:-2], strict=True))
    return (*batch, src.dims[-2], weights.dims[-1])


def _with_dims(t: LogicalTensor, shape: Shape) -> View:
    """A result of fewer dims, where an operand was a vector, with dims of 1."""
    v = view(t)
    sizes = list(zip(v.dims, v.strides, strict=True)) if t.known_shape else []
    strides, reach = list[int](), 1
    for size in reversed(shape):
        strides.append(sizes.pop()[1] if sizes and sizes[-1][0] == size else reach)
        reach = size * strides[-1]
    return replace(v, dims=shape, strides=tuple(reversed(strides)), order=None)
