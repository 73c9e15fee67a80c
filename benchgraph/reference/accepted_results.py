"""Whether an output of a graph is right, given the graph's inputs: equal to `evaluate`'s result, or to another one that is accepted."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Graph
from benchgraph.ops.spec import Array
from benchgraph.reference.compare import Comparison, compare
from benchgraph.reference.evaluate import InF32, evaluate, narrow_between
from benchgraph.reference.rounding_noise import RoundingNoise

# Runs with noise. A run misses with probability 1/2 what depends on the sign of one error; the first two find most ties. To limit the
# time for a wrong result of a large graph, about so many elements are computed, which takes some seconds, but by two runs at least.
LEAST_RUNS, MOST_RUNS, ELEMENTS = 2, 32, 1 << 27
# The share of points (at least one) that noise may excuse. Every 25th product of scales like 0.12 is a tie; bugs affect more points.
FEW = 1 / 16
# The same for integers where none of the points is a tie of the exact numbers, which a library must get right.
# Every second multiple of 1/4 divided by 0.1 ends in a half, except that f32 rounds 0.1.
MANY = 1 / 2
FAINT = 2.0**-20  # noise so small that it moves only exact ties


def compare_output(
    graph: Graph, given: Mapping[int, Array], t: LogicalTensor, got: Array, want: Array, rtol: float, stored: frozenset[int] = frozenset()
) -> Comparison:
    """Compare output t, element by element, with want, the result of `evaluate`. given: the elements of the graph's inputs.

    Values between ops in bf16 or f16 may be rounded or not, since fused ops keep them in f32. If the comparison with want fails, each
    element may equal either result. If few elements still fail, each may be between results of the reference with noise
    (rounding_noise.py): they are ties, or due to cancellation. If many integers do, each must be close to a tie but not at one. The graph
    is evaluated again only then. stored: tensors between ops that were certainly stored, and so rounded, because they passed between
    partitions. If intermediate values overflow f32, each element may also be what the rows accept of f32 arithmetic.
    """
    c = compare(got, want, t.dtype, rtol)
    if c.ok:
        return c
    if narrow := narrow_between(graph):
        want = _nearer(got, want, evaluate(graph, given, stored=stored)[t.id])
        c = compare(got, want, t.dtype, rtol)
    if not c.ok:
        want = _in_f32(graph, given, t, got, want, stored if narrow else None)
        c = compare(got, want, t.dtype, rtol)
        if c.ok:
            return c
    are_few = c.errors <= max(1.0, FEW * c.total)
    if not are_few and (t.dtype.is_float or c.errors > MANY * c.total):
        return c
    is_tie = np.zeros(got.shape, bool)
    if not are_few:
        up, down = (evaluate(graph, given, stored=stored, noise=RoundingNoise(run, FAINT))[t.id] for run in (0, 1))
        is_tie = up.astype(t.dtype.numpy) != down.astype(t.dtype.numpy)
    low = high = want.astype(np.float64)
    excused = c
    for run in range(runs_of(graph)):
        if excused.ok:
            break
        noise = RoundingNoise(run)
        for rounded in (None, noise.random_half(narrow) | stored) if narrow else (None,):
            noisy = evaluate(graph, given, stored=rounded, noise=noise)[t.id]
            low, high = np.fmin(low, noisy), np.fmax(high, noisy)
        excused = compare(got, np.where(is_tie, want, _inside(got, low, high, want)), t.dtype, rtol)
    return excused if excused.ok else c


def _in_f32(graph: Graph, given: Mapping[int, Array], t: LogicalTensor, got: Array, want: Array, stored: Collection[int] | None) -> Array:
    """For each element the value nearest to got among want, the results that the rows accept of f32 arithmetic, and what is between finite
    ones.
    """
    low = high = want.astype(np.float64)
    nearest, which, count = want, 0, 1
    while which < count:
        variant = InF32(which)
        other = evaluate(graph, given, stored=stored, in_f32=variant)[t.id]
        which, count = which + 1, variant.count
        number = np.where(np.isfinite(other), other, want)
        low, high = np.fmin(low, number), np.fmax(high, number)
        nearest = _nearer(got, _inside(got, low, high, nearest) if t.dtype.is_float else nearest, other)
    return nearest


def runs_of(graph: Graph) -> int:
    """The number of runs with noise, fewer for larger graphs."""
    elements = sum(t.type.elements for op in graph.ops for t in op.outputs)
    return min(max(ELEMENTS // max(elements, 1), LEAST_RUNS), MOST_RUNS)


def _nearer(got: Array, a: Array, b: Array) -> Array:
    """For each element the one of a and b that is nearer to got. NaN and infinities are near only to themselves."""
    g = got.astype(np.float64)

    def distance(x: Array) -> NDArray[np.float64]:
        with np.errstate(invalid="ignore"):
            difference = np.abs(g - x.astype(np.float64))
        return np.where((g == x) | (np.isnan(g) & np.isnan(x)), 0.0, np.where(np.isnan(difference), np.inf, difference))

    return np.where(distance(b) < distance(a), b, a)


def _inside(got: Array, low: Array, high: Array, want: Array) -> Array:
    """For each element the value from low to high that is nearest to got; want where got is not finite."""
    g = got.astype(np.float64)
    return np.where(np.isfinite(g), np.clip(g, low, high), want)
