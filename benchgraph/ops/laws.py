"""Laws that several rows share, and helpers for others. A law reads outputs and inputs only; it never calls a reference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchgraph.ops.spec import Array, Call, Law

Reals = NDArray[np.float64]
Holds = Callable[[Call, tuple[Array, ...], tuple[Array, ...], float], bool]


def real(a: Array) -> Reals:
    """The array as float64, not copied if it is float64 already."""
    return np.asarray(a, dtype=np.float64)


def near(got: Array, want: Array, rtol: float) -> bool:
    """Equal (infinities and NaNs included), or within rtol of max(|want|, rms of want's finite values)."""
    g, w = np.broadcast_arrays(real(got), real(want))
    if w.size == 0:
        return True
    finite = w[np.isfinite(w)]
    size = np.sqrt(np.mean(np.square(finite))) if finite.size else 0.0
    with np.errstate(invalid="ignore"):
        close = np.abs(g - w) <= rtol * np.maximum(np.abs(w), size)
    return bool(np.all(close | (g == w) | (np.isnan(g) & np.isnan(w))))


def recovers(name: str, undo: np.ufunc | Callable[[tuple[Reals, ...], Reals], Reals]) -> Law:
    """undo(inputs, dst), or undo(dst), is the first input again; its error is no larger than a few times the op's own."""

    def holds(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
        back = undo(real(outs[0])) if isinstance(undo, np.ufunc) else undo(tuple(real(a) for a in ins), real(outs[0]))
        return near(back, np.broadcast_to(real(ins[0]), back.shape), 8 * rtol)

    return Law(name, holds)


def relation(name: str, test: Callable[[tuple[Reals, ...], Reals, float], Array | np.bool_ | bool]) -> Law:
    """test(inputs, dst, slack) is true of every element; slack: how far rounding may move an element."""

    def holds(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
        dst = real(outs[0])
        slack = rtol * max(1.0, float(np.max(np.abs(dst), initial=0.0)))
        return bool(np.all(test(tuple(real(a) for a in ins), dst, slack)))

    return Law(name, holds)


def _keeps_order(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    src, dst = real(ins[0]).ravel(), real(outs[0]).ravel()
    ordered = dst[np.argsort(src, kind="stable")]
    slack = rtol * float(np.max(np.abs(dst), initial=0.0))
    return bool(np.all(np.diff(ordered) >= -slack))


INCREASING = Law("the outputs are in the order of the inputs", _keeps_order)


SAME_ELEMENTS = Law(
    "the elements are those of src, in some order",
    lambda call, ins, outs, rtol: bool(np.array_equal(np.sort(ins[0], axis=None), np.sort(outs[0], axis=None))),
)
SAME_SEQUENCE = Law(
    "the elements in row-major order are those of src",
    lambda call, ins, outs, rtol: bool(np.array_equal(np.ravel(ins[0]), np.ravel(outs[0]))),
)
