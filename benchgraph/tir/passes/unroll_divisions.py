"""unroll-divisions: loops that divide or take remainders of their variable are unrolled, so that quotients become constants.

    for x in 12 {                      ->  y[0] = v[0]
      y[x] = v[(x*14 + 7)//12]             y[1] = v[1]
    }                                      ...
                                           y[11] = v[13]

    for x in 512 {                     ->  for x in 256 {
      y[x] = v[(x*2 + 1)//4]                 y[x*2] = v[x]
    }                                        y[x*2 + 1] = v[x]
                                           }

Source indices, weights and conditions of interpolation are computed at compile time then. Loops that can be vectorised, and those inside,
stay. Innermost loops are unrolled first, then those around straight-line code: short ones in full, long ones by the period of their
quotients if that is short, after which the loop may be vectorised.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from math import lcm

from benchgraph.machine.target import Target
from benchgraph.tir.affine import Ranges, inside, linear, period
from benchgraph.tir.build import constant
from benchgraph.tir.cost import instructions
from benchgraph.tir.ir import Binary, BinOp, Const, Expr, For, Func, If, LoopKind, Stmt, Store, Var
from benchgraph.tir.loops import Names, map_loops, unrolled, with_body
from benchgraph.tir.passes.simplify import simplified
from benchgraph.tir.vector_loops import loop_of
from benchgraph.tir.visit import block, exprs, variables, walk, walk_expr

# Of the unrolled code, which takes time to compile (docs/measurements/loop-unrolling.md).
MOST_STORES, MOST_INSTRUCTIONS = 64, 4096
_DIVISIONS = frozenset({BinOp.floordiv, BinOp.mod})


def unroll_divisions(f: Func, target: Target) -> Func:
    divided = frozenset(_divided_variables(f.body))
    if not divided:
        return f
    return with_body(f, map_loops(f.body, _Unroller(divided, target, Names.of(f))))


def _divisions(e: Expr) -> Iterator[Binary]:
    return (d for d in walk_expr(e) if isinstance(d, Binary) and d.op in _DIVISIONS and variables(d))


def _divided_variables(body: Stmt) -> Iterator[str]:
    """Variables that are divided, and those that occur with them in a condition."""
    for s in walk(body):
        for e in exprs(s):
            divided = [name for d in _divisions(e) for name in variables(d)]
            yield from variables(e) if divided and isinstance(s, If) else divided


@dataclass(frozen=True)
class _Unroller:
    """divided: names of divided variables."""

    divided: Collection[str]
    target: Target
    names: Names

    def __call__(self, loop: For, ranges: Ranges) -> Stmt:
        if loop_of(loop, self.target) is not None:
            return loop
        body = map_loops(loop.body, self, inside(loop, ranges))
        loop = loop if body is loop.body else replace(loop, body=body)
        count = self._factor(loop)
        return simplified(unrolled(loop, count, lambda copies: block(*copies), self.names), ranges) if count else loop

    def _factor(self, s: For) -> int:
        """The factor to unroll a loop by; 0 for a loop that stays."""
        extent = constant(s.extent)
        is_candidate = s.var.name in self.divided and s.kind is LoopKind.serial and extent is not None and extent > 1
        if not is_candidate or any(isinstance(c, For) for c in walk(s.body)):
            return 0
        assert extent is not None
        stores = [c for c in walk(s.body) if isinstance(c, Store)]
        if any(s.var.name in variables(d) for c in stores for i in c.index for d in _divisions(i)):
            return 0  # it changes a layout: quotients of store indices stay
        most = min(MOST_STORES // max(len(stores), 1), MOST_INSTRUCTIONS // max(sum(map(instructions, stores)), 1))
        period_of_all = reduce(lcm, (_period(d, s.var) for c in walk(s.body) for e in exprs(c) for d in _divisions(e)), 1)
        return extent if extent <= most else period_of_all if 1 < period_of_all <= most else 0


def _period(digit: Binary, var: Var) -> int:
    """As `affine.period`; 0 if the dividend is not linear in the variable."""
    is_nonlinear = any(atom != var and var.name in variables(atom) for atom in linear(digit.a).terms)
    return 0 if is_nonlinear or not isinstance(digit.b, Const) else period(digit, var)
