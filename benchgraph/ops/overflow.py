"""What f32 arithmetic gives where numbers on the way are beyond its range: rows say so in `OpSpec.in_f32`.

A sum that overflows on the way is infinite, or NaN where it did so both ways; which of them depends on its order. Numbers that f32 holds
are as exact as float64 has them here: how far they may be off is the row's threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.ops.laws import Reals
from benchgraph.ops.spec import Array

MOST = DType.f32.range[1]
ANY = (inf, -inf, nan)  # what a sum that overflows may be


def held(values: Reals) -> Reals:
    """Numbers as far as f32 holds them: rounded, infinite beyond its range."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(values, np.float32).astype(np.float64)


def is_beyond(sizes: Reals) -> Array:
    """Where numbers of these sizes, which are sums of sizes, may have been more than f32 holds on the way to a sum."""
    return np.asarray(np.isfinite(sizes) & (sizes > MOST))


def overflowed(right: Sequence[Array], beyond: Sequence[Array]) -> tuple[tuple[Array, ...], ...]:
    """The right outputs with each of ANY where they are beyond, nothing if they nowhere are."""
    if not any(b.any() for b in beyond):
        return ()
    return tuple(tuple(np.where(b, value, r) for r, b in zip(right, beyond, strict=True)) for value in ANY)
