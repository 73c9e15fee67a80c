"""Softmax and reductions: few numbers of a row contribute, and these exactly."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import TensorType
from benchgraph.ops.fill_rules.filling import always, by_element, by_index, choices, integers, stored
from benchgraph.ops.fill_rules.noise import Noise, Positions
from benchgraph.ops.fill_rules.products import ACCUMULATOR, DIGITS
from benchgraph.ops.spec import Array, Call, Filling, FillRule

EDGE = 88  # exp overflows beyond log(FLT_MAX) = 88.72: a maximum that is not subtracted is noticed
TOPS = ((2, 1, 2), (1, 2, 5), (0, 5, 8))  # (above the edge, fewest, most) of a row's largest, second, third numbers


def softmax(axis: Callable[[Call], int]) -> FillRule:
    """Rows of the type's least number with some near +88 (even rows) or -88 (odd rows): several share the largest one."""

    def rule(call: Call, port: int) -> Filling:
        along = axis(call)

        def make(t: TensorType, noise: Noise) -> Array:
            size = t.shape[along]
            count = t.elements // size if size else 0
            rows = np.arange(count)
            rows_of_data = np.full((count, size), t.dtype.range[0])
            sign = np.where(rows % 2 == 0, 1.0, -1.0)
            start, stride = noise.integers(0, max(size - 1, 0), rows), _stride(size)
            used = np.zeros(count, np.int64)
            positions = list[tuple[int, Positions, Positions]]()
            for lane, (above, fewest, most) in enumerate(TOPS, start=1):
                number = noise.integers(fewest, most, rows, lane)
                for pick in range(most):
                    chosen = np.flatnonzero(pick < number)
                    positions.append((above, chosen, (start + (used + pick) * stride)[chosen] % max(size, 1)))
                used += number
            for above, chosen, at in reversed(positions):  # in a short row positions may coincide: the largest number wins
                rows_of_data[chosen, at] = sign[chosen] * EDGE + above
            others = tuple(d for i, d in enumerate(t.shape) if i != along)
            return np.ascontiguousarray(np.moveaxis(stored(rows_of_data, t.dtype).reshape((*others, size)), -1, along))

        return Filling("the least number, and per row up to 15 near 88 or -88", make)

    return rule


def _stride(size: int) -> int:
    """A step that visits all positions of a row, scattered: coprime to size, near its golden section."""
    return next((n for n in range(max(int(0.618 * size), 1), size) if gcd(n, size) == 1), 1)


def softmax_zeros(size: int) -> float:
    """The share of zeros to trust: all but the fewest numbers that a row has near the edge."""
    return max(0.0, 1 - sum(fewest for _, fewest, _ in TOPS) / max(size, 1))


RAMP = 128


def ramp(sign: int) -> FillRule:
    """Multiples of 1/128 below 1, of one sign: in a gradient's sums nothing cancels."""

    def values(at: Positions, noise: Noise) -> Array:
        start = noise.integers(0, RAMP - 1, np.zeros(1, np.int64))
        return sign * ((11 * at + start) % RAMP) / RAMP

    return always(by_index(f"a ramp of 128 steps from 0 to {sign}", values))


LARGEST = 16
FACTORS = 10  # of a product that are not 1: powers of two whose product every float holds


def total(reduced_size: Callable[[Call], int], shift: int = 0) -> FillRule:
    """Integers to 16, as many of them not 0 as dst and the accumulator have digits for; plus shift, for a mean."""

    def rule(call: Call, port: int) -> Filling:
        exact = 2 ** min(DIGITS[call.outs[0].dtype], ACCUMULATOR) // LARGEST  # as for MatMul, with numbers instead of products
        density = min(1.0, exact / max(reduced_size(call), 1))
        if not shift:
            return integers(-LARGEST, LARGEST, density, starts_positive=True)
        plain = integers(-LARGEST, LARGEST, density)
        shifted = f"{plain.description}, plus {shift}"
        return Filling(shifted, lambda t, noise: stored(plain.make(t, noise).astype(np.float64) + shift, t.dtype))

    return rule


def extreme(sign: int) -> FillRule:
    """sign 1: for a maximum. Integers to 16, half of them replaced by the type's number that can never be it."""

    def values(dtype: DType, at: Positions, noise: Noise) -> Array:
        return np.where(noise.chance(0.5, at, lane=1), noise.integers(-LARGEST, LARGEST, at), dtype.range[0 if sign > 0 else 1])

    return always(by_element(f"integers in [-16, 16], half of them {'least' if sign > 0 else 'largest'} numbers", values))


def product(reduced_size: Callable[[Call], int]) -> FillRule:
    """Ones, and on the average ten of 1/2, 2 and their negatives per product."""

    def rule(call: Call, port: int) -> Filling:
        share = min(1.0, FACTORS / max(reduced_size(call), 1))
        factors = choices((0.5, 2.0, -0.5, -2.0))

        def make(t: TensorType, noise: Noise) -> Array:
            made = factors.make(t, noise)
            kept = noise.chance(share, np.arange(t.elements), lane=2).reshape(t.shape)
            return np.where(kept, made, np.ones((), made.dtype))

        return Filling(f"1, and {share:.2%} {factors.description}", make)

    return rule
