"""Where a graph's own numbers leave the range of its types, so that its answer says nothing of who computes it.

What overflows in the middle of a graph is infinite for one library and, with its sums in another order, a number for the next; what comes
of either is all that is left of the data. A graph is evaluated once more with such numbers replaced: results that change hang on them.
What an op makes of the graph's own inputs is not meant: the data are there to try the ends of its range.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Graph, Op
from benchgraph.ops.spec import Array
from benchgraph.reference.compare import failing
from benchgraph.reference.evaluate import evaluate

# Of the largest number of a type. Sums are made in f32, whose partial sums may overflow where a sum of numbers of either sign does not: by
# this factor for a million of them. Where the result is of a narrower range, only the result may.
NEAR_SUMS, NEAR = 2.0**-8, 0.5
F16_RANGE = DType.f16.range[1]


@dataclass(frozen=True)
class Beyond:
    """hangs: by output, where it hangs on numbers beyond the range. op: the first that makes such numbers; dtype: of its result."""

    hangs: dict[int, NDArray[np.bool_]]
    op: Op
    dtype: DType


LOST = 1 / 8  # of an output: where more of it is infinite, or no number, because of that, it is mistrusted though it is as expected
SATURATED = 0.95  # of an 8-bit output, at an end of its range other than 0: hardly any mistake moves such a number
REMEDY = "try --fill=reals, a wider type by --dt, or a shallower graph"


def is_lost(want: Array, hangs: NDArray[np.bool_]) -> bool:
    """Whether so much of an output is infinite or no number, for want of range, that what is left proves little."""
    return bool(want.size) and float(np.mean(hangs & ~np.isfinite(want.astype(np.float64)))) > LOST


def is_saturated(want: Array, dtype: DType) -> bool:
    """Whether nearly all of an output in 8 bits or fewer is the least or the largest number of its type."""
    if not dtype.is_integer or dtype.bits > 8 or not want.size:
        return False
    low, high = dtype.range
    return float(np.mean((want == high) | ((want == low) & (low != 0)))) > SATURATED


def beyond_range(graph: Graph, given: Mapping[int, Array], own: Collection[int]) -> Beyond | None:
    """What hangs on numbers beyond the range of the graph's types; None when all numbers are within.

    given: the elements of the graph's inputs; own: those of them that nobody computed, whose results are data like any other.
    """
    replacing = _Replacing(own)
    other = evaluate(graph, given, noise=replacing)
    if replacing.first is None:
        return None
    plain = evaluate(graph, given)
    op, dtype = replacing.first
    return Beyond({id: ~((plain[id] == other[id]) | (np.isnan(plain[id]) & np.isnan(other[id]))) for id in plain}, op, dtype)


def below_range(graph: Graph, given: Mapping[int, Array], own: Collection[int], rtol: float) -> Beyond | None:
    """As `beyond_range`, of numbers that are computed and so small that f32 has no normal ones of their size: the next op may read 0."""
    replacing = _Replacing(own, is_below=True)
    other = evaluate(graph, given, noise=replacing)
    if replacing.first is None:
        return None
    plain = evaluate(graph, given)
    op, dtype = replacing.first
    hangs = {t.id: failing(other[t.id], plain[t.id], t.dtype, rtol) for t in graph.outputs if t.dtype.is_float}
    hangs |= {t.id: other[t.id] != plain[t.id] for t in graph.outputs if not t.dtype.is_float}
    return Beyond(hangs, op, dtype)


def is_faint(graph: Graph, given: Mapping[int, Array], t: LogicalTensor, zeros: NDArray[np.bool_], limit: float) -> bool:
    """Whether an output has more zeros than the limit only because its type, or those on the way, have no numbers so small."""
    if not t.dtype.is_float or not zeros.size:
        return False
    exact = evaluate(graph, given, stored=())[t.id]
    return bool(np.mean(zeros & (exact == 0)) <= limit)


class _Replacing:
    """Makes less of what is near the end of its type's range, or beyond it, in operands that were computed and in results of such.

    is_below: makes nothing of what is below the range of f32 instead.
    """

    def __init__(self, own: Collection[int], *, is_below: bool = False) -> None:
        self._own, self._is_below = set(own), is_below
        self.first: tuple[Op, DType] | None = None

    def operands(self, op: Op, arrays: tuple[Array, ...], /) -> tuple[Array, ...]:
        computed = (t.id not in self._own for t in op.inputs)
        return tuple(self._replaced(op, t.dtype, a) if c else a for t, a, c in zip(op.inputs, arrays, computed, strict=True))

    def results(self, op: Op, arrays: tuple[Array, ...], /) -> tuple[Array, ...]:
        if all(t.id in self._own for t in op.inputs):
            return arrays
        return tuple(self._replaced(op, t.dtype, a) for t, a in zip(op.outputs, arrays, strict=True))

    def _replaced(self, op: Op, dtype: DType, values: Array) -> Array:
        if not dtype.is_float or values.dtype.kind != "f":
            return values
        with np.errstate(invalid="ignore"):
            sizes = np.abs(values)
            near = NEAR_SUMS if dtype.range[1] > F16_RANGE else NEAR
            if self._is_below:
                beyond = (sizes < DType.f32.least_normal) & (sizes > 0)
            else:
                beyond = (sizes >= near * dtype.range[1]) & np.isfinite(sizes)
        if not beyond.any():
            return values
        self.first = self.first or (op, dtype)
        return np.where(beyond, 0.0 if self._is_below else np.sign(values), values)
