"""benchdnn's test data for element-wise ops: two operands, activations, conversions, PReLU; and for pools and interpolation."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isfinite

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import TensorType
from benchgraph.ops.fill_rules.filling import always, by_element, by_index, constant, integers
from benchgraph.ops.fill_rules.noise import Noise, Positions
from benchgraph.ops.fill_rules.products import DIGITS
from benchgraph.ops.spec import Array, Attr, Call, Filling, FillRule


def _without_zeros(filling: Filling) -> Filling:
    """A divisor: zeros replaced by 1."""

    def make(t: TensorType, noise: Noise) -> Array:
        made = filling.make(t, noise)
        return np.where(made == 0, np.ones((), made.dtype), made)

    return Filling(f"{filling.description}, 1 for 0", make)


_FIRST, _SECOND = integers(-8, 8, scale=0.5), _without_zeros(integers(-8, 8))
CONDITION = integers(0, 8)  # 0 is false: one of nine


def binary(call: Call, port: int) -> Filling:
    """Halves in [-4, 4] and integers in [-8, 8] without 0."""
    return _FIRST if port == 0 else _SECOND


def select(call: Call, port: int) -> Filling:
    return CONDITION if port == 0 else binary(call, port - 1)


ELTWISE_ZEROS = 0.65  # the largest share of zeros to trust
PHASES = 13
SMALL = 0.09  # logarithms of numbers near 1 lose digits
EDGES = (88.0, 22.0, 44.0)  # log(FLT_MAX) = 88.72, where exp overflows; a quarter and a half of it, where e**4x and e**2x do


def eltwise(alpha: float = 0.0, beta: float = 0.0, first: tuple[float, ...] = ()) -> Filling:
    """A pattern of 13 by position: integers to 10 and reals to 0.09 of both signs, ten times those, the edges of exp, alpha, beta.

    first: what the first elements are instead.
    """

    def pattern(at: Positions, noise: Noise) -> Array:
        integer, real = noise.integers(0, 10, at).astype(np.float64), SMALL * noise.unit(at, lane=1)
        phase = at % PHASES
        sign = np.where(phase % 2 == 0, 1.0, -1.0)
        values = sign * np.select([phase < 2, phase < 4, phase < 6, phase < 8], [integer, real, 10 * integer, 10 * real], 0.0)
        edge = np.select([phase == 8, phase == 9, phase == 10], EDGES, 0.0)
        values = np.where(edge > 0, edge + 10 * real, values)
        values = np.select([phase == 11, phase == 12], [np.float64(alpha), np.float64(beta)], values)
        for i, number in enumerate(first):
            values[at == i] = number
        return np.asarray(values + 0.0)  # no -0, whose sign a reciprocal would show

    return by_index(f"13 phases: integers to 100, reals to 0.9, near {', '.join(f'{e:g}' for e in EDGES)}, {alpha:g}, {beta:g}", pattern)


def activation(schema: Mapping[str, Attr], first: tuple[float, ...] = (), alpha_beta: tuple[float, ...] = ()) -> FillRule:
    """The pattern with an op's first two f32 attributes as alpha and beta, or those that are given; with 0 for a bound that is infinite."""
    names = [name for name, attr in schema.items() if attr.type == "f32"]

    def rule(call: Call, port: int) -> Filling:
        alpha, beta = (number if isfinite(number) else 0.0 for number in (*alpha_beta, *map(call.attrs.real, names), 0.0, 0.0)[:2])
        return eltwise(alpha, beta, first)

    return rule


INFINITIES = (inf, -inf)  # further test data of Log

REALS = 6  # real numbers after each copy of the table: integers and halves do not distinguish rounding from truncation


def conversion(call: Call, port: int) -> Filling:
    """The largest and the least number, then 0, 0.25, 0.5, 1, 1.5, 2, 16, 64, then (not benchdnn's) reals in [-4, 4), repeated.

    The largest float is the last of the consecutive integers that it, and the float it is cast to, represent exactly.
    """
    types = (call.ins[0].dtype, *(t.dtype for t in call.outs[:1] if t.dtype.is_float))
    digits = min(DIGITS[t] for t in types)

    def values(dtype: DType, at: Positions, noise: Noise) -> Array:
        low, high = (-(2.0**digits), 2.0**digits) if dtype.is_float else dtype.range
        table = np.array([high, low, 0, 0.25, 0.5, 1, 1.5, 2, 16, 64])
        phase = at % (len(table) + REALS)
        return np.where(phase < len(table), table[np.minimum(phase, len(table) - 1)], 8 * noise.unit(at) - 4)

    return by_element("largest, least, 0, 0.25, 0.5, 1, 1.5, 2, 16, 64, reals in [-4, 4)", values)


def prelu(call: Call, port: int) -> Filling:
    """src and diff_dst: 0, 1, 2; slope: powers of two from 1/8 to 8. One of ten is negative."""

    def values(at: Positions, noise: Noise) -> Array:
        sizes = np.exp2(noise.integers(-3, 3, at)) if port == 1 else noise.integers(0, 2, at)
        return np.asarray(np.where(noise.chance(0.1, at, lane=1), -1.0, 1.0) * sizes)

    return by_index(f"{'powers of two from 1/8 to 8' if port == 1 else 'of 0, 1, 2'}, 10% of them negative", values)


_POOL = {DType.f32: 2048, DType.bf16: 32, DType.f16: 32}


def pool(*, signed: bool) -> FillRule:
    """Integers: of f32 to 2048, of a narrower float to 32."""

    def rule(call: Call, port: int) -> Filling:
        t = call.ins[port].dtype
        low, high = (-_POOL[t], _POOL[t]) if t in _POOL else (int(t.range[0]), int(t.range[1]))
        return integers(low if signed else max(low, 0), high)

    return rule


def interpolate(call: Call, port: int) -> Filling:
    """(97 * i + c) mod 17, times 1.25 in f32 and 1/16 in a narrower float; c is random."""

    def values(dtype: DType, at: Positions, noise: Noise) -> Array:
        start = noise.integers(0, 16, np.zeros(1, np.int64))
        return (97 * at + start) % 17 * (1 / 16 if dtype in (DType.bf16, DType.f16) else 1.25)

    return by_element("(97 i + c) mod 17, times 1.25 or 1/16", values)


CONCAT = always(integers(-128, 255))
ZERO = constant(0)
