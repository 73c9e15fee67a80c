"""What f32 arithmetic may give when intermediate results exceed its range or precision, for `Semantics.f32_alternatives`.

A partial sum that overflows makes the sum infinite, or NaN after overflows of both signs; which one depends on the order of addition.
A sum has an error of some eps of the magnitudes of its terms. After cancellation, or a multiplication by a number much larger than its
neighbours, that error may exceed the row's threshold. Formulas of several steps are written once, with an `Arithmetic`: EXACT gives the
reference, the others give the alternatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, nan

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.ops.laws import Reals
from benchgraph.ops.spec import Array, Call, Infer, Semantics

MOST = DType.f32.range[1]
_HUGE = 1e300  # its product with any f32 other than 0 exceeds f32
ANY = (nan, inf, -inf)  # what a sum that overflows may be
ROUNDED = 4.0  # error of a sum in eps of its terms' magnitudes: half an eps for the result, and a random walk of partial sums


def as_f32(values: Reals) -> Reals:
    """Numbers rounded to f32, infinite beyond its range."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(values, np.float32).astype(np.float64)


def is_beyond(sizes: Reals) -> Array:
    """Where a sum may overflow f32, given the sums of its terms' magnitudes."""
    return np.asarray(np.isfinite(sizes) & (sizes > MOST))


def overflowed(right: Sequence[Array], beyond: Sequence[Array]) -> tuple[tuple[Array, ...], ...]:
    """The reference outputs with each of ANY where they may overflow; () if that changes none of them."""
    if not any((b & ~np.isnan(r)).any() for r, b in zip(right, beyond, strict=True)):
        return ()
    return tuple(tuple(_lost(r, b, value) for r, b in zip(right, beyond, strict=True)) for value in ANY)


def _lost(right: Array, beyond: Array, value: float) -> Array:
    """An overflowing sum replaced by this value; a sum that is infinite already stays so, or becomes NaN."""
    return np.where(beyond & (np.isfinite(right) | np.isnan(value)), value, right)


@dataclass(frozen=True)
class Arithmetic:
    """lost: the value of sums that may overflow. Intermediate results beyond f32 are then NaN, or so large that sums of them overflow too.
    None: float64, nothing overflows. off: the error of sums, in eps of the magnitudes of their terms."""

    lost: float | None = None
    off: float = 0.0

    @property
    def opposite(self) -> Arithmetic:
        """With overflows and errors of the opposite sign."""
        return replace(self, lost=None if self.lost is None else -self.lost, off=-self.off)

    def step(self, values: Reals) -> Reals:
        """An intermediate result."""
        if self.lost is None:
            return values
        return np.where(is_beyond(np.abs(values)), nan if np.isnan(self.lost) else np.copysign(_HUGE, values), values)

    def result(self, values: Array) -> Array:
        """A final result."""
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


def semantics(formula: Formula, infer: Infer, flops: Callable[[Call], int], threshold: Callable[[Call], float]) -> Semantics:
    """Those of a row whose reference and f32 alternatives are one formula."""

    def reference(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
        return formula(call, ins, EXACT)

    def in_f32(call: Call, ins: tuple[Array, ...]) -> tuple[tuple[Array, ...], ...]:
        alternatives = (*(Arithmetic(lost) for lost in ANY), *(Arithmetic(off=off) for off in (ROUNDED, -ROUNDED)))
        results = (tuple(a.result(out) for out in formula(call, ins, a)) for a in alternatives)
        right = reference(call, ins)
        return tuple(outs for outs in results if not all(map(partial(np.array_equal, equal_nan=True), outs, right)))

    return Semantics(infer=infer, reference=reference, flops=flops, threshold=threshold, f32_alternatives=in_f32)
