"""Sums of products in references, where some of the numbers are not finite.

A library may lay out zeros beside the elements, and a reference that does so as well would multiply them by an infinity, which is NaN. What
is no element multiplies nothing: such products are left out, whatever they would be.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.dtypes import DType
from benchgraph.ops import overflow
from benchgraph.ops.laws import Reals, real
from benchgraph.ops.spec import Array

SumOf = Callable[[Reals, Reals], Reals]


def of_products(sum_of: SumOf, a: Reals, b: Reals, *, is_element: NDArray[np.bool_] | None = None) -> Reals:
    """sum_of(a, b), a sum of products of elements of both. is_element: which zeros of a are elements, whose products count; None for all.

    What is not finite is counted apart: how many products are inf, -inf and NaN.
    """
    if np.isfinite(a).all() and np.isfinite(b).all():
        return sum_of(a, b)
    counts = np.ones(a.shape, np.bool_) if is_element is None else is_element
    up_a, down_a, up_b, down_b = (x == sign * np.inf for x in (a, b) for sign in (1, -1))
    every_b = np.ones(b.shape, np.bool_)
    ups = meet(sum_of, (up_a, b > 0), (down_a, b < 0), (a > 0, up_b), (a < 0, down_b))
    downs = meet(sum_of, (up_a, b < 0), (down_a, b > 0), (a < 0, up_b), (a > 0, down_b))
    wrong = meet(sum_of, (np.isnan(a), every_b), (counts, np.isnan(b)), (np.isinf(a), b == 0), (counts & (a == 0), np.isinf(b)))
    found = sum_of(np.where(np.isfinite(a), a, 0.0), np.where(np.isfinite(b), b, 0.0))
    found = np.where(ups, np.inf, np.where(downs, -np.inf, found))
    return np.asarray(np.where(wrong | (ups & downs), np.nan, found))


def meet(sum_of: SumOf, *pairs: tuple[Array, Array]) -> NDArray[np.bool_]:
    """Where a sum has a product of two elements that are true in one of these pairs."""
    return np.asarray(sum(sum_of(x.astype(np.float64), y.astype(np.float64)) for x, y in pairs) > 0.5, np.bool_)


def others_in_f32(sum_of: SumOf, a: Reals, b: Reals, right: Reals) -> tuple[Reals, ...]:
    """What f32 may make of such sums, which are right in float64, where products are near the end of its range; () where none are.

    Where the sizes of a sum's products add up to more than f32 holds, it may overflow on the way. Others are off by some eps of these
    sizes, which results far from the end of the range cannot answer for: none of their neighbours tells of sizes there (compare.py).
    """
    x, y = (np.where(np.isfinite(x), np.abs(x), 0.0) for x in (a, b))
    if x.max(initial=0.0) * y.max(initial=0.0) * x.size < overflow.MOST:
        return ()
    sizes = sum_of(x, y)
    lost = (found for (found,) in overflow.overflowed((right,), (overflow.is_beyond(sizes),)))
    off = overflow.ROUNDED * DType.f32.eps * sizes
    return (*map(real, lost), right + off, right - off)
