"""ReduceL1: the sum of |src| along axes. ReduceL2: the root of the sum of squares. Attributes, shapes and samples are the reductions'.

The threshold is that of a sum, sqrt(n) + 4; the root halves what the sum of squares is off by.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.ops.laws import Reals, near, real
from benchgraph.ops.reduce import folded, reduced_axes, reduction_row
from benchgraph.ops.spec import Array, Call, Decomposer, Law


def _decompose_l1(d: Decomposer, call: Call, ins: tuple[int, ...]) -> tuple[int, ...]:
    """Abs, ReduceSum."""
    return (d.op("ReduceSum", d.op("Abs", ins[0], dtype=DType.f32), attrs=call.attrs, dtype=call.outs[0].dtype),)


def _decompose_l2(d: Decomposer, call: Call, ins: tuple[int, ...]) -> tuple[int, ...]:
    """Square, ReduceSum, Sqrt."""
    power = d.op("ReduceSum", d.op("Square", ins[0], dtype=DType.f32), attrs=call.attrs)
    return (d.op("Sqrt", power, dtype=call.outs[0].dtype),)


def _kept(call: Call, dst: Array) -> Reals:
    axes = reduced_axes(call.attrs, len(call.ins[0].shape))
    return real(dst).reshape(tuple(1 if i in axes else d for i, d in enumerate(call.ins[0].shape)))


def _norms(power: int) -> tuple[Law, ...]:
    """power p of the p-norm."""

    def totals(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
        """The powers of all norms sum to the powers of all elements, positive and negative ones counted apart."""
        above, below = np.maximum(real(ins[0]), 0) ** power, np.maximum(-real(ins[0]), 0) ** power
        return near(np.array((real(outs[0]) ** power).sum()), np.array(above.sum() + below.sum()), 8 * rtol)

    def between(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
        """Between the largest element and n^(1/p) times it."""
        dst = _kept(call, outs[0])
        top = np.abs(real(ins[0])).max(axis=reduced_axes(call.attrs, ins[0].ndim), keepdims=True)
        return bool(np.all(dst >= top * (1 - rtol)) and np.all(dst <= folded(call) ** (1 / power) * top * (1 + rtol)))

    return (
        Law(f"to the power of {power}, dst sums to what all elements do", totals),
        Law("between the largest element and n^(1/p) times it", between),
    )


def _threshold(call: Call) -> float:
    return sqrt(folded(call)) + 4


SPECS = (
    reduction_row("ReduceL1", _decompose_l1, lambda x, axes: np.abs(x).sum(axis=axes), _threshold, _norms(1), per_src=2),
    reduction_row(
        "ReduceL2", _decompose_l2, lambda x, axes: np.sqrt(np.square(x).sum(axis=axes)), _threshold, _norms(2), per_src=2, per_dst=1
    ),
)
