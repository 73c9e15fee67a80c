"""Sums of products in references, where some of the numbers are not finite.

Zeros of the padding are not elements: a reference must not multiply them by an infinity, which would give NaN. Such products are left out.
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

    Products that are inf, -inf and NaN are counted separately.
    """
    if np.isfinite(a).all() and np.isfinite(b).all():
        return sum_of(a, b)
    counts = np.ones(a.shape, np.bool_) if is_element is None else is_element
    up_a, down_a, up_b, down_b = (x == sign * np.inf for x in (a, b) for sign in (1, -1))
    every_b = np.ones(b.shape, np.bool_)
    ups = has_product(sum_of, (up_a, b > 0), (down_a, b < 0), (a > 0, up_b), (a < 0, down_b))
    downs = has_product(sum_of, (up_a, b < 0), (down_a, b > 0), (a < 0, up_b), (a > 0, down_b))
    wrong = has_product(sum_of, (np.isnan(a), every_b), (counts, np.isnan(b)), (np.isinf(a), b == 0), (counts & (a == 0), np.isinf(b)))
    total = sum_of(np.where(np.isfinite(a), a, 0.0), np.where(np.isfinite(b), b, 0.0))
    total = np.where(ups, np.inf, np.where(downs, -np.inf, total))
    return np.asarray(np.where(wrong | (ups & downs), np.nan, total))


def has_product(sum_of: SumOf, *pairs: tuple[Array, Array]) -> NDArray[np.bool_]:
    """Where a sum has a product of two elements that are true in one of these pairs."""
    return np.asarray(sum(sum_of(x.astype(np.float64), y.astype(np.float64)) for x, y in pairs) > 0.5, np.bool_)


def others_in_f32(sum_of: SumOf, a: Reals, b: Reals, right: Reals) -> tuple[Reals, ...]:
    """What f32 may give for such sums when products are near the end of its range; () when none are. right: the sums in float64.

    A sum may overflow where the magnitudes of its products add up to more than the largest f32. Other sums have an error of some eps of
    these magnitudes, which may exceed a tolerance that is relative to small neighbouring results (compare.py).
    """
    x, y = (np.where(np.isfinite(x), np.abs(x), 0.0) for x in (a, b))
    if x.max(initial=0.0) * y.max(initial=0.0) * x.size < overflow.MOST:
        return ()
    sizes = sum_of(x, y)
    lost = (outs[0] for outs in overflow.overflowed((right,), (overflow.is_beyond(sizes),)))
    off = overflow.ROUNDED * DType.f32.eps * sizes
    return (*map(real, lost), right + off, right - off)
