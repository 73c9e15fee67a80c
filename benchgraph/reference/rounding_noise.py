"""Noise for the float64 reference that simulates the rounding errors of f32 arithmetic.

For an op with a threshold, operands and results get errors: the backward error of an algorithm, for which it is responsible, times the
condition number of the problem, for which it is not. x - mean(x) of nearly equal numbers loses their leading digits; Round turns the last
bit before a tie into a whole step, GreaterEqual into the other branch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.graph.ir import Op
from benchgraph.ops import spec
from benchgraph.ops.spec import Array
from benchgraph.reference.evaluate import call_of

OPERANDS = 4.0  # largest error of operands in eps(f32): a row's larger threshold is for sums, whose errors add up anyway


class RoundingNoise:
    """The noise of one run: in run 0 all numbers increase, in run 1 they decrease, in others each does one or the other at random.

    Zeros stay, which are mostly exact, and so do infinities, NaN, integers, and operands and results of exact ops. loudness: 1 is the size
    of f32's errors. moves_operands: selects the ops whose operands are changed too; others only make errors no larger than their rows
    allow.
    """

    def __init__(self, run: int, loudness: float = 1.0, *, moves_operands: Callable[[Op], bool] = lambda op: True) -> None:
        self._loudness, self._moves_operands = loudness, moves_operands
        self._rng = np.random.default_rng(run)
        self._signs = ((1.0,), (-1.0,))[run] if run < 2 else (-1.0, 1.0)

    def operands(self, op: Op, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        return self._moved(arrays, min(_allowed(op), OPERANDS)) if self._moves_operands(op) else arrays

    def results(self, op: Op, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        """Each off by all that the op's row allows."""
        return self._moved(arrays, _allowed(op))

    def some(self, ids: Collection[int]) -> frozenset[int]:
        return frozenset(id for id in sorted(ids) if self._rng.random() < 0.5)

    def _moved(self, arrays: tuple[Array, ...], steps: float) -> tuple[Array, ...]:
        return tuple(self._off(a, steps * DType.f32.eps * self._loudness) if steps and a.dtype.kind == "f" else a for a in arrays)

    def _off(self, values: Array, share: float) -> Array:
        return np.asarray(np.multiply(values, 1.0 + share * self._rng.choice(self._signs, values.shape)))


def _allowed(op: Op) -> float:
    return spec(op.kind).semantics.threshold(call_of(op))
