"""Noise for the float64 reference that simulates the rounding errors of f32 arithmetic.

Results get the error that the op's threshold allows (its own arithmetic). Operands get errors too: how much these grow is the condition
number of the op, not a fault of its implementation. x - mean(x) of nearly equal numbers loses their leading digits; Round turns the last
bit before a tie into a whole step, GreaterEqual into the other branch. Ops with threshold 0 are exact and get no errors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.graph.ir import Op
from benchgraph.ops import spec
from benchgraph.ops.spec import Array

OPERANDS = 4.0  # largest error of operands in eps(f32): a row's larger threshold is for sums, whose errors add up anyway


class RoundingNoise:
    """The noise of one run: in run 0 all numbers grow in magnitude, in run 1 they shrink, in others each does one or the other
    at random.

    Zeros stay, which are mostly exact, and so do infinities, NaN, integers, and operands and results of exact ops. scale: 1 is the size of
    f32's errors. perturbs_operands: selects the ops whose operands are changed too; others only make errors no larger than their rows
    allow.
    """

    def __init__(self, run: int, scale: float = 1.0, *, perturbs_operands: Callable[[Op], bool] = lambda op: True) -> None:
        self._scale, self._perturbs_operands = scale, perturbs_operands
        self._rng = np.random.default_rng(run)
        self._signs = ((1.0,), (-1.0,))[run] if run < 2 else (-1.0, 1.0)

    def operands(self, op: Op, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        return self._perturbed(arrays, min(_allowed(op), OPERANDS)) if self._perturbs_operands(op) else arrays

    def results(self, op: Op, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        """Each off by all that the op's row allows."""
        return self._perturbed(arrays, _allowed(op))

    def random_half(self, ids: Collection[int]) -> frozenset[int]:
        """Each of the ids with a probability of 1/2."""
        return frozenset(id for id in sorted(ids) if self._rng.random() < 0.5)

    def _perturbed(self, arrays: tuple[Array, ...], steps: float) -> tuple[Array, ...]:
        return tuple(self._perturb(a, steps * DType.f32.eps * self._scale) if steps and a.dtype.kind == "f" else a for a in arrays)

    def _perturb(self, values: Array, share: float) -> Array:
        return np.asarray(np.multiply(values, 1.0 + share * self._rng.choice(self._signs, values.shape)))


def _allowed(op: Op) -> float:
    return spec(op.kind).semantics.threshold(op.call)
