"""f32 expressions that several rows share. They give the right result, NaN and infinities included, for every argument."""

from __future__ import annotations

from functools import partial
from math import inf

from benchgraph.tir.build import binary, f32, select, unary
from benchgraph.tir.ir import BinOp, Expr, UnOp

add, sub, mul, div = (partial(binary, op) for op in (BinOp.add, BinOp.sub, BinOp.mul, BinOp.div))
exp = partial(unary, UnOp.exp)


def where(x: Expr, op: BinOp, bound: float, then: Expr, otherwise: Expr) -> Expr:
    """x op bound ? then : otherwise."""
    return select(binary(op, x, f32(bound)), then, otherwise)


def at_most(x: Expr, high: float) -> Expr:
    """min(x, high); NaN for NaN, as min gives its second operand then."""
    return x if high == inf else binary(BinOp.min, f32(high), x)


def within(x: Expr, low: float, high: float) -> Expr:
    """x clamped to [low, high]; NaN for NaN."""
    return at_most(x if low == -inf else binary(BinOp.max, f32(low), x), high)


def normal_cdf(x: Expr) -> Expr:
    """The standard normal distribution function, with a small relative error however small it is."""
    tail = unary(UnOp.normal_tail, x)
    return where(x, BinOp.lt, 0, tail, sub(f32(1), tail))


def sigmoid(x: Expr) -> Expr:
    """1 / (1 + exp(-x)): exp overflows to inf for x < -88, and 1 / inf is 0, as it should be."""
    return div(f32(1), add(f32(1), exp(unary(UnOp.neg, x))))


def softplus(x: Expr, beta: float) -> Expr:
    """log(1 + e**(beta * x)) / beta as max(x, 0) + log(1 + t) / beta with t = e**-|beta * x| <= 1, so that nothing overflows.

    beta < 0 takes min instead of max. With s = t / (t + 2), at most 1/3, log(1 + t) is log((1 + s) / (1 - s)) = 2s + 2/3 s**3 + 2/5 s**5
    ...: the terms after s**13 are less than 2e-8 of it. A plain log(1 + t) would be 0 for beta * x < -17.
    """
    t = exp(unary(UnOp.neg, unary(UnOp.abs, mul(f32(beta), x))))
    s = div(t, add(t, f32(2)))
    square = mul(s, s)
    series: Expr = f32(2 / 13)
    for k in (11, 9, 7, 5, 3, 1):
        series = add(mul(series, square), f32(2 / k))
    return add(binary(BinOp.min if beta < 0 else BinOp.max, f32(0), x), div(mul(s, series), f32(beta)))
