"""What a strategy is: a description and a function of the element's position. And the strategies that many ops share.

A row's strategy is `fill(call, port) -> Filling`. The filling then makes a tensor, mostly the port's own; a displacement rule may have it
make another one, further up in the graph, of another shape and dtype. Every value is one that the dtype holds exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import TensorType
from benchgraph.ops.spec import Array, Filling, Strategy
from benchgraph.ops.strategies.noise import Noise, Positions

CHUNK = 1 << 15  # elements made together: the temporaries stay in the L2 cache


def stored(values: Array, dtype: DType) -> Array:
    """The values in the dtype's range, rounded to it; booleans: which are not 0."""
    if dtype is DType.boolean:
        return np.asarray(values != 0)
    if dtype.is_integer:
        values = np.rint(values)
    with np.errstate(over="ignore"):
        return np.asarray((np.clip(values, *dtype.range) if dtype.is_integer else values).astype(dtype.numpy))


def by_element(says: str, values: Callable[[DType, Positions, Noise], Array]) -> Filling:
    """A filling whose elements are a function of their row-major positions; made chunk by chunk, for large tensors."""

    def make(t: TensorType, noise: Noise) -> Array:
        made = np.empty(t.elements, t.dtype.numpy)
        for start in range(0, t.elements, CHUNK):
            at = np.arange(start, min(start + CHUNK, t.elements))
            made[start : start + CHUNK] = stored(values(t.dtype, at, noise), t.dtype)
        return made.reshape(t.shape)

    return Filling(says, make)


def within(low: int, high: int, dtype: DType) -> tuple[int, int]:
    """The part of a range that a dtype has. A boolean has all of it: what is not 0 is true."""
    if dtype is DType.boolean:
        return low, high
    least, most = dtype.range
    return int(max(low, least)), int(min(high, most))


def integers(low: int, high: int, density: float = 1.0, *, step: int = 1, scale: float = 1.0, starts_positive: bool = False) -> Filling:
    """Uniform multiples of step from low to high, times scale, as far as the dtype has them; but for a share of 1 - density, zeros.

    starts_positive: the first element is above 0, so that no tensor is all zeros.
    """
    sparse = f", {density:.2%} of them" if density < 1 else ""
    says = f"integers in [{low}, {high}]{f' by {step}' if step > 1 else ''}{f' times {scale:g}' if scale != 1 else ''}{sparse}"

    def table(dtype: DType) -> Array:
        bounds = within(low, high, dtype)
        return np.arange(-(-bounds[0] // step) * step, bounds[1] + 1, step) * scale

    return _drawn(says, table, density, starts_positive)


def _drawn(says: str, table: Callable[[DType], Array], density: float, starts_positive: bool = False) -> Filling:
    """Numbers of a table that goes with the dtype, in ascending order if the first element is to be positive, and zeros."""

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

    return Filling(says, make)


def choices(numbers: Sequence[float], density: float = 1.0) -> Filling:
    """Numbers picked at random, each as often as the others; but for a share of 1 - density, zeros."""
    sparse = f", {density:.2%} of them" if density < 1 else ""
    return _drawn(f"of {', '.join(f'{n:g}' for n in numbers)}{sparse}", lambda dtype: np.array(numbers, np.float64), density)


def constant(number: float) -> Filling:
    return by_element(f"{number:g}", lambda dtype, at, noise: np.full(at.shape, number))


def exactly(array: Array, says: str) -> Filling:
    """These elements, cut off or repeated if the tensor has another number of them."""
    return Filling(says, lambda t, noise: stored(np.resize(array, t.shape), t.dtype))


def always(filling: Filling) -> Strategy:
    """The same filling for every port."""
    return lambda call, port: filling


def per_port(*strategies: Strategy) -> Strategy:
    """A strategy for each input port; the last one serves the ports after it too."""
    return lambda call, port: strategies[min(port, len(strategies) - 1)](call, port)


def by_index(says: str, value: Callable[[Positions, Noise], Array]) -> Filling:
    """As `by_element`, for values that no dtype changes."""
    return by_element(says, lambda dtype, at, noise: value(at, noise))


# What is only moved: small, and of either sign
MOVED = always(integers(-8, 7))
