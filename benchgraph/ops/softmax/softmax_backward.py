"""SoftMaxBackward: diff_src = dst * (diff_dst - sum(diff_dst * dst)) along an axis, from SoftMax's result dst.

The threshold: a sum of terms of both signs, a walk of sqrt(n) / 4, and a few roundings: 8 + sqrt(n) / 4.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops import fills, overflow
from benchgraph.ops.axis import axis_of_call, extent, infer_same
from benchgraph.ops.fill_rules import filling, rows
from benchgraph.ops.laws import Reals, near, real
from benchgraph.ops.norms import normalise
from benchgraph.ops.overflow import Arithmetic
from benchgraph.ops.softmax.softmax import AXIS, samples
from benchgraph.ops.spec import Array, Call, Decomposer, F, Law, Lowering, OpSpec, Role, Sample, Schema, Testing, ports
from benchgraph.ops.steps import in_steps, reduced

FLOPS = 4  # per element: multiply, sum, subtract, multiply


def infer(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    """Shared with LogSoftmaxBackward, whose ports are the same."""
    shapes = infer_same(attrs, ins)
    normalise.expect_shape("dst", ins[1], ins[0].shape, "unlike diff_dst")
    return shapes


def threshold(call: Call) -> float:
    return 8 + sqrt(extent(call)) / 4


def _formula(call: Call, ins: tuple[Array, ...], a: Arithmetic) -> tuple[Array, ...]:
    diff_dst, dst = real(ins[0]), real(ins[1])
    return (dst * a.step(diff_dst - a.step(a.sum(diff_dst * dst, axis_of_call(call), keepdims=True))),)


def decompose(d: Decomposer, call: Call, ins: tuple[int, ...]) -> tuple[int, ...]:
    """Multiply, ReduceSum, Subtract, Multiply."""
    diff_dst, dst = ins
    axis = axis_of_call(call)
    total = reduced(d, "ReduceSum", d.op("Multiply", diff_dst, dst, dtype=DType.f32), (axis,))
    return (in_steps(d, diff_dst, (("Subtract", total), ("Multiply", dst)), call.outs[0].dtype),)


def _probabilities(call: Call, port: int, rng: np.random.Generator) -> Array:
    """Probabilities: positive numbers with sums of 1 along the axis, up to rounding to dst's type."""
    t = call.ins[port]
    weights: Reals = np.exp(fills.reals(-2, 2, t.shape, rng).astype(np.float64))
    return fills.rounded(weights / weights.sum(axis=axis_of_call(call), keepdims=True), t.dtype)


def _sums_to_zero(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    """A constant added to src changes nothing: sums are 0, up to the error of dst's sums due to its rounding."""
    axis = axis_of_call(call)
    sums, size = real(outs[0]).sum(axis=axis), 1e-30 + np.abs(real(outs[0])).sum(axis=axis)
    lacking = np.abs(1 - real(ins[1]).sum(axis=axis)) * np.abs(real(ins[0])).max(axis=axis, initial=0.0)
    return bool(np.all(np.abs(sums) <= 16 * rtol * (size + 1) + lacking))


def _gaps_are_diff_dsts(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    axis = axis_of_call(call)
    gap = real(outs[0]) / real(ins[1]) - real(ins[0])
    scale = float(np.max(1 / real(ins[1]), initial=1.0)) * float(np.max(np.abs(real(outs[0])), initial=0.0))
    return bool(np.all(np.ptp(gap, axis=axis) <= 16 * rtol * (1 + scale)))


def _is_orthogonal(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    """A constant diff_dst gives 0: dst's covariance matrix is symmetric, so both sums agree."""
    axis = axis_of_call(call)
    diff_dst, dst = real(ins[0]), real(ins[1])
    mean = (diff_dst * dst).sum(axis=axis, keepdims=True) / dst.sum(axis=axis, keepdims=True)
    variance = (dst * (diff_dst - mean) ** 2).sum(axis=axis)
    lacking = np.abs(1 - dst.sum(axis=axis)) * (diff_dst**2).max(axis=axis, initial=0.0)
    got = (real(outs[0]) * diff_dst).sum(axis=axis)
    slack = 16 * rtol * (1 + np.abs(real(outs[0])).sum(axis=axis)) + 4 * lacking
    return bool(np.all(np.abs(got - variance) <= slack)) or near(got, variance, rtol)


SPECS = (
    OpSpec(
        "SoftMaxBackward",
        Schema(inputs=ports("diff_dst:T1", "dst:T1"), outputs=ports("diff_src:T2"), types={"T1": F, "T2": F}, attrs={"axis": AXIS}),
        overflow.semantics(_formula, infer=infer, flops=lambda call: FLOPS * call.ins[0].elements, threshold=threshold),
        Testing(
            fill=filling.per_port(rows.ramp(1), rows.ramp(-1)),
            domain=fills.per_port(fills.PLAIN, _probabilities),
            samples=(*samples(2), Sample(((4, 16),) * 2, Attrs(axis=-1), (DType.bf16,) * 2, (DType.f32,), "bf16 into f32")),
            laws=(
                Law("sums to 0 along the axis", _sums_to_zero),
                Law("over dst, it differs along the axis as diff_dst does", _gaps_are_diff_dsts),
                Law("its product with diff_dst is diff_dst's variance under dst", _is_orthogonal),
            ),
            gradient_of="SoftMax",
        ),
        Lowering(Role.row, decompose=decompose),
    ),
)
