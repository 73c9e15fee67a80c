"""LogSoftmax: src - log(sum(exp(src))) along an axis (by default the last), shifted by the maximum so that nothing overflows.
LogSoftmaxBackward: diff_src = diff_dst - exp(dst) * sum(diff_dst), from LogSoftmax's result dst.

The thresholds are SoftMax's and SoftMaxBackward's plus the logarithm's or exp's few ulp.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.ops import fills, overflow
from benchgraph.ops.axis import axis_of_call, extent, infer_same
from benchgraph.ops.fill_rules import filling, rows
from benchgraph.ops.laws import Reals, real
from benchgraph.ops.overflow import Arithmetic
from benchgraph.ops.softmax import softmax_backward
from benchgraph.ops.softmax.softmax import samples
from benchgraph.ops.spec import Array, Attr, Call, Decomposer, Law, Lowering, OpSpec, Role, Schema, Semantics, Testing, ports
from benchgraph.ops.steps import reduced

AXIS = Attr("s64", default=-1)
FORWARD_FLOPS, BACKWARD_FLOPS = 4, 4  # per element: subtract, exp, add, subtract; exp, sum, multiply, subtract


def reference(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
    src = real(ins[0])
    axis = axis_of_call(call)
    with np.errstate(all="ignore"):
        shifted = src - src.max(axis=axis, keepdims=True, initial=-np.inf)
        return (shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True)),)


def decompose(d: Decomposer, call: Call, ins: tuple[int, ...]) -> tuple[int, ...]:
    """_RowMax, Subtract, Exp, ReduceSum, Log, Subtract."""
    axes = (axis_of_call(call),)
    shifted = d.op("Subtract", ins[0], reduced(d, "_RowMax", ins[0], axes), dtype=DType.f32)
    total = reduced(d, "ReduceSum", d.op("Exp", shifted), axes)
    return (d.op("Subtract", shifted, d.op("Log", total), dtype=call.outs[0].dtype),)


def _exps_sum_to_one(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    dst = real(outs[0])
    size = 1 + float(np.max(np.abs(dst), initial=0.0))
    sums = np.exp(dst).sum(axis=axis_of_call(call))
    return bool(np.all(dst <= rtol * size) and np.all(np.abs(sums - 1) <= 4 * rtol * size))


def _differs_as_src(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    gaps = np.ptp(real(ins[0]) - real(outs[0]), axis=axis_of_call(call))
    return bool(np.all(gaps <= 8 * rtol * (1 + np.max(np.abs(outs[0]), initial=0.0))))


def _backward(call: Call, ins: tuple[Array, ...], a: Arithmetic) -> tuple[Array, ...]:
    diff_dst, dst = real(ins[0]), real(ins[1])
    return (diff_dst - a.step(a.step(np.exp(dst)) * a.step(a.sum(diff_dst, axis_of_call(call), keepdims=True))),)


def _decompose_backward(d: Decomposer, call: Call, ins: tuple[int, ...]) -> tuple[int, ...]:
    """ReduceSum, Exp, Multiply, Subtract."""
    diff_dst, dst = ins
    total = reduced(d, "ReduceSum", diff_dst, (axis_of_call(call),))
    part = d.op("Multiply", d.op("Exp", dst, dtype=DType.f32), total)
    return (d.op("Subtract", diff_dst, part, dtype=call.outs[0].dtype),)


def _logarithms(call: Call, port: int, rng: np.random.Generator) -> Array:
    """Logarithms of probabilities, but for their rounding to dst's type. A row of one is 0 to the last bit: of another number the gradient,
    (1 - exp(dst)) * diff_dst, would be that rounding error and nothing else, which no code that computes in f32 can hit.
    """
    t = call.ins[port]
    axis = axis_of_call(call)
    src: Reals = fills.reals(-2, 2, t.shape, rng).astype(np.float64)
    src = src - src.max(axis=axis, keepdims=True, initial=-2)
    return fills.rounded(src - np.log(np.exp(src).sum(axis=axis, keepdims=True)), t.dtype)


def _sums_to_zero(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    """A constant added to src changes nothing: sums are 0, up to the error of sums of exp(dst) due to rounding."""
    diff_dst, dst, diff_src = real(ins[0]), real(ins[1]), real(outs[0])
    axis = axis_of_call(call)
    left = (1 - np.exp(dst).sum(axis=axis)) * diff_dst.sum(axis=axis)
    return bool(np.all(np.abs(diff_src.sum(axis=axis) - left) <= 16 * rtol * (1 + np.abs(diff_dst).sum(axis=axis))))


def _takes_probabilities(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    subtracted, weights = np.abs(real(ins[0]) - real(outs[0])), np.exp(real(ins[1]))
    slack = 64 * rtol * (1 + float(np.max(np.abs(outs[0]), initial=0.0)))
    axis = axis_of_call(call)
    want = weights * subtracted.sum(axis=axis, keepdims=True) / weights.sum(axis=axis, keepdims=True)
    return bool(np.all(np.abs(subtracted - want) <= slack * np.maximum(1, want.shape[axis] ** 0.5 * want)))


SPECS = (
    OpSpec(
        "LogSoftmax",
        Schema(inputs=ports("src"), outputs=ports("dst"), attrs={"axis": AXIS}),
        Semantics(
            infer=infer_same,
            reference=reference,
            flops=lambda call: FORWARD_FLOPS * call.ins[0].elements,
            threshold=lambda call: 16 + sqrt(extent(call)) / 4,
        ),
        Testing(
            fill=rows.softmax(axis_of_call),
            domain=fills.uniform(-4, 4),
            samples=samples(1),
            laws=(
                Law("never positive, and the exponentials sum to 1 along the axis", _exps_sum_to_one),
                Law("differs along the axis as src does", _differs_as_src),
            ),
            zero_limit=lambda call: rows.softmax_zeros(extent(call)),
        ),
        Lowering(Role.row, decompose=decompose),
    ),
    OpSpec(
        "LogSoftmaxBackward",
        Schema(inputs=ports("diff_dst", "dst"), outputs=ports("diff_src"), attrs={"axis": AXIS}),
        overflow.semantics(
            _backward,
            infer=softmax_backward.infer,
            flops=lambda call: BACKWARD_FLOPS * call.ins[0].elements,
            threshold=lambda call: 8 + softmax_backward.threshold(call),
        ),
        Testing(
            fill=filling.per_port(rows.ramp(-1), rows.ramp(1)),
            domain=fills.per_port(fills.PLAIN, _logarithms),
            samples=samples(2),
            laws=(
                Law("sums to 0 along the axis", _sums_to_zero),
                Law("takes from diff_dst in proportion to the probabilities", _takes_probabilities),
            ),
            gradient_of="LogSoftmax",
        ),
        Lowering(Role.row, decompose=_decompose_backward),
    ),
)
