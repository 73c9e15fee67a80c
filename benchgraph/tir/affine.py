"""Linear forms of index expressions over loop variables, and bounds of their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd, inf, isinf
from typing import TypeAlias

from benchgraph.core.memoise import memoised
from benchgraph.tir.build import add, sub
from benchgraph.tir.ir import Binary, BinOp, Broadcast, Const, Expr, For, Ramp, Select, Stmt, Var
from benchgraph.tir.text import print_tir
from benchgraph.tir.visit import loads_of, variables

Range: TypeAlias = tuple[float, float]  # smallest and largest value, both included; integers or +-inf
Ranges: TypeAlias = Mapping[str, Range]  # loop variables in scope, outermost first
ANYTHING: Range = (-inf, inf)


@dataclass(frozen=True)
class Linear:
    """constant + the sum of coefficient * atom. An atom is a variable or an expression that is not linear; no coefficient is 0."""

    terms: Mapping[Expr, int]
    constant: int = 0

    def plus(self, other: Linear, scale: int = 1) -> Linear:
        terms = dict(self.terms)
        for atom, c in other.terms.items():
            total = terms.get(atom, 0) + c * scale
            if total:
                terms[atom] = total
            else:
                terms.pop(atom, None)
        return Linear(terms, self.constant + other.constant * scale)

    def minus(self, other: Linear) -> Linear:
        return self.plus(other, -1)

    def times(self, factor: int) -> Linear:
        return Linear({a: c * factor for a, c in self.terms.items() if factor}, self.constant * factor)

    def is_multiple(self, of: int) -> bool:
        """Whether it is a multiple of `of` for any values of its atoms."""
        return all(c % of == 0 for c in (self.constant, *self.terms.values()))

    def split(self, names: frozenset[str]) -> tuple[Linear, Linear]:
        """(terms invariant in these variables, with the constant; the other terms). Atoms that read memory are never invariant."""
        inner = {a: c for a, c in self.terms.items() if not names.isdisjoint(variables(a)) or loads_of(a)}
        return Linear({a: c for a, c in self.terms.items() if a not in inner}, self.constant), Linear(inner)


@memoised
def linear(e: Expr) -> Linear:
    """The linear form of a scalar integer expression."""
    match e:
        case Const():
            return Linear({}, int(e.value))
        case Binary(BinOp.add, a, b):
            return linear(a).plus(linear(b))
        case Binary(BinOp.sub, a, b):
            return linear(a).minus(linear(b))
        case Binary(BinOp.mul, a, b):
            x, y = linear(a), linear(b)
            if not x.terms:
                return y.times(x.constant)
            if not y.terms:
                return x.times(y.constant)
    return Linear({e: 1})


def period(division: Binary, var: Var) -> int:
    """After how many steps of a variable a quotient grows by a constant, or a remainder repeats, if the dividend is linear in it."""
    assert isinstance(division.b, Const)
    divisor = int(division.b.value)
    return divisor // gcd(divisor, linear(division.a).terms.get(var, 0))


def _depth(atom: Expr, order: Mapping[str, int]) -> tuple[int, bool, str]:
    if isinstance(atom, Var):
        return order.get(atom.name, len(order)), False, atom.name
    depth = max((order.get(name, len(order)) for name in variables(atom)), default=-1)
    return depth, True, _text(atom)


_text = memoised(print_tir)


def _times(atom: Expr, k: int) -> Expr:
    """atom * k without the checks of `mul`: an atom is no constant, and k is positive."""
    return atom if k == 1 else Binary(BinOp.mul, atom, Const(k))


def to_expr(form: Linear, ranges: Ranges) -> Expr:
    """The canonical expression: added terms from the outermost variable inwards, then subtracted ones, the constant last.

    >>> i, j = Var("i"), Var("j")
    >>> print_tir(to_expr(Linear({j: 1, i: 8}, 3), {"i": (0, 3), "j": (0, 7)}))
    'i*8 + j + 3'
    """
    atoms = list(form.terms)
    if len(atoms) > 1:
        order = {name: k for k, name in enumerate(ranges)}
        atoms.sort(key=lambda a: _depth(a, order))
    positive = [a for a in atoms if form.terms[a] > 0]
    rest = form.constant
    result: Expr | None = None
    for a in positive:
        term = _times(a, form.terms[a])
        result = term if result is None else Binary(BinOp.add, result, term)
    if result is None:
        result, rest = Const(rest), 0
    for a in atoms:
        if form.terms[a] < 0:
            result = sub(result, _times(a, -form.terms[a]))
    return sub(result, -rest) if rest < 0 else add(result, rest)


def bounds(e: Expr, ranges: Ranges) -> Range:
    """(least, most) value of e. Not always attained: `i - i//2*2` is bounded term by term."""
    match e:
        case Const():
            return (e.value, e.value)
        case Var():
            return ranges.get(e.name, ANYTHING)
        case Binary(BinOp.add | BinOp.sub):
            return linear_bounds(linear(e), ranges)
        case Binary(BinOp.mul):
            a, b = bounds(e.a, ranges), bounds(e.b, ranges)
            if any(isinf(v) for v in (*a, *b)):
                return ANYTHING
            products = [x * y for x in a for y in b]
            return min(products), max(products)
        case Binary(BinOp.floordiv, a, Const(value=c)):
            lo, hi = bounds(a, ranges)
            return (lo if isinf(lo) else lo // c), (hi if isinf(hi) else hi // c)
        case Binary(BinOp.mod, a, Const(value=c)):
            lo, hi = bounds(a, ranges)
            return (lo, hi) if lo >= 0 and hi < c else (0, c - 1)
        case Binary(BinOp.min | BinOp.max as op, a, b):
            low, high = zip(bounds(a, ranges), bounds(b, ranges), strict=True)
            return (min(low), min(high)) if op is BinOp.min else (max(low), max(high))
        case Select():
            low, high = zip(bounds(e.a, ranges), bounds(e.b, ranges), strict=True)
            return min(low), max(high)
        case Broadcast():
            return bounds(e.a, ranges)
        case Ramp():
            lo, hi = bounds(e.base, ranges)
            last = (e.lanes - 1) * e.stride
            return lo + min(last, 0), hi + max(last, 0)
    return ANYTHING


def linear_bounds(form: Linear, ranges: Ranges) -> Range:
    low: float = form.constant
    high: float = form.constant
    for atom, c in form.terms.items():
        lo, hi = bounds(atom, ranges)
        low += c * (lo if c > 0 else hi)
        high += c * (hi if c > 0 else lo)
    return low, high


def inside(s: Stmt, ranges: Ranges) -> Ranges:
    """The ranges inside a statement: in a loop also that of its variable, up to the largest extent."""
    return {**ranges, s.var.name: (0, bounds(s.extent, ranges)[1] - 1)} if isinstance(s, For) else ranges
