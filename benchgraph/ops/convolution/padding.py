"""Which outputs of a convolution may multiply an infinity or NaN by a zero of the padding, or by one that fills a kernel up to its strides.

The product is NaN where the reference has none. These are the outputs that have more products when such zeros count as elements. All
arrays are in the problem's order; the results broadcast to its output.
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

Mask = NDArray[np.bool_]


def may_multiply(p: Problem, sides: Sides, a: Array, b: Array) -> Mask:
    """a, b: where the op's two operands are not finite, in the order src, weights, dst."""
    if sides.src == OUT:
        return by_data(p, a, b)
    if not b.any():
        return np.zeros((), np.bool_)
    return forward(p, b) if sides.dst == OUT else by_weights(p, b)


def forward(p: Problem, wei: Array) -> Mask:
    """wei: where weights are not finite. The dst whose windows have padding at such a tap."""
    return _more(wei.sum(axis=tuple(range(wei.ndim - 1))), problem.forward(p, np.ones(p.src), wei.astype(np.float64)))


def by_weights(p: Problem, dst: Array) -> Mask:
    """dst: where it is not finite. The weights that multiply padding in such a window."""
    return _more(dst.sum(axis=tuple(range(dst.ndim - 1))), problem.by_weights(p, np.ones(p.src), dst.astype(np.float64)))


def by_data(p: Problem, dst: Array, wei: Array) -> Mask:
    """dst, wei: where they are not finite. The elements of src that such a tap reaches from a window outside of dst, and those that such a
    window reaches by a tap outside of the kernel, which is filled up to a multiple of the stride and in its gaps."""
    marked = np.zeros(p.src, np.bool_)
    if wei.any():
        one = replace(p, src=(1, *p.src[1:]), dst=(1, *p.dst[1:]))
        more = tuple(-(-reach // s) + 1 for reach, s in zip(p.windows.reach, p.windows.strides, strict=True))
        around = _beside(one, more)
        weights = wei.astype(np.float64)
        marked |= _more(*(problem.by_data(q, np.ones(q.dst), weights) for q in (around, one)))
    if dst.any() and max(p.windows.strides) > 1:
        filled = tuple(-reach % s if reach >= s else 0 for reach, s in zip(p.windows.reach, p.windows.strides, strict=True))
        dense = _filled(p, filled)
        marked |= _more(*(problem.by_data(q, dst.astype(np.float64), np.ones(q.wei)) for q in (dense, p)))
    return marked


def _more(every: Reals, real: Reals) -> Mask:
    """Where there are more products than those of elements."""
    return np.asarray(every > real + 0.5)


def _beside(p: Problem, more: Shape) -> Problem:
    """The problem with `more` further windows at both ends of each spatial dim."""
    count = tuple(n + 2 * extra for n, extra in zip(p.dst[1:-1], more, strict=True))
    begins = tuple(b + n * s for b, n, s in zip(p.windows.pads_begin, more, p.windows.strides, strict=True))
    return _reaching(replace(p, dst=(p.dst[0], *count, p.dst[-1]), windows=replace(p.windows, pads_begin=begins)))


def _filled(p: Problem, more: Shape) -> Problem:
    """The problem with a tap at every position its kernel spans, and `more` further ones at both ends of each spatial dim."""
    kernel = tuple(reach + 2 * extra for reach, extra in zip(p.windows.reach, more, strict=True))
    begins = tuple(b + extra for b, extra in zip(p.windows.pads_begin, more, strict=True))
    w = replace(p.windows, kernel=kernel, dilations=(1,) * len(more), pads_begin=begins)
    return _reaching(replace(p, wei=(*kernel, *p.wei[-2:]), windows=w))


def _reaching(p: Problem) -> Problem:
    """With as much padding at the ends as the last windows need."""
    w, spatial = p.windows, zip(p.dst[1:-1], p.src[1:-1], strict=True)
    ends = tuple((n - 1) * w.strides[i] + w.reach[i] - w.pads_begin[i] - size for i, (n, size) in enumerate(spatial))
    return replace(p, windows=replace(w, pads_end=tuple(max(end, old) for end, old in zip(ends, w.pads_end, strict=True))))
