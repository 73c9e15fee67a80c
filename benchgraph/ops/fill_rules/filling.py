"""Fillings as functions of the element's position, and strategies that many ops share.

A row's fill rule is `fill(call, port) -> Filling`. The filling makes a tensor, mostly the port's; a displacement rule may use it for one
earlier in the graph, of another shape and dtype. Every value is exact in its dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import TensorType
from benchgraph.ops.fill_rules.noise import Noise, Positions
from benchgraph.ops.spec import Array, Filling, FillRule

CHUNK = 1 << 15  # elements made at once: the temporaries stay in L2


def stored(values: Array, dtype: DType) -> Array:
    """The values clamped to the dtype's range and rounded; booleans: whether they are not 0."""
    if dtype is DType.boolean:
        return np.asarray(values != 0)
    if dtype.is_integer:
        values = np.rint(values)
    with np.errstate(over="ignore"):
        return np.asarray((np.clip(values, *dtype.range) if dtype.is_integer else values).astype(dtype.numpy))


def by_element(description: str, values: Callable[[DType, Positions, Noise], Array]) -> Filling:
    """A filling whose elements are a function of their row-major positions; made chunk by chunk, for large tensors."""

    def make(t: TensorType, noise: Noise) -> Array:
        made = np.empty(t.elements, t.dtype.numpy)
        for start in range(0, t.elements, CHUNK):
            at = np.arange(start, min(start + CHUNK, t.elements))
            made[start : start + CHUNK] = stored(values(t.dtype, at, noise), t.dtype)
        return made.reshape(t.shape)

    return Filling(description, make)


def within(low: int, high: int, dtype: DType) -> tuple[int, int]:
    """The part of a range that a dtype can represent; all of it for booleans, where not 0 is true."""
    if dtype is DType.boolean:
        return low, high
    least, most = dtype.range
    return int(max(low, least)), int(min(high, most))


def integers(low: int, high: int, density: float = 1.0, *, step: int = 1, scale: float = 1.0, starts_positive: bool = False) -> Filling:
    """Uniform multiples of step from low to high, times scale, within the dtype's range; a share of 1 - density is 0.

    starts_positive: the first element is above 0, so that no tensor is all zeros.
    """
    sparse = f", {density:.2%} of them" if density < 1 else ""
    description = f"integers in [{low}, {high}]{f' by {step}' if step > 1 else ''}{f' times {scale:g}' if scale != 1 else ''}{sparse}"

    def table(dtype: DType) -> Array:
        bounds = within(low, high, dtype)
        return np.arange(-(-bounds[0] // step) * step, bounds[1] + 1, step) * scale

    return _drawn(description, table, density, starts_positive)


def _drawn(description: str, table: Callable[[DType], Array], density: float, starts_positive: bool = False) -> Filling:
    """Random numbers of a table for the dtype (ascending, if starts_positive), and zeros."""

    def make(t: TensorType, noise: Noise) -> Array:
        numbers = stored(table(t.dtype), t.dtype)
        made = np.empty(t.elements, t.dtype.numpy)
        for chunk, start in enumerate(range(0, t.elements, CHUNK)):
            rng, part = noise.chunk(chunk), made[start : start + CHUNK]
            part[...] = numbers[rng.integers(0, len(numbers), part.size, np.uint16)]
            if chunk == 0 and starts_positive and not np.all(part[:1] > 0):
                part[:1] = numbers[-1]
            if density < 1:
                kept = rng.random(part.size, np.float32) < density
                kept[:1] |= chunk == 0 and starts_positive
                part[~kept] = 0
        return made.reshape(t.shape)

    return Filling(description, make)


def choices(numbers: Sequence[float], density: float = 1.0) -> Filling:
    """Numbers picked at random, equally often; a share of 1 - density is 0."""
    sparse = f", {density:.2%} of them" if density < 1 else ""
    return _drawn(f"of {', '.join(f'{n:g}' for n in numbers)}{sparse}", lambda dtype: np.array(numbers, np.float64), density)


def constant(number: float) -> Filling:
    return by_element(f"{number:g}", lambda dtype, at, noise: np.full(at.shape, number))


def exactly(array: Array, description: str) -> Filling:
    """These elements, cut off or repeated to the tensor's size."""
    return Filling(description, lambda t, noise: stored(np.resize(array, t.shape), t.dtype))


def always(filling: Filling) -> FillRule:
    """The same filling for every port."""
    return lambda call, port: filling


def per_port(*rules: FillRule) -> FillRule:
    """A fill rule for each input port; the last one serves the ports after it too."""
    return lambda call, port: rules[min(port, len(rules) - 1)](call, port)


def by_index(description: str, value: Callable[[Positions, Noise], Array]) -> Filling:
    """As `by_element`, for values that do not depend on the dtype."""
    return by_element(description, lambda dtype, at, noise: value(at, noise))


# For layout ops: small, of either sign
MOVED = always(integers(-8, 7))
