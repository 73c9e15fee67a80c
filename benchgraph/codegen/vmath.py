"""exp, log, tanh, erf, rounding and floor of f32 values with any number of lanes, as branch-free LLVM IR.

The transcendental ones go through multiply-adds that fuse where the machine has fma; the bounds below hold with and without. An ulp is
the spacing of f32 numbers at the true result. The bounds are measured against float64 on millions of arguments over the whole range of
f32 (tests/codegen/test_vmath.py), and were once on every f32 between 2**-11 and 10 in size (exp: 88). The coefficients come from
tests/codegen/fit_vmath.py. NaN stays NaN; zeros keep their sign where the function is odd.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from llvmlite import ir

from benchgraph.codegen.intrinsics import I32, constant, has_rounding, pointwise, same_lanes
from benchgraph.core.target import Isa

# (e**r - 1) / r on [-ln2/2, ln2/2], lowest power first; relative error of e**r - 1: 1.4e-8
EXPM1 = (1.0, 0.4999999701976776, 0.1666654646396637, 0.04166744276881218, 0.008366253226995468, 0.0013869948452338576)
# (log(1 + f) - f + f*f/2) / f**3 on [sqrt(1/2) - 1, sqrt(2) - 1]; relative error of log(1 + f): 5.9e-9
LOG1P = (
    0.3333333134651184, -0.2500081956386566, 0.2000124156475067, -0.166234090924263,
    0.14201579988002777, -0.13159610331058502, 0.12762217223644257, -0.07636439055204391,
)  # fmt: skip
# -log(1 - erf(x)) / x on [0, 4]; relative error of erf(x): 5.2e-8
ERF_EXPONENT = (
    1.128379225730896, 0.6366152763366699, 0.1028265655040741, -0.019364167004823685,
    0.0002728514082264155, 0.0011994929518550634, -0.00036157359136268497, 3.7965910451021045e-05,
)  # fmt: skip

_LOG2E = 1.4426950408889634
_LN2_HIGH = 0.693359375  # 355 / 512: nine bits, so n * _LN2_HIGH is exact for |n| < 2**15
_LN2_LOW = -2.1219444005469057e-4
_ROUNDER = 12582912.0  # 1.5 * 2**23: adding it rounds to an integer, which then stands in the low mantissa bits
_MANTISSA_BITS = 23


def exp(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """e**x within 1.2 ulp where the result is a normal number above 1.7e-38 (x > -86.98); 0 below; inf above 88.7228.

    14 instructions: two for the clamps, two for n = round(x / ln2), two for r = x - n * ln2, six for 2 * e**r, and two to multiply by
    2**(n - 1). That power of two is one less than n so that n = 128, which finite results need, still has a factor that f32 can hold.
    The price is n = -126, whose factor 2**-127 has no exponent left and is 0: no one factor serves both ends of the 255 powers.
    """
    x = _clamp(builder, x, -87.33, 89.0)
    r, scale = _reduce(builder, x, exponent_bias=126)
    doubled = _polynomial(builder, r, [2.0, *(2.0 * c for c in EXPM1)])
    return builder.fmul(doubled, scale)


def log(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """The natural logarithm within 1 ulp, subnormal arguments included; log(0) = -inf, NaN for x < 0."""
    type = x.type
    int_type = same_lanes(x, I32)
    tiny = builder.fcmp_ordered("<", x, constant(type, float(np.finfo(np.float32).tiny)))
    normal = builder.select(tiny, builder.fmul(x, constant(type, 2.0**_MANTISSA_BITS)), x)
    bits = builder.bitcast(normal, int_type)
    above_root_half = builder.sub(bits, constant(int_type, 0x3F3504F3))  # the bits of sqrt(1/2): the mantissa lands in [0.707, 1.414)
    whole = builder.ashr(above_root_half, constant(int_type, _MANTISSA_BITS))
    mantissa = builder.bitcast(builder.sub(bits, builder.shl(whole, constant(int_type, _MANTISSA_BITS))), type)
    shifted = builder.sub(whole, constant(int_type, _MANTISSA_BITS))
    n = builder.sitofp(builder.select(tiny, shifted, whole), type)

    f = builder.fsub(mantissa, constant(type, 1.0))
    square = builder.fmul(f, f)
    cubic = builder.fmul(_polynomial(builder, f, LOG1P), f)
    tail = _multiply_add(builder, square, cubic, builder.fmul(n, constant(type, _LN2_LOW)))
    tail = _multiply_add(builder, square, constant(type, -0.5), tail)
    finite = _multiply_add(builder, n, constant(type, _LN2_HIGH), builder.fadd(f, tail))

    infinity = constant(type, float("inf"))
    bounded = builder.select(builder.fcmp_ordered("<", x, infinity), finite, x)  # inf and NaN are their own logarithms
    is_zero = builder.fcmp_ordered("==", x, constant(type, 0.0))
    pole = builder.select(is_zero, constant(type, float("-inf")), constant(type, float("nan")))
    return builder.select(builder.fcmp_unordered(">", x, constant(type, 0.0)), bounded, pole)


def tanh(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """The hyperbolic tangent within 3.5 ulp; never beyond 1 in size. (e**2x - 1) / (e**2x + 1) for x >= 0, mirrored below."""
    type = x.type
    size = _at_most(builder, pointwise(builder, "fabs", x), 9.5)  # tanh(9.5) rounds to 1
    r, scale = _reduce(builder, size, exponent_bias=127, per_unit=2.0)
    small = builder.fmul(_polynomial(builder, r, [2.0 ** (k + 1) * c for k, c in enumerate(EXPM1)]), r)
    grown = _multiply_add(builder, small, scale, builder.fsub(scale, constant(type, 1.0)))
    return pointwise(builder, "copysign", builder.fdiv(grown, builder.fadd(grown, constant(type, 2.0))), x)


def erf(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """The error function within 3.7 ulp; never beyond 1 in size. 1 - e**-g(x) for x >= 0, with g a polynomial; mirrored below."""
    type = x.type
    size = _at_most(builder, pointwise(builder, "fabs", x), 3.95)  # erf(3.95) rounds to 1
    exponent = builder.fneg(builder.fmul(_polynomial(builder, size, ERF_EXPONENT), size))
    r, scale = _reduce(builder, exponent, exponent_bias=127)
    small = builder.fmul(_polynomial(builder, r, EXPM1), r)
    return pointwise(builder, "copysign", _multiply_add(builder, small, scale, builder.fsub(scale, constant(type, 1.0))), x)


def round_even(builder: ir.IRBuilder, x: ir.Value, isa: Isa) -> ir.Value:
    """x rounded to a whole number, halves to even. Exact for every x."""
    if has_rounding(isa):
        return pointwise(builder, "roundeven", x)
    size, grid = pointwise(builder, "fabs", x), constant(x.type, 2.0**_MANTISSA_BITS)  # f32 numbers from 2**23 on are whole
    rounded = builder.fsub(builder.fadd(size, grid), grid)
    return pointwise(builder, "copysign", builder.select(builder.fcmp_ordered("<", size, grid), rounded, size), x)


def floor(builder: ir.IRBuilder, x: ir.Value, isa: Isa) -> ir.Value:
    """The largest whole number not above x. Exact for every x."""
    if has_rounding(isa):
        return pointwise(builder, "floor", x)
    nearest = round_even(builder, x, isa)
    below = builder.fsub(nearest, constant(x.type, 1.0))
    return builder.select(builder.fcmp_ordered(">", nearest, x), below, nearest)


def _reduce(builder: ir.IRBuilder, x: ir.Value, exponent_bias: int, per_unit: float = 1.0) -> tuple[ir.Value, ir.Value]:
    """(r, 2**(n + exponent_bias - 127)) with x = r + n * ln2 / per_unit and |r| <= ln2 / 2 / per_unit.

    The sum with _ROUNDER holds n + exponent_bias in its low bits: shifted up, they are the exponent field of the scale.
    """
    type, int_type = x.type, same_lanes(x, I32)
    rounder = constant(type, _ROUNDER + exponent_bias)
    rounded = _multiply_add(builder, x, constant(type, _LOG2E * per_unit), rounder)
    n = builder.fsub(rounded, rounder)
    r = _multiply_add(builder, n, constant(type, -_LN2_HIGH / per_unit), x)
    r = _multiply_add(builder, n, constant(type, -_LN2_LOW / per_unit), r)
    scale = builder.shl(builder.bitcast(rounded, int_type), constant(int_type, _MANTISSA_BITS))
    return r, builder.bitcast(scale, type)


def _polynomial(builder: ir.IRBuilder, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    """Horner's rule; coefficients from the lowest power."""
    *lower, highest = (constant(x.type, c) for c in coefficients)
    total: ir.Value = highest
    for c in reversed(lower):
        total = _multiply_add(builder, total, x, c)
    return total


def _multiply_add(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return pointwise(builder, "fmuladd", a, b, c)


def _clamp(builder: ir.IRBuilder, x: ir.Value, low: float, high: float) -> ir.Value:
    least = constant(x.type, low)
    return _at_most(builder, builder.select(builder.fcmp_ordered(">", least, x), least, x), high)


def _at_most(builder: ir.IRBuilder, x: ir.Value, high: float) -> ir.Value:
    """min(high, x) in the operand order that keeps a NaN: one minps."""
    most = constant(x.type, high)
    return builder.select(builder.fcmp_ordered("<", most, x), most, x)
