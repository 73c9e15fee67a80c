"""Whether an output of a graph is right, given the graph's inputs: the one answer of `evaluate`, or another that is as good."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Graph
from benchgraph.ops.spec import Array
from benchgraph.reference.compare import Comparison, compare
from benchgraph.reference.evaluate import InF32, evaluate, narrow_between
from benchgraph.reference.noise import Noise

# Runs with noise. What hangs on the sign of one error is missed by every second; the first two do for most ties. A wrong result of a large
# graph shall not cost minutes: so many elements are computed at most, which is some seconds.
LEAST_RUNS, MOST_RUNS, ELEMENTS = 2, 32, 1 << 27
# Of all points: as many may need noise, or one. Every 25th product of scales like 0.12 is a tie; a bug is wrong more often, or by more.
FEW = 1 / 16
# Of all points of integers: as many may need noise where none of them is a tie of the exact numbers, which a library has to get right.
# Multiples of 1/4 over a scale of 0.1 end in a half, every second one, but for what f32 makes of 0.1.
MANY = 1 / 2
FAINT = 2.0**-20  # of the noise: what this moves is a tie before f32 has rounded anything


def compare_output(
    graph: Graph, given: Mapping[int, Array], t: LogicalTensor, got: Array, want: Array, rtol: float, stored: frozenset[int] = frozenset()
) -> Comparison:
    """Compare output t, element by element, with what `evaluate` wants. given: the elements of the graph's inputs.

    What passes between ops in bf16 or f16 may be rounded or not: fused ops keep it in f32, and both are right. Where the one answer does
    not do, each element may be either. Where few elements still fail, each may be what the reference makes of noise (noise.py), or between
    two such: it is a tie, or numbers that cancel. Where many integers do, each must be next to a tie, and none on it. Only then is the
    graph evaluated again. stored: tensors between ops that certainly were in memory, and rounded, because they went from partition to
    partition. Where numbers on the way are beyond f32, each element may also be what the rows say that f32 arithmetic gives.
    """
    c = compare(got, want, t.dtype, rtol)
    if c.ok:
        return c
    if between := narrow_between(graph):
        want = _nearer(got, want, evaluate(graph, given, stored=stored)[t.id])
        c = compare(got, want, t.dtype, rtol)
    if not c.ok:
        want = _in_f32(graph, given, t, got, want, stored if between else None)
        c = compare(got, want, t.dtype, rtol)
        if c.ok:
            return c
    are_few = c.errors <= max(1.0, FEW * c.total)
    if not are_few and (t.dtype.is_float or c.errors > MANY * c.total):
        return c
    is_tie = np.zeros(got.shape, bool)
    if not are_few:
        up, down = (evaluate(graph, given, stored=stored, noise=Noise(run, FAINT))[t.id] for run in (0, 1))
        is_tie = up.astype(t.dtype.numpy) != down.astype(t.dtype.numpy)
    low = high = want.astype(np.float64)
    excused = c
    for run in range(runs_of(graph)):
        if excused.ok:
            break
        noise = Noise(run)
        for rounded in (None, noise.some(between) | stored) if between else (None,):
            noisy = evaluate(graph, given, stored=rounded, noise=noise)[t.id]
            low, high = np.fmin(low, noisy), np.fmax(high, noisy)
        excused = compare(got, np.where(is_tie, want, _inside(got, low, high, want)), t.dtype, rtol)
    return excused if excused.ok else c


def _in_f32(graph: Graph, given: Mapping[int, Array], t: LogicalTensor, got: Array, want: Array, stored: Collection[int] | None) -> Array:
    """For each element what is nearest to got of want and what the rows say that f32 arithmetic may give, or between those of them that are
    numbers."""
    low = high = want.astype(np.float64)
    nearest, which, count = want, 0, 1
    while which < count:
        way = InF32(which)
        other = evaluate(graph, given, stored=stored, in_f32=way)[t.id]
        which, count = which + 1, way.count
        number = np.where(np.isfinite(other), other, want)
        low, high = np.fmin(low, number), np.fmax(high, number)
        nearest = _nearer(got, _inside(got, low, high, nearest) if t.dtype.is_float else nearest, other)
    return nearest


def runs_of(graph: Graph) -> int:
    """With noise: fewer of larger graphs."""
    elements = sum(t.type.elements for op in graph.ops for t in op.outputs)
    return min(max(ELEMENTS // max(elements, 1), LEAST_RUNS), MOST_RUNS)


def _nearer(got: Array, a: Array, b: Array) -> Array:
    """For each element the one of a and b that is nearer to got. NaN and infinities are near themselves alone."""
    g = got.astype(np.float64)

    def distance(x: Array) -> NDArray[np.float64]:
        with np.errstate(invalid="ignore"):
            apart = np.abs(g - x.astype(np.float64))
        return np.where((g == x) | (np.isnan(g) & np.isnan(x)), 0.0, np.where(np.isnan(apart), np.inf, apart))

    return np.where(distance(b) < distance(a), b, a)


def _inside(got: Array, low: Array, high: Array, want: Array) -> Array:
    """For each element what is nearest to got from low to high; want where got is no number."""
    g = got.astype(np.float64)
    return np.where(np.isfinite(g), np.clip(g, low, high), want)
