"""Norms: data whose statistics are exact. The mean of a group is a power of two, and its numbers are pairs at equal distances of a few bits
from the mean: their sum and the sum of their squares then have no more digits than f32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log2, prod
from typing import TypeAlias

import numpy as np

from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops.fill_rules.filling import CHUNK, always, by_index, stored
from benchgraph.ops.fill_rules.noise import Noise, Positions
from benchgraph.ops.fill_rules.products import ACCUMULATOR, DIGITS
from benchgraph.ops.spec import Array, Call, Filling, FillRule

MEANS = 7  # powers of two from 1/4 on
BITS, LEAST_BITS = 6, 3  # of a number's distance from the mean, over the mean


@dataclass(frozen=True)
class Norm:
    """The problem of a norm. shape: src's dims, with channels split into groups for GroupNorm. axes: those normalised together. affine: the
    shape of gamma and beta that broadcasts against `shape`."""

    shape: Shape
    axes: tuple[int, ...]
    affine: Shape

    @property
    def reduced_size(self) -> int:
        """The number of elements that are normalised together."""
        return prod(self.shape[axis] for axis in self.axes)


NormOf: TypeAlias = Callable[[Call], Norm]


def mean_of(group: Positions) -> Array:
    return np.asarray(0.25 * np.exp2(group % MEANS))


def _bits(digits: int, count: int) -> tuple[int, float]:
    """The bits of a distance with which `count` squares sum exactly, and the share of pairs that may differ from the mean."""
    spare = ACCUMULATOR - (ceil(log2(count)) if count > 1 else 0)
    bits = min(BITS, digits - 2, spare // 2)
    if bits >= min(LEAST_BITS, digits - 2):
        return max(bits, 1), 1.0
    bits = max(min(LEAST_BITS, digits - 2), 1)
    return bits, 2.0 ** (spare - 2 * bits)


def _arranged(t: TensorType, norm: Norm, values: Callable[[Positions, Positions], Array]) -> Array:
    """values(group, position in it) of every element, in the tensor's order."""
    shape, axes, count = norm.shape, norm.axes, norm.reduced_size
    kept = tuple(i for i in range(len(shape)) if i not in axes)
    made = np.empty(t.elements, t.dtype.numpy)
    for start in range(0, t.elements, CHUNK):
        at = np.arange(start, min(start + CHUNK, t.elements))
        made[start : start + CHUNK] = stored(values(at // count, at % count), t.dtype)
    arranged = made.reshape(tuple(shape[i] for i in (*kept, *axes)))
    return np.ascontiguousarray(np.moveaxis(arranged, range(len(shape)), (*kept, *axes))).reshape(t.shape)


def paired(norm_of: NormOf) -> FillRule:
    """mean * (1 + f) and mean * (1 - f), f a few random bits; an odd one out is the mean."""

    def rule(call: Call, port: int) -> Filling:
        norm = norm_of(call)
        count = norm.reduced_size
        bits, density = _bits(DIGITS[call.ins[port].dtype], count)

        def make(t: TensorType, noise: Noise) -> Array:
            def values(group: Positions, position: Positions) -> Array:
                pair = group * ((count + 1) // 2) + position // 2
                size = noise.integers(0, 2**bits - 1, pair) / 2.0**bits
                if density < 1:
                    size = size * noise.chance(density, pair, lane=1)
                is_alone = (count % 2 == 1) & (position == count - 1)
                sign = np.where(position % 2 == 0, 1.0, -1.0)
                return np.asarray(mean_of(group) * (1 + np.where(is_alone, 0.0, sign * size)))

            return _arranged(t, norm, values)

        return Filling(f"means 1/4 to 16, pairs around them by {bits} bits{f', {density:.2%} of them' if density < 1 else ''}", make)

    return rule


def beside_the_mean(norm_of: NormOf) -> FillRule:
    """For gradients: the mean plus 1 or minus 1, in pairs."""

    def values(group: Positions, position: Positions) -> Array:
        return np.asarray(mean_of(group) + np.where(position % 2 == 0, 1.0, -1.0))

    return lambda call, port: Filling("means 1/4 to 16, plus or minus 1", lambda t, noise: _arranged(t, norm_of(call), values))


def _signed_power(low: int, high: int, description: str) -> Filling:
    def values(at: Positions, noise: Noise) -> Array:
        return np.exp2(noise.integers(low, high, at)) * np.where(noise.chance(0.5, at, lane=1), -1.0, 1.0)

    return by_index(description, values)


gradient = always(_signed_power(-3, 0, "powers of two from 1/8 to 1 of either sign"))
shift = always(_signed_power(-9, -3, "powers of two from 1/512 to 1/8 of either sign"))
scale = always(by_index("powers of two from 1/8 to 8", lambda at, noise: 0.125 * np.exp2(at % MEANS)))
mean = always(by_index("powers of two from 1/4 to 16", lambda at, noise: mean_of(at)))  # those of `paired` and `beside_the_mean`
variance = always(by_index("of 1/4, 1, 4", lambda at, noise: np.exp2(2.0 * (noise.integers(-1, 1, at)))))
