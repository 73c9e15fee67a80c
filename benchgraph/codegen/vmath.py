"""exp, decay, log, tanh, the normal distribution, rounding and floor of f32 values with any number of lanes, as branch-free LLVM IR.

The transcendental ones go through multiply-adds that fuse where the machine has fma; the bounds below hold with and without. An ulp is
the spacing of f32 numbers at the true result. The bounds are measured against float64 on millions of arguments over the whole range of
f32 (tests/codegen/test_vmath.py), and were once on every f32 between 2**-11 and 10 in size (exp: 89). The coefficients come from
tests/codegen/fit_vmath.py. NaN stays NaN; zeros keep their sign where the function is odd.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from benchgraph.codegen import ir
from benchgraph.codegen.intrinsics import (
    I16,
    I32,
    call,
    constant,
    has_fma,
    has_rounding,
    has_scaling,
    lanes_of,
    pointwise,
    same_lanes,
    shuffled,
    splat,
)
from benchgraph.core.dtypes import DType
from benchgraph.machine.target import Isa

# (e**r - 1) / r on [-ln2/2, ln2/2], lowest power first; relative error of e**r - 1: 1.4e-8
EXPM1 = (1.0, 0.4999999701976776, 0.1666654646396637, 0.04166744276881218, 0.008366253226995468, 0.0013869948452338576)
# (e**r - 1) / r on [0, ln2]; relative error of e**r: 2.9e-9
EXP = (1.0, 0.5000022649765015, 0.16663210093975067, 0.0418543666601181, 0.007869288325309753, 0.001912050531245768)
# (e**r - 1 - r) / r**2 on [-ln2/32, ln2/32]; relative error of e**r: 1.6e-9
STEP = (0.5000161528587341, 0.166667178273201)
# (log(1 + f) - f + f*f/2) / f**3 on [sqrt(1/2) - 1, sqrt(2) - 1]; relative error of log(1 + f): 5.9e-9
LOG1P = (
    0.3333333134651184, -0.2500081956386566, 0.2000124156475067, -0.166234090924263,
    0.14201579988002777, -0.13159610331058502, 0.12762217223644257, -0.07636439055204391,
)  # fmt: skip
# e**(t*t/2) * cdf(-t), t on [0, 13.3], is the quotient of these two, lowest power first; relative error: 3.2e-8
TAIL = (0.5, 0.4356864392757416, 0.1813068389892578, 0.03998419642448425, 0.0040201954543590546)
TAIL_BELOW = (1.0, 1.6692577600479126, 1.1944845914840698, 0.46438053250312805, 0.10023290663957596, 0.010076991282403469)

_LOG2E = 1.4426950408889634
_LN2_HIGH = 0.693359375  # 355 / 512: nine bits, so n * _LN2_HIGH is exact for |n| < 2**15
_LN2_LOW = -2.1219444005469057e-4
_ROUNDER = 12582912.0  # 1.5 * 2**23: adding it rounds to an integer, which then stands in the low mantissa bits
_MANTISSA_BITS = 23
_EXPONENT_BIAS = 127
_STEPS = 16  # as many f32 as a register holds
_STEP_ROUNDER = 1.5 * 2.0**19  # adding it rounds to a multiple of 1/16
_LEAST_NORMAL = -87.33654  # the least f32 whose e**x is a normal number
_CURRENT_ROUNDING = 4  # an instruction's operand: no rounding of its own
_TWELVE_BITS = 0xFFFFF000  # of a mantissa, with sign and exponent
_NO_TAIL = 13.25  # e**(-t*t/2) is below the normal numbers from 13.22 on


def exp(builder: ir.IRBuilder, x: ir.Value, isa: Isa) -> ir.Value:
    """e**x within 1.5 ulp, 1.8 without fma, where the result is a normal number (x > -87.3365); 0 below; inf above 88.7228.

    15 instructions: two for the clamps, three for n = floor(x / ln2), two for r = x - n * ln2, six for e**r, and two to multiply by 2**n.
    With r >= 0, n is between -126 and 127 for all normal results, and at -127 the bits of the factor are those of 0. Results below the
    normal numbers are 0 on purpose: multiplications with subnormal results take a hundred times as long, and masked scores are frequent.

    With AVX-512 it is 12 instructions, a third fewer in sequence, and 1 ulp: see `_exp_in_steps` and docs/measurements/codegen.md.
    """
    if has_scaling(isa):
        return _in_vectors_of(builder, x, _STEPS, _exp_in_steps)
    x = _clamp(builder, x, -88.0, 89.0)
    n, scale = _power_below(builder, x)
    return builder.fmul(_exp_of_remainder(builder, _minus_multiple_of_ln2(builder, x, n)), scale)


def _exp_in_steps(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """exp of 16 lanes of f32: e**x = 2**n * 2**(j/16) * e**r, n + j/16 being the 16th nearest to x / ln2.

    Adding _STEP_ROUNDER to x / ln2 rounds it to n + j/16, with j in the low bits of the sum: two instructions. Two compute r, one looks up
    2**(j/16) in a register, four multiply it by e**r: as |e**r - 1| < 0.022, the errors are those of the table and of the last addition.
    One scales by 2**n, which gives inf for large x. One clamps x above; one compares which results are normal numbers: other lanes are set
    to 0.
    """
    kept = builder.fcmp_unordered(">=", x, constant(x.type, _LEAST_NORMAL))
    x = _at_most(builder, x, 89.0)
    steps = _sixteenths(builder, x, 1.0)
    return _times_power(builder, steps[1], _exp_of_fraction(builder, steps, _minus_multiple_of_ln2(builder, x, steps[1]), 1.0), kept)


def _sixteenths(builder: ir.IRBuilder, x: ir.Value, per_unit: float) -> tuple[ir.Value, ir.Value]:
    """The multiple of 1/16 nearest to x * per_unit / ln2: as a sum whose low bits hold its 16ths, and as a number."""
    rounder = constant(x.type, _STEP_ROUNDER)
    rounded = _multiply_add(builder, x, constant(x.type, _LOG2E * per_unit), rounder)
    return rounded, builder.fsub(rounded, rounder)


def _exp_of_fraction(builder: ir.IRBuilder, steps: tuple[ir.Value, ir.Value], r: ir.Value, per_unit: float) -> ir.Value:
    """2**(j/16) * e**(r * per_unit) of 16 lanes, j being the fraction of the steps in 16ths. per_unit: plus or minus a power of two."""
    table = ir.Constant(r.type, [float(np.float32(2.0 ** (j / _STEPS))) for j in range(_STEPS)])
    lanes = builder.bitcast(steps[0], same_lanes(r, I32))  # of which the low four bits count
    step = call(builder, "llvm.x86.avx512.permvar.sf.512", r.type, [table, lanes])
    growth = builder.fmul(_polynomial(builder, r, [c * per_unit**k for k, c in enumerate((1.0, *STEP), 1)]), r)
    return _multiply_add(builder, step, growth, step)


def _times_power(builder: ir.IRBuilder, n: ir.Value, x: ir.Value, kept: ir.Value) -> ir.Value:
    """x * 2**floor(n) where the mask is on; 0 elsewhere."""
    operands = [x, n, constant(x.type, 0.0), builder.bitcast(kept, I16), I32(_CURRENT_ROUNDING)]
    return call(builder, "llvm.x86.avx512.mask.scalef.ps.512", x.type, operands)


def log(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """The natural logarithm within 1 ulp, subnormal arguments included; log(0) = -inf, NaN for x < 0."""
    type = x.type
    int_type = same_lanes(x, I32)
    tiny = builder.fcmp_ordered("<", x, constant(type, DType.f32.least_normal))
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


def decay(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """e**-|x| - 1 within 2.3 ulp: to the last digits, however small x is. -1 beyond 17.3287.

    As 2**-t of t = |x| / ln2, which is not rounded on the way where multiply-adds fuse; that 1 / ln2 is counts for less than e**-|x|.
    """
    size = _at_most(builder, pointwise(builder, "fabs", x), 20.0)
    per_ln2 = constant(x.type, -_LOG2E)
    n, scale = _power(builder, _multiply_add(builder, size, per_ln2, constant(x.type, _ROUNDER + _EXPONENT_BIAS)))
    rest = _multiply_add(builder, size, per_ln2, builder.fneg(n))
    small = builder.fmul(_polynomial(builder, rest, [c / _LOG2E**k for k, c in enumerate(EXPM1, 1)]), rest)
    return _multiply_add(builder, small, scale, builder.fsub(scale, constant(x.type, 1.0)))


def tanh(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """The hyperbolic tangent within 3.5 ulp; never beyond 1 in size. (e**2x - 1) / (e**2x + 1) for x >= 0, mirrored below."""
    type = x.type
    size = _at_most(builder, pointwise(builder, "fabs", x), 9.5)  # tanh(9.5) rounds to 1
    n, scale = _power(builder, _multiply_add(builder, size, constant(type, 2.0 * _LOG2E), constant(type, _ROUNDER + _EXPONENT_BIAS)))
    r = _minus_multiple_of_ln2(builder, size, n, per_unit=2.0)
    small = builder.fmul(_polynomial(builder, r, [2.0 ** (k + 1) * c for k, c in enumerate(EXPM1)]), r)
    grown = _multiply_add(builder, small, scale, builder.fsub(scale, constant(type, 1.0)))
    return pointwise(builder, "copysign", builder.fdiv(grown, builder.fadd(grown, constant(type, 2.0))), x)


def normal_tail(builder: ir.IRBuilder, x: ir.Value, isa: Isa) -> ir.Value:
    """The share of a standard normal distribution beyond |x| on one side, erfc(|x| / sqrt(2)) / 2, within 7.6 ulp where it is a normal
    number (|x| < 12.98).

    It is gauss(x) times a quotient of polynomials of |x| with positive coefficients, so it keeps its digits however small it is. The
    largest errors, in ulp, of every third f32 on an ISA with AVX-512, of each from 2**-11 on with FMA alone, and with neither: 4.2, 4.0
    and 5.1 up to 1.5, then 5.4, 5.6 and 6.6 up to 5, 6.0, 6.2 and 7.6 beyond. Beyond 13.21 it is 0.
    """
    if has_scaling(isa):
        return _in_vectors_of(builder, x, _STEPS, _tail_in_steps)
    size = _at_most(builder, pointwise(builder, "fabs", x), _NO_TAIL)
    return builder.fmul(_tail_over_gauss(builder, size), gauss(builder, x, isa))


def _tail_over_gauss(builder: ir.IRBuilder, size: ir.Value) -> ir.Value:
    """normal_tail / gauss of numbers from 0 on."""
    return builder.fdiv(_polynomial(builder, size, TAIL), _polynomial(builder, size, TAIL_BELOW))


def gauss(builder: ir.IRBuilder, x: ir.Value, isa: Isa) -> ir.Value:
    """e**(-x*x / 2) within 2.3 ulp, 1.9 with fma, 1 with AVX-512, where it is a normal number (|x| < 13.21); 0 beyond.

    Rounding the square would cause a relative error in proportion to it. So n * ln2 is subtracted from the exact square, in a fused
    multiply-add. Without FMA x is split: the square of its first 12 bits is exact, and so is the difference to n * ln2; the rest of the
    square is added to that.
    """
    if has_scaling(isa):
        return _in_vectors_of(builder, x, _STEPS, _gauss_in_steps)
    size = _at_most(builder, pointwise(builder, "fabs", x), _NO_TAIL)
    return (_gauss_fused if has_fma(isa) else _gauss_split)(builder, size)


def _gauss_fused(builder: ir.IRBuilder, size: ir.Value) -> ir.Value:
    """Only n depends on the rounded square. r is -2 times that of `exp`, which saves a multiplication."""
    n, scale = _power_below(builder, builder.fmul(size, size), -0.5)
    r = _less_than_square(builder, size, n)
    return builder.fmul(_polynomial(builder, r, [c * (-0.5) ** k for k, c in enumerate((1.0, *EXP))]), scale)


def _less_than_square(builder: ir.IRBuilder, x: ir.Value, n: ir.Value) -> ir.Value:
    """x * x + 2 * n * ln2. n * _LN2_HIGH is exact for multiples of 1/16 too: 11 bits times 9."""
    high = builder.fmul(n, constant(x.type, 2 * _LN2_HIGH))
    return pointwise(builder, "fma", n, constant(x.type, 2 * _LN2_LOW), pointwise(builder, "fma", x, x, high))


def _gauss_split(builder: ir.IRBuilder, size: ir.Value) -> ir.Value:
    type, int_type = size.type, same_lanes(size, I32)
    high = builder.bitcast(builder.and_(builder.bitcast(size, int_type), constant(int_type, _TWELVE_BITS)), type)
    half = constant(type, -0.5)
    exact = builder.fmul(builder.fmul(high, half), high)
    rest = builder.fmul(builder.fmul(builder.fsub(size, high), half), builder.fadd(size, high))
    n, scale = _power_below(builder, builder.fadd(exact, rest))
    return builder.fmul(_exp_of_remainder(builder, _minus_multiple_of_ln2(builder, exact, n, rest=rest)), scale)


def _gauss_in_steps(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """gauss of 16 lanes of f32, as `_exp_in_steps`."""
    n, bell, kept = _gauss_parts(builder, x)
    return _times_power(builder, n, bell, kept)


def _tail_in_steps(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """normal_tail of 16 lanes of f32. Where gauss is 0, the quotient may be anything."""
    n, bell, kept = _gauss_parts(builder, x)
    return _times_power(builder, n, builder.fmul(_tail_over_gauss(builder, pointwise(builder, "fabs", x)), bell), kept)


def _gauss_parts(builder: ir.IRBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """(n, y, where it is a normal number) with y * 2**n = gauss(x) of 16 lanes.

    r is as in `_gauss_fused`.
    """
    square = builder.fmul(x, x)
    kept = builder.fcmp_unordered("<=", square, constant(x.type, -2 * _LEAST_NORMAL))
    steps = _sixteenths(builder, square, -0.5)
    return steps[1], _exp_of_fraction(builder, steps, _less_than_square(builder, x, steps[1]), -0.5), kept


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


def _in_vectors_of(builder: ir.IRBuilder, x: ir.Value, lanes: int, f: Callable[[ir.IRBuilder, ir.Value], ir.Value]) -> ir.Value:
    """Apply f, which takes vectors of `lanes` lanes, to any number of lanes. Padding lanes repeat others."""
    count = lanes_of(x)
    if count == lanes:
        return f(builder, x)
    if count == 1:
        return builder.extract_element(f(builder, splat(builder, x, lanes)), I32(0))
    parts = [shuffled(builder, x, x, [min(i, count - 1) for i in range(start, start + lanes)]) for start in range(0, count, lanes)]
    results = [f(builder, part) for part in parts]
    while len(results) > 1:
        pairs = zip(results[::2], [*results[1::2], results[-1]], strict=False)
        results = [shuffled(builder, a, b, range(2 * lanes_of(a))) for a, b in pairs]
    return results[0] if lanes_of(results[0]) == count else shuffled(builder, results[0], results[0], range(count))


def _power_below(builder: ir.IRBuilder, x: ir.Value, per_unit: float = 1.0) -> tuple[ir.Value, ir.Value]:
    """(n, 2**n) for n the whole number below x * per_unit / ln2, from -127 to 128; the power is 0 or inf at these ends.

    The subtracted half is a little more than that, so that x / ln2 just below 128 does not round to it.
    """
    type = x.type
    shifted = _multiply_add(builder, x, constant(type, _LOG2E * per_unit), constant(type, -0.50001))
    return _power(builder, builder.fadd(shifted, constant(type, _ROUNDER + _EXPONENT_BIAS)))


def _power(builder: ir.IRBuilder, rounded: ir.Value) -> tuple[ir.Value, ir.Value]:
    """(n, 2**n) from the sum of a number near n with _ROUNDER + _EXPONENT_BIAS.

    It holds n + _EXPONENT_BIAS in its low bits: shifted up, they are the exponent field of the power.
    """
    n = builder.fsub(rounded, constant(rounded.type, _ROUNDER + _EXPONENT_BIAS))
    int_type = same_lanes(rounded, I32)
    power = builder.shl(builder.bitcast(rounded, int_type), constant(int_type, _MANTISSA_BITS))
    return n, builder.bitcast(power, rounded.type)


def _minus_multiple_of_ln2(
    builder: ir.IRBuilder, x: ir.Value, n: ir.Value, per_unit: float = 1.0, rest: ir.Value | None = None
) -> ir.Value:
    """x + rest - n * ln2 / per_unit."""
    r = _multiply_add(builder, n, constant(x.type, -_LN2_HIGH / per_unit), x)
    if rest is not None:
        r = builder.fadd(r, rest)
    return _multiply_add(builder, n, constant(x.type, -_LN2_LOW / per_unit), r)


def _exp_of_remainder(builder: ir.IRBuilder, r: ir.Value) -> ir.Value:
    """e**r for r between 0 and ln2."""
    return _polynomial(builder, r, [1.0, *EXP])


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
