"""Where a convolution may multiply zeros that are no elements: of its padding, and those that fill kernels up to whole strides.

Times what is not finite such a zero is NaN, where the reference has no product at all. Which outputs that may be: those with more products
once the zeros count as elements. All arrays are in the problem's own order, and the results broadcast to its output.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.tensor import Shape
from benchgraph.ops.convolution import problem
from benchgraph.ops.convolution.problem import OUT, Problem, Sides
from benchgraph.ops.laws import Reals
from benchgraph.ops.spec import Array

Places = NDArray[np.bool_]


def met(p: Problem, sides: Sides, a: Array, b: Array) -> Places:
    """a, b: where the operands are not finite, in the order src, weights, dst of those that the op reads; by data dst and weights."""
    if sides.src == OUT:
        return by_data(p, a, b)
    if not b.any():
        return np.zeros((), np.bool_)
    return forward(p, b) if sides.dst == OUT else by_weights(p, b)


def forward(p: Problem, wei: Array) -> Places:
    """wei: where weights are not finite. dst whose windows have padding at such a tap."""
    return _more(wei.sum(axis=tuple(range(wei.ndim - 1))), problem.forward(p, np.ones(p.src), wei.astype(np.float64)))


def by_weights(p: Problem, dst: Array) -> Places:
    """dst: where it is not finite. Weights that meet padding in such a window."""
    return _more(dst.sum(axis=tuple(range(dst.ndim - 1))), problem.by_weights(p, np.ones(p.src), dst.astype(np.float64)))


def by_data(p: Problem, dst: Array, wei: Array) -> Places:
    """dst, wei: where they are not finite. Elements of src that such a tap would meet from a window which is not there, and those for which
    a tap that is not there would meet such a window: under a stride, where the kernel is filled up to whole strides, and its gaps."""
    found = np.zeros(p.src, np.bool_)
    if wei.any():
        one = replace(p, src=(1, *p.src[1:]), dst=(1, *p.dst[1:]))
        more = tuple(-(-reach // s) + 1 for reach, s in zip(p.windows.reach, p.windows.strides, strict=True))
        around = _beside(one, more)
        weights = wei.astype(np.float64)
        found |= _more(*(problem.by_data(q, np.ones(q.dst), weights) for q in (around, one)))
    if dst.any() and max(p.windows.strides) > 1:
        filled = tuple(-reach % s if reach >= s else 0 for reach, s in zip(p.windows.reach, p.windows.strides, strict=True))
        whole = _filled(p, filled)
        found |= _more(*(problem.by_data(q, dst.astype(np.float64), np.ones(q.wei)) for q in (whole, p)))
    return found


def _more(every: Reals, real: Reals) -> Places:
    """Where there are more products than real ones."""
    return np.asarray(every > real + 0.5)


def _beside(p: Problem, more: Shape) -> Problem:
    """The problem with so many more windows at both ends of each spatial dim."""
    count = tuple(n + 2 * extra for n, extra in zip(p.dst[1:-1], more, strict=True))
    begins = tuple(b + n * s for b, n, s in zip(p.windows.pads_begin, more, p.windows.strides, strict=True))
    return _reaching(replace(p, dst=(p.dst[0], *count, p.dst[-1]), windows=replace(p.windows, pads_begin=begins)))


def _filled(p: Problem, more: Shape) -> Problem:
    """The problem with a tap wherever its kernel reaches, and so many more at both ends of each spatial dim."""
    kernel = tuple(reach + 2 * extra for reach, extra in zip(p.windows.reach, more, strict=True))
    begins = tuple(b + extra for b, extra in zip(p.windows.pads_begin, more, strict=True))
    w = replace(p.windows, kernel=kernel, dilations=(1,) * len(more), pads_begin=begins)
    return _reaching(replace(p, wei=(*kernel, *p.wei[-2:]), windows=w))


def _reaching(p: Problem) -> Problem:
    """With as much padding behind as the last windows need."""
    w, spatial = p.windows, zip(p.dst[1:-1], p.src[1:-1], strict=True)
    ends = tuple((n - 1) * w.strides[i] + w.reach[i] - w.pads_begin[i] - size for i, (n, size) in enumerate(spatial))
    return replace(p, windows=replace(w, pads_end=tuple(max(end, old) for end, old in zip(ends, w.pads_end, strict=True))))
