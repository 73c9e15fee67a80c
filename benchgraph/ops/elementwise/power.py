"""Pow: dst = src ** beta, beta one number. Negative src has a power for integer beta only, else NaN; 0 ** 0 is 1.

Integer and half powers up to MULTIPLIED are computed by multiplications, a root and a reciprocal. All others are exp(beta * log(|src|)),
with the sign of src for odd beta: the rounding of the exponent becomes a relative error of |beta * log(src)| half ulps, and the
logarithm's ulp twice as much. |log(src)| is below 1 in the test data. Powers of infinities and zeros are those of C's pow, as in numpy;
beta 0.5 is the root, which is NaN for -inf.
"""

from __future__ import annotations

from math import inf

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.ops import fills
from benchgraph.ops.elementwise.unary import TRANSCENDENTAL, same_shape
from benchgraph.ops.fill_rules import pointwise
from benchgraph.ops.formulas import add, div, exp, mul, where
from benchgraph.ops.laws import real
from benchgraph.ops.ranges import FINITE
from benchgraph.ops.spec import Array, Attr, Call, Elementwise, Law, Lowering, OpSpec, Role, Sample, Schema, Semantics, Testing, ports
from benchgraph.tir.build import binary, f32, select, unary
from benchgraph.tir.ir import BinOp, Expr, UnOp

MULTIPLIED = 16  # the largest power by multiplications: four squarings are faster and more exact than log and exp


def _beta(call: Call) -> float:
    return call.attrs.real("beta")


def lower(attrs: Attrs, ins: tuple[Expr, ...]) -> Expr:
    (x,), beta = ins, attrs.real("beta")
    size = abs(beta)
    if not (2 * size).is_integer() or size > MULTIPLIED + 0.5:
        return _by_logarithm(x, beta)
    if beta != 0.5 and not size.is_integer():
        x = _beside_roots(x)
    power = _multiplied(x, int(size))
    if not size.is_integer():
        root = unary(UnOp.sqrt, x)
        power = mul(power, root) if size > 1 else root
    return div(f32(1), power) if beta < 0 else power


def _multiplied(x: Expr, n: int) -> Expr:
    """x ** n by squaring; 1 for n = 0, NaN included."""
    if n < 2:
        return x if n else f32(1)
    half = _multiplied(x, n // 2)
    return mul(mul(half, half), x) if n % 2 else mul(half, half)


def _beside_roots(x: Expr) -> Expr:
    """x with inf for -inf and 0 for -0, whose non-integer powers are those of the positive number."""
    return add(where(x, BinOp.eq, -inf, f32(inf), x), f32(0))


def _by_logarithm(x: Expr, beta: float) -> Expr:
    """log of a negative number is NaN, which is right unless beta is an integer."""
    if not beta.is_integer():
        return exp(mul(f32(beta), unary(UnOp.log, _beside_roots(x))))
    size = exp(mul(f32(beta), unary(UnOp.log, unary(UnOp.abs, x))))
    if beta % 2 == 0:
        return size
    is_negative = binary(BinOp.lt, x, f32(0))
    if beta < 0:  # -0 has -inf
        is_negative = binary(BinOp.or_, is_negative, binary(BinOp.lt, div(f32(1), x), f32(0)))
    return select(is_negative, unary(UnOp.neg, size), size)


def reference(call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
    with np.errstate(all="ignore"):
        return (np.asarray(np.power(real(ins[0]), _beta(call))),)


def domain(call: Call, port: int, rng: np.random.Generator) -> Array:
    """Sizes in [0.5, 2); of either sign where that has a power."""
    return fills.AWAY_FROM_ZERO(call, port, rng) if _beta(call).is_integer() else fills.uniform(0.5, 2)(call, port, rng)


def _logarithms_scale(call: Call, ins: tuple[Array, ...], outs: tuple[Array, ...], rtol: float) -> bool:
    src, dst, beta = real(ins[0]), real(outs[0]), _beta(call)
    sign = np.where((src < 0) & (beta % 2 == 1), -1.0, 1.0)
    gap = np.log(np.abs(dst)) - beta * np.log(np.abs(src))
    return bool(np.all(sign * dst > 0) and np.all(np.abs(gap) <= 2 * rtol))


_SQUARE_ROOT_CUBED = Attrs(beta=1.5)
_SCHEMA = {"beta": Attr("f32", required=True, range=FINITE)}

SPECS = (
    OpSpec(
        "Pow",
        Schema(inputs=ports("src"), outputs=ports("dst"), attrs=_SCHEMA, family="eltwise"),
        Semantics(
            infer=same_shape,
            reference=reference,
            flops=lambda call: call.outs[0].elements,
            threshold=lambda call: TRANSCENDENTAL + 2 * abs(_beta(call)),
        ),
        Testing(
            fill=pointwise.activation(_SCHEMA),
            domain=domain,
            samples=(
                Sample(((17,),), Attrs(beta=2.0), why="a square, one element more than a vector of 16"),
                Sample(((3, 5, 33),), Attrs(beta=0.3), why="no integer, every dim odd"),
                Sample(((),), Attrs(beta=-0.5), why="rank 0, the reciprocal of a root"),
                Sample(((0, 3),), Attrs(beta=3.0), why="no elements"),
                Sample(((2, 19),), Attrs(beta=-3.0), why="negative and odd"),
                Sample(((2, 19),), Attrs(beta=0.0), why="always 1"),
                Sample(((2, 19),), Attrs(beta=1.0), why="itself"),
                Sample(((2, 19),), Attrs(beta=13.0), why="squarings and products"),
                Sample(((2, 19),), Attrs(beta=-2.7), why="by logarithm, falling"),
                Sample(((2, 19),), Attrs(beta=21.0), why="an integer power by logarithm: signs"),
                Sample(((4, 15),), _SQUARE_ROOT_CUBED, (DType.bf16,), why="bf16, a half power"),
                Sample(((2, 16),), _SQUARE_ROOT_CUBED, (DType.f16,), why="f16, no tail"),
            ),
            laws=(Law("its logarithm is beta times that of |src|, its sign that of src for odd beta", _logarithms_scale),),
            zero_limit=lambda call: pointwise.ELTWISE_ZEROS,
        ),
        Lowering(Role.pointwise, form=Elementwise(lower)),
    ),
)
