"""Where a graph's computed values leave the range of their types, so that its result proves nothing.

An intermediate overflow is infinite in one library and, with another order of summation, finite in another, and the rest of the graph
depends on it. A graph is evaluated once more with such numbers replaced: results that change depend on them. Ops on the graph's own inputs
are exempt: data may test the ends of the range.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Graph, Op
from benchgraph.ops.spec import Array
from benchgraph.reference.compare import failing
from benchgraph.reference.evaluate import evaluate

# From this share of its type's largest number on, a number counts as beyond the range. NEAR_SUMS (f32, bf16): partial sums of numbers of
# both signs can be 2^8 times the final sum (a million terms), so they overflow where the sum does not. NEAR (f16 and f8): sums are in f32,
# only the stored result overflows.
NEAR_SUMS, NEAR = 2.0**-8, 0.5
F16_RANGE = DType.f16.range[1]


@dataclass(frozen=True)
class Beyond:
    """What depends on numbers beyond the range.

    dependent: by output, the points that do. op: the first that makes such numbers; dtype: of its result.
    """

    dependent: dict[int, NDArray[np.bool_]]
    op: Op
    dtype: DType


# An output is mistrusted, even if it equals the reference, if a larger share of the reference is infinite or NaN because of numbers beyond
# the range.
LOST = 1 / 8
SATURATED = 0.95  # share of an 8-bit output at an end of its range other than 0, where most errors are invisible
REMEDY = "try --fill=reals, a wider type by --dt, or a shallower graph"


def is_lost(want: Array, dependent: NDArray[np.bool_]) -> bool:
    """Whether so much of an output overflowed that the rest proves little."""
    return bool(want.size) and float(np.mean(dependent & ~np.isfinite(want.astype(np.float64)))) > LOST


def is_saturated(want: Array, dtype: DType) -> bool:
    """Whether nearly all of an output in 8 bits or fewer is the least or the largest number of its type."""
    if not dtype.is_integer or dtype.bits > 8 or not want.size:
        return False
    low, high = dtype.range
    return float(np.mean((want == high) | ((want == low) & (low != 0)))) > SATURATED


def beyond_range(graph: Graph, given: Mapping[int, Array], own: Collection[int]) -> Beyond | None:
    """What depends on numbers beyond the range of the graph's types; None if all are within.

    given: the elements of the graph's inputs; own: ids of the whole graph's own inputs; ops that read only these are exempt.
    """

    def differs(t: LogicalTensor, other: Array, plain: Array) -> NDArray[np.bool_]:
        return np.asarray(~((plain == other) | (np.isnan(plain) & np.isnan(other))))

    return _dependent(graph, given, _Replacing(own), differs)


def below_range(graph: Graph, given: Mapping[int, Array], own: Collection[int], rtol: float) -> Beyond | None:
    """As `beyond_range`, for computed numbers below the normal range of f32, which the next op may flush to 0."""

    def differs(t: LogicalTensor, other: Array, plain: Array) -> NDArray[np.bool_]:
        return failing(other, plain, t.dtype, rtol) if t.dtype.is_float else np.asarray(other != plain)

    return _dependent(graph, given, _Replacing(own, is_below=True), differs)


def _dependent(
    graph: Graph, given: Mapping[int, Array], replacing: _Replacing, differs: Callable[[LogicalTensor, Array, Array], NDArray[np.bool_]]
) -> Beyond | None:
    """What depends on the numbers that are replaced; None if there are none."""
    other = evaluate(graph, given, noise=replacing)
    if replacing.first is None:
        return None
    plain = evaluate(graph, given)
    return Beyond({t.id: differs(t, other[t.id], plain[t.id]) for t in graph.outputs}, *replacing.first)


def zeros_are_from_underflow(graph: Graph, given: Mapping[int, Array], t: LogicalTensor, zeros: NDArray[np.bool_], limit: float) -> bool:
    """Whether an output has more zeros than the limit only because of underflow in its type or those before it."""
    if not t.dtype.is_float or not zeros.size:
        return False
    exact = evaluate(graph, given, stored=())[t.id]
    return bool(np.mean(zeros & (exact == 0)) <= limit)


class _Replacing:
    """Replaces numbers near or beyond the end of their type's range by their sign, in computed operands and their results.

    is_below: replaces numbers below the normal range of f32 by 0 instead.
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
