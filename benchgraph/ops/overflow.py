"""What f32 arithmetic gives where its range, or its digits, do not do for numbers on the way: rows say so in `Semantics.f32_alternatives`.

A sum that overflows on the way is infinite, or NaN where it did so both ways; which of them depends on its order. A sum is off by some eps
of the sizes of its terms. Of what is left when the sum is taken away again, or multiplied by what is much larger than its neighbours, that
may be far more than the row's threshold allows. Formulas of several steps are written once, in an `Arithmetic`: the reference is what they
give in EXACT, and `in_f32` what they give in the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf, nan

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.ops.laws import Reals
from benchgraph.ops.spec import Array, Call

MOST = DType.f32.range[1]
_HUGE = 1e300  # times whatever f32 holds that is not 0, it stays beyond f32
ANY = (nan, inf, -inf)  # what a sum that overflows may be
ROUNDED = 4.0  # of eps(f32): how far a sum may be off, of the sizes of its terms; half an eps for the result, and a walk of partial sums


def held(values: Reals) -> Reals:
    """Numbers as far as f32 holds them: rounded, infinite beyond its range."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(values, np.float32).astype(np.float64)


def is_beyond(sizes: Reals) -> Array:
    """Where numbers of these sizes, which are sums of sizes, may have been more than f32 holds on the way to a sum."""
    return np.asarray(np.isfinite(sizes) & (sizes > MOST))


def overflowed(right: Sequence[Array], beyond: Sequence[Array]) -> tuple[tuple[Array, ...], ...]:
    """The right outputs with each of ANY where they are beyond, nothing if that changes none of them."""
    if not any((b & ~np.isnan(r)).any() for r, b in zip(right, beyond, strict=True)):
        return ()
    return tuple(tuple(_lost(r, b, value) for r, b in zip(right, beyond, strict=True)) for value in ANY)


def _are_same(a: Array, b: Array) -> bool:
    return bool(np.array_equal(a, b, equal_nan=True))


def _lost(right: Array, beyond: Array, value: float) -> Array:
    """A sum that overflows as this value; with an infinity in it that one remains, or becomes NaN."""
    return np.where(beyond & (np.isfinite(right) | np.isnan(value)), value, right)


@dataclass(frozen=True)
class Arithmetic:
    """lost: what a sum is that may overflow on the way. Steps beyond f32 are no numbers with it, or so large that what they are summed up
    in overflows as well. None: float64, in which nothing is lost. off: how many eps of the sizes of its terms a sum is off by."""

    lost: float | None = None
    off: float = 0.0

    @property
    def opposite(self) -> Arithmetic:
        """With sums that are lost, or off, the other way."""
        return replace(self, lost=None if self.lost is None else -self.lost, off=-self.off)

    def step(self, values: Reals) -> Reals:
        """An intermediate result."""
        if self.lost is None:
            return values
        return np.where(is_beyond(np.abs(values)), nan if np.isnan(self.lost) else np.copysign(_HUGE, values), values)

    def result(self, values: Array) -> Array:
        """What comes out."""
        return values if self.lost is None else np.where(is_beyond(np.abs(values)), np.copysign(inf, values), values)

    def total(self, sum_of: Callable[[Reals], Reals], terms: Reals) -> Reals:
        """sum_of(terms): sums of some of them each."""
        right = sum_of(terms)
        if self.lost is None and not self.off:
            return right
        sizes = sum_of(np.where(np.isfinite(terms), np.abs(terms), 0.0))
        right = np.asarray(right + self.off * DType.f32.eps * sizes)
        return right if self.lost is None else np.asarray(_lost(right, is_beyond(sizes), self.lost))

    def sum(self, terms: Reals, axis: int | tuple[int, ...], *, keepdims: bool = False) -> Reals:
        """The sum of terms over these axes."""
        return self.total(lambda values: np.asarray(values.sum(axis=axis, keepdims=keepdims)), terms)


EXACT = Arithmetic()
Formula = Callable[[Call, tuple[Array, ...], Arithmetic], tuple[Array, ...]]


def in_float64(formula: Formula) -> Callable[[Call, tuple[Array, ...]], tuple[Array, ...]]:
    """The reference of a row."""
    return lambda call, ins: formula(call, ins, EXACT)


def in_f32(formula: Formula) -> Callable[[Call, tuple[Array, ...]], tuple[tuple[Array, ...], ...]]:
    """`Semantics.f32_alternatives` of a row."""

    def others(call: Call, ins: tuple[Array, ...]) -> tuple[tuple[Array, ...], ...]:
        ways = (*(Arithmetic(lost) for lost in ANY), *(Arithmetic(off=off) for off in (ROUNDED, -ROUNDED)))
        found = (tuple(a.result(out) for out in formula(call, ins, a)) for a in ways)
        right = formula(call, ins, EXACT)
        return tuple(outs for outs in found if not all(map(_are_same, outs, right)))

    return others
