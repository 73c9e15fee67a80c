"""SoftMax: exp(src) over its sum along an axis (by default axis 1), shifted by the maximum so that nothing overflows.

The optional second output, stats, is max + log(sum of exp(src - max)), f32, with the axis as 1. A row of -inf only gives NaN
(stats too) in mode none; in mode inf_as_zero it gives zeros, and stats 0, as in oneDNN: exp(src - stats), with which the gradient
begins, is then 0 for it too, where stats of -inf would make it NaN. A row with NaN or +inf is NaN in either mode.

The threshold: exp's few ulp, its argument's rounding (eps/2 times |src - max|, about 8 in the test data), the sum's walk of
sqrt(n) / 4 (positive numbers do not cancel), a division: 16 + sqrt(n) / 4.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import fills
from benchgraph.ops.axis import axis_of, axis_of_call, extent, kept
from benchgraph.ops.fill_rules import rows
from benchgraph.ops.laws import Reals, near, real
from benchgraph.ops.spec import Attr, Computes, Decomposer, Law, Lowering, OpSpec, Role, Sample, Schema, Semantics, Testing, ports
from benchgraph.ops.spec.call import Array, Call, F
from benchgraph.ops.steps import as_dtype

FLT_MAX, FLT_MIN = DType.f32.range[1], DType.f32.least_normal  # the largest and the least normal f32
AXIS = Attr("s64", default=1)
FLOPS = 4  # per element: subtract, exp, add, divide (the division counts as one)


def infer(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    src = ins[0].shape
    return src, kept(src, (axis_of(attrs, len(src)),))


def _inf_as_zero(attrs: Attrs) -> bool:
    return attrs.get("mode") == "inf_as_zero"


def reference(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
    src = real(ins[0])
    axis = axis_of_call(call)
    top: Reals = src.max(axis=axis, keepdims=True, initial=-np.inf)
    with np.errstate(all="ignore"):
        shifted = np.exp(src - np.where(np.isneginf(top), 0.0, top) if _inf_as_zero(call.attrs) else src - top)
        total = shifted.sum(axis=axis, keepdims=True)
        dst = shifted / total
        stats = top + np.log(total)
    if _inf_as_zero(call.attrs):
        dst, stats = np.where(total == 0, 0.0, dst), np.where(total == 0, 0.0, stats)
    return (dst, stats)[: len(call.outs)]


def decompose(d: Decomposer, call: Call, ins: tuple[int, ...]) -> tuple[int, ...]:
    """_RowMax, Subtract, Exp, ReduceSum, Divide in f32; the lower bounds of inf_as_zero avoid -inf - -inf and 0 / 0.

    The sum is NaN where anything in the row is NaN or +inf. The floor under it is the first operand, so that it stays NaN.
    """
    guards = _inf_as_zero(call.attrs)
    along = Attrs(axes=(axis_of_call(call),), keep_dims=True)
    src = as_dtype(d, ins[0], DType.f32)
    top = d.op("_RowMax", src, attrs=along)
    if guards:
        top = d.op("Maximum", top, d.const(-FLT_MAX))
    shifted = d.op("Exp", d.op("Subtract", src, top))
    total = d.op("ReduceSum", shifted, attrs=along)
    divisor = d.op("Maximum", d.const(FLT_MIN), total) if guards else total
    dst = as_dtype(d, d.op("Divide", shifted, divisor), call.outs[0].dtype)
    if len(call.outs) == 1:
        return (dst,)
    stats = d.op("Add", top, d.op("Log", divisor))
    if guards:
        is_empty = d.op("GreaterEqual", d.const(0.0), total, dtype=DType.boolean)
        stats = d.op("Select", is_empty, d.const(0.0), stats, dtype=DType.f32)
    return dst, stats


def _sums_to_one(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    dst = real(outs[0])
    sums = dst.sum(axis=axis_of_call(call))
    return bool(np.all(dst >= 0)) and near(sums, np.ones(sums.shape), 4 * rtol + call.outs[0].dtype.eps)


def _logs_differ_as_inputs(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    """log(dst) is src less one number per row, which is stats."""
    axis = axis_of_call(call)
    gap = real(ins[0]) - np.log(real(outs[0]))
    slack = 16 * (rtol + call.outs[0].dtype.eps)
    shift = real(outs[1]) if len(outs) > 1 else gap.max(axis=axis, keepdims=True)
    return bool(np.all(np.abs(gap - shift) <= slack * np.maximum(1, np.abs(gap))))


_SHAPES: tuple[tuple[Shape, dict[str, int], str], ...] = (
    ((4, 17), {}, "rows, by the default axis"),
    ((3, 16), {"axis": -1}, "no tail"),
    ((2, 33, 5), {"axis": 1}, "a strided axis"),
    ((7, 3), {"axis": 0}, "the outermost axis"),
    ((2, 3, 4, 15), {"axis": 3}, "attention scores"),
    ((2, 3, 4, 15), {"axis": -2}, "the last axis but one"),
    ((5, 1), {}, "a row of one"),
    ((2, 1000), {}, "a long row"),
)


def samples(inputs: int) -> tuple[Sample, ...]:
    """Samples of softmax, its logarithm and their gradients: `inputs` tensors of one shape."""
    return (
        *(Sample((shape,) * inputs, Attrs(attrs), why=why) for shape, attrs, why in _SHAPES),
        Sample(((4, 33),) * inputs, Attrs(axis=-1), (DType.bf16,) * inputs, (DType.bf16,), "bf16"),
        Sample(((2, 15),) * inputs, Attrs(axis=-1), (DType.f16,) * inputs, (DType.f16,), "f16"),
    )


SPECS = (
    OpSpec(
        "SoftMax",
        Schema(
            inputs=ports("src:T1"),
            outputs=ports("dst:T2", "stats:T3"),
            num_outputs=(1, 2),
            types={"T1": F, "T2": F, "T3": (DType.f32,)},
            attrs={"axis": AXIS, "mode": Attr("string", default="none", choices=("none", "inf_as_zero"))},
        ),
        Semantics(
            infer=infer,
            reference=reference,
            flops=lambda call: FLOPS * call.ins[0].elements,
            threshold=lambda call: 16 + sqrt(extent(call)) / 4,
            computes=Computes.softmax,
        ),
        Testing(
            fill=rows.softmax(axis_of_call),
            domain=fills.uniform(-4, 4),
            samples=(
                *samples(1),
                Sample(((2, 3, 19),), Attrs(axis=-1), out_dtypes=(DType.f32, DType.f32), why="with stats"),
                Sample(((3, 11),), Attrs(mode="inf_as_zero"), out_dtypes=(DType.f32, DType.f32), why="the mode that survives masked rows"),
                Sample(((4, 16),), Attrs(axis=-1), (DType.bf16,), (DType.f32,), why="bf16 into f32"),
                Sample(((2, 15),), Attrs(axis=-1, mode="inf_as_zero"), (DType.f16,), (DType.f16, DType.f32), why="f16 with f32 stats"),
            ),
            laws=(
                Law("never negative, and the sums along the axis are 1", _sums_to_one),
                Law("log(dst) and src differ by one number per row, the stats", _logs_differ_as_inputs),
            ),
            zero_limit=lambda call: rows.softmax_zeros(extent(call)),
        ),
        Lowering(Role.row, decompose=decompose),
    ),
)
