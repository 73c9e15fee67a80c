"""Simplification of expressions, given the ranges of the loop variables in scope.

Index expressions become canonical linear forms, so that equal indices are equal objects. Float arithmetic is kept as written but for
operations that change no bit: x*1, x/1, x-0, and operations on two literals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from math import gcd

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.tir.affine import Linear, Range, Ranges, bounds, inside, linear, linear_bounds, to_expr
from benchgraph.tir.build import constant, type_of
from benchgraph.tir.ir import INDEX, Binary, BinOp, Cast, Const, Expr, If, Ramp, Select, Stmt, Unary, UnOp, Var
from benchgraph.tir.values import OPERATIONS
from benchgraph.tir.visit import children, map_parts

_LEAVES = Var, Const
_LINEAR = frozenset({BinOp.add, BinOp.sub, BinOp.mul})
_EXACT_F32 = 2**24  # integers up to this are f32 values


class Simplifier:
    """Gives simpler expressions with the same values for all variables in their ranges, or else the same expressions; those that statements
    share are simplified once."""

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges
        self._done = dict[int, tuple[Expr, Expr]]()  # by identity of the first, which stays alive

    def __call__(self, e: Expr) -> Expr:
        if isinstance(e, _LEAVES):
            return e
        known = self._done.get(id(e))
        if known is None:
            new = self._sum(e) or _rule(map_parts(e, self), self.ranges)
            known = self._done[id(e)] = e, e if new is e or new == e else new
        return known[1]

    def _sum(self, e: Expr) -> Expr | None:
        """A linear combination, simplified term by term instead of at each of its nested sums; None for anything else."""
        if not isinstance(e, Binary) or e.op not in _LINEAR or type_of(e.a) != (INDEX, 1):
            return None
        form = linear(e)
        others = [(atom, k) for atom, k in form.terms.items() if not isinstance(atom, Var)]
        if others:
            if e in form.terms:
                return None
            form = Linear({a: k for a, k in form.terms.items() if isinstance(a, Var)}, form.constant)
            for atom, k in others:
                form = form.plus(linear(self(atom)), k)
            form = _recombine(form, self.ranges)
        return to_expr(form, self.ranges)


def _rule(e: Expr, ranges: Ranges) -> Expr:
    match e:
        case Binary() if type_of(e.a) == (INDEX, 1):
            return _index(e, ranges)
        case Binary(BinOp.and_ | BinOp.or_):
            return _logic(e)
        case Binary(op, Const(dtype=DType.f32) as a, Const(dtype=DType.f32) as b):
            return _fold(op, a, b)
        case Binary(b=Const(value=value, dtype=DType.f32)):
            neutral = {BinOp.mul: 1.0, BinOp.div: 1.0, BinOp.sub: 0.0}.get(e.op)
            same = value == neutral and math.copysign(1, value) > 0
            return e.a if same else e
        case Binary(BinOp.mul, Const(value=1.0, dtype=DType.f32)):
            return e.b
        case Cast(Const(value=int(value), dtype=dtype), DType.f32) if dtype.is_integer and abs(value) <= _EXACT_F32:
            return Const(float(value), DType.f32)
        case Cast(Ramp(base, stride, lanes) as ramp, DType.s32) if _fits_s32(bounds(ramp, ranges)):
            return Ramp(Cast(base, DType.s32), stride, lanes)  # nothing saturates, and the lanes are added in half the registers
        case Select(cond=Const(value=value)):
            return e.a if value else e.b
    return e


def _fits_s32(limits: Range) -> bool:
    least, most = DType.s32.range
    return least <= limits[0] and limits[1] <= most


def _logic(e: Binary) -> Expr:
    for known, other in ((e.a, e.b), (e.b, e.a)):
        if isinstance(known, Const):
            decides = bool(known.value) == (e.op is BinOp.or_)
            return known if decides else other
    return e


def _fold(op: BinOp, a: Const, b: Const) -> Expr:
    if op not in OPERATIONS:
        return Binary(op, a, b)
    with np.errstate(all="ignore"):
        return Const(float(OPERATIONS[op](np.float32(a.value), np.float32(b.value))), DType.f32)


# ---- indices ---------------------------------------------------------------------------------------------------------


def _index(e: Binary, ranges: Ranges) -> Expr:
    divisor = constant(e.b)
    match e.op:
        case BinOp.add | BinOp.sub | BinOp.mul:
            return to_expr(_recombine(linear(e), ranges), ranges)
        case BinOp.floordiv if divisor is not None and divisor > 0:
            return _floordiv(linear(e.a), divisor, ranges)
        case BinOp.mod if divisor is not None and divisor > 0:
            return _mod(linear(e.a), divisor, ranges)
        case BinOp.min | BinOp.max:
            return _extreme(e, ranges)
        case _ if e.op.is_comparison:
            return _compare(e, ranges)
    return e


def _recombine(form: Linear, ranges: Ranges) -> Linear:
    """k*c*(x // c) + k*(x % c) -> k*x, where x // c may be spelled as its canonical form, of several terms."""
    for atom, k in form.terms.items():
        match atom:
            case Binary(BinOp.mod, x, Const(value=c)):
                whole = linear(_floordiv(linear(x), int(c), ranges))
                joined = form.minus(Linear({atom: k})).minus(whole.times(int(k * c))).plus(linear(x).times(k))
                if _divisions(joined) < _divisions(form):
                    return _recombine(joined, ranges)
    return form


def _divisions(form: Linear) -> int:
    """How many of the terms divide."""
    return sum(isinstance(atom, Binary) and atom.op in (BinOp.floordiv, BinOp.mod) for atom in form.terms)


def _floordiv(form: Linear, c: int, ranges: Ranges) -> Expr:
    """(c*q + r) // c -> q + r // c, where r // c is a number when r's range says so."""
    whole = Linear({a: k // c for a, k in form.terms.items() if k % c == 0}, form.constant // c)
    rest = Linear({a: k for a, k in form.terms.items() if k % c}, form.constant % c)
    lo, hi = linear_bounds(rest, ranges)
    if math.isfinite(lo) and math.isfinite(hi) and lo // c == hi // c:
        return to_expr(_recombine(whole.plus(Linear({}, int(lo // c))), ranges), ranges)
    quotient = _reduced_floordiv(rest, c, ranges)
    return to_expr(_recombine(whole.plus(linear(quotient)), ranges), ranges)


def _reduced_floordiv(rest: Linear, c: int, ranges: Ranges) -> Expr:
    match list(rest.terms.items()), rest.constant:
        case [(Binary(BinOp.mod, x, Const(value=inner)), 1)], 0 if int(inner) % c == 0:  # canonical: x // c % n
            return _mod(linear(_floordiv(linear(x), c, ranges)), int(inner) // c, ranges)
    if split := _split_by_divisor(rest, c, ranges):  # (g*x + y) // (g*d) == x // d
        unit, upper, _ = split
        return _floordiv(upper, c // unit, ranges)
    for atom, k in rest.terms.items():
        match atom, k:
            case Binary(BinOp.floordiv, x, Const(value=inner)), 1:  # (a + x // n) // c == (a*n + x) // (n*c)
                others = rest.minus(Linear({atom: 1}))
                return _floordiv(others.times(int(inner)).plus(linear(x)), int(inner) * c, ranges)
    e = to_expr(rest, ranges)
    return e if c == 1 else Binary(BinOp.floordiv, e, Const(c))


def _mod(form: Linear, c: int, ranges: Ranges) -> Expr:
    nonnegative = Linear({a: k % c for a, k in form.terms.items() if k % c}, form.constant % c)
    as_written = Linear({a: k for a, k in form.terms.items() if k % c}, form.constant % c)  # ranges stay narrow
    for candidate in (as_written, nonnegative):
        lo, hi = linear_bounds(candidate, ranges)
        if math.isfinite(lo) and math.isfinite(hi) and lo // c == hi // c:
            return to_expr(_recombine(candidate.plus(Linear({}, -int(lo // c) * c)), ranges), ranges)
    # floordiv keeps the same terms, so k*c*(x // c) and k*(x % c) have the same x, and recombine.
    match list(as_written.terms.items()), as_written.constant:
        case [(Binary(BinOp.mod, x, Const(value=inner)), 1)], 0 if int(inner) % c == 0:
            return _mod(linear(x), c, ranges)
    if split := _split_by_divisor(as_written, c, ranges):  # (g*x + y) % (g*d) == g*(x % d) + y
        unit, upper, lower = split
        return to_expr(_recombine(lower.plus(linear(_mod(upper, c // unit, ranges)), unit), ranges), ranges)
    return Binary(BinOp.mod, to_expr(as_written, ranges), Const(c))


def _split_by_divisor(form: Linear, c: int, ranges: Ranges) -> tuple[int, Linear, Linear] | None:
    """(g, x, y) with form = g*x + y and 0 <= y < g < c, for the largest such g that is the gcd of c and coefficients; else None."""
    for unit in sorted({gcd(c, *form.terms.values()), *(gcd(k, c) for k in form.terms.values())} - {1, c}, reverse=True):
        lower = Linear({a: k for a, k in form.terms.items() if k % unit}, form.constant % unit)
        low, high = linear_bounds(lower, ranges)
        if 0 <= low <= high < unit:
            return unit, Linear({a: k // unit for a, k in form.terms.items() if k % unit == 0}, form.constant // unit), lower
    return None


def _difference(e: Binary, ranges: Ranges) -> Range:
    return linear_bounds(linear(e.a).minus(linear(e.b)), ranges)


def _extreme(e: Binary, ranges: Ranges) -> Expr:
    lo, hi = _difference(e, ranges)
    if hi <= 0:
        return e.a if e.op is BinOp.min else e.b
    if lo >= 0:
        return e.b if e.op is BinOp.min else e.a
    return e


_HOLDS_WITHIN = {  # for which values of a - b
    BinOp.lt: (-math.inf, -1), BinOp.le: (-math.inf, 0), BinOp.gt: (1, math.inf), BinOp.ge: (0, math.inf), BinOp.eq: (0, 0),
}  # fmt: skip
_NEGATED = {
    BinOp.lt: BinOp.ge, BinOp.ge: BinOp.lt, BinOp.le: BinOp.gt, BinOp.gt: BinOp.le, BinOp.eq: BinOp.ne, BinOp.ne: BinOp.eq,
}  # fmt: skip


def _compare(e: Binary, ranges: Ranges) -> Expr:
    lo, hi = _difference(e, ranges)
    least, most = _HOLDS_WITHIN[BinOp.eq if e.op is BinOp.ne else e.op]
    inside, outside = least <= lo and hi <= most, hi < least or most < lo
    return Const(int(inside == (e.op is not BinOp.ne)), DType.boolean) if inside or outside else e


def assume(cond: Expr, ranges: Ranges, *, holds: bool) -> dict[str, Range]:
    """The ranges narrowed by a condition that is known to hold (or not to): `i < 3` gives i at most 2."""
    known = dict(ranges)
    match cond:
        case Binary(BinOp.and_, a, b) if holds:
            return assume(b, assume(a, known, holds=True), holds=True)
        case Binary(BinOp.or_, a, b) if not holds:
            return assume(b, assume(a, known, holds=False), holds=False)
        case Unary(UnOp.not_, a):
            return assume(a, known, holds=not holds)
        case Binary(op, a, b) if op.is_comparison and type_of(a) == (INDEX, 1):
            for name, limit in _limits(op if holds else _NEGATED[op], linear(a).minus(linear(b))):
                lo, hi = known[name] if name in known else bounds(Var(name), known)
                known[name] = (max(lo, limit[0]), min(hi, limit[1]))
    return known


def within(s: Stmt, ranges: Ranges) -> Iterator[tuple[Stmt, Ranges]]:
    """The statements directly inside this one, each with the ranges of the variables around it."""
    match s:
        case If():
            yield s.then, assume(s.cond, ranges, holds=True)
            if s.orelse is not None:
                yield s.orelse, assume(s.cond, ranges, holds=False)
        case _:
            yield from ((c, inside(s, ranges)) for c in children(s))


def _limits(op: BinOp, form: Linear) -> list[tuple[str, Range]]:
    """The range of x that `k*x + c op 0` implies, if any."""
    match list(form.terms.items()):
        case [(Var(name), k)] if op in _HOLDS_WITHIN:
            least, most = (limit - form.constant for limit in _HOLDS_WITHIN[op])  # of k*x
            if k < 0:
                k, least, most = -k, -most, -least
            return [(name, (least if math.isinf(least) else -(-least // k), most if math.isinf(most) else most // k))]
    return []
