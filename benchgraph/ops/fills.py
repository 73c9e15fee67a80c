"""Test data: real-valued, of moderate size, already representable in the port's dtype.

The ranges keep the variance of activations about constant through a network, so that deep graphs neither overflow nor vanish.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape
from benchgraph.ops.spec.call import Array, Call, Domain

INTEGER_LIMIT = 1000.0  # for s32 and s64: sums and products of a few such numbers stay exact in f32


def rounded(values: Array, dtype: DType) -> NDArray[np.float64]:
    """The values of a float array as they are once stored in `dtype` (nearest even), as float64."""
    return values.astype(dtype.numpy).astype(np.float64)


def integers(dtype: DType, shape: Shape, rng: np.random.Generator) -> Array:
    """Uniform over the full range of an integer type, or [-1000, 1000] of a wide one, in that type; booleans are fair coins."""
    if dtype is DType.boolean:
        return rng.integers(0, 2, shape, dtype=np.uint8).astype(np.bool_)
    low, high = dtype.range
    bounds = int(max(low, -INTEGER_LIMIT)), int(min(high, INTEGER_LIMIT))
    return rng.integers(*bounds, shape, dtype=dtype.numpy.type, endpoint=True)


def reals(low: float, high: float, shape: Shape, rng: np.random.Generator) -> NDArray[np.float32]:
    """Uniform f32 numbers in [low, high)."""
    unit = np.asarray(rng.random(shape, dtype=np.float32))
    unit *= np.float32(high - low)
    unit += np.float32(low)
    return unit


def uniform(low: float, high: float) -> Domain:
    """Floats uniform in [low, high); integer and boolean ports as in `integers`."""

    def fill(call: Call, port: int, rng: np.random.Generator) -> Array:
        t = call.ins[port]
        return rounded(reals(low, high, t.shape, rng), t.dtype) if t.dtype.is_float else integers(t.dtype, t.shape, rng)

    return fill


def stepped(low: float, high: float, step: float) -> Domain:
    """As `uniform`, but floats are multiples of `step`, so that ties and equal operands occur; integers are in [-4, 4]."""

    def fill(call: Call, port: int, rng: np.random.Generator) -> Array:
        t = call.ins[port]
        if not t.dtype.is_float:
            return rng.integers(-4, 4, t.shape, dtype=t.dtype.numpy.type, endpoint=True)
        steps = np.asarray(np.rint(reals(low / step, high / step, t.shape, rng)))
        return rounded(np.asarray(steps * np.float32(step)), t.dtype)

    return fill


def of_either_sign(low: float, high: float) -> Domain:
    """Magnitudes uniform in [low, high) with a random sign."""

    def fill(call: Call, port: int, rng: np.random.Generator) -> Array:
        t = call.ins[port]
        sizes = reals(low, high, t.shape, rng)
        np.negative(sizes, out=sizes, where=rng.integers(0, 2, t.shape, dtype=np.uint8).astype(np.bool_))
        return rounded(sizes, t.dtype)

    return fill


def per_port(*domains: Domain) -> Domain:
    """A domain for each input port; the last one serves the ports after it too."""
    return lambda call, port, rng: domains[min(port, len(domains) - 1)](call, port, rng)


PLAIN = uniform(-2, 2)
AWAY_FROM_ZERO = of_either_sign(0.5, 2)  # divisors
MEAN_ONE = uniform(-1, 3)  # sums of many are far from 0, where a relative error is meaningful, and a missing mean is noticed
