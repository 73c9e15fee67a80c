"""unroll-divisions: short loops that divide their variable, to tell where to read, become statements with numbers in place of divisions.

    for x in 12 {                      ->  y[0] = v[0]
      y[x] = v[(x*14 + 7)//12]             y[1] = v[1]
    }                                      ...
                                           y[11] = v[13]

    for x in 512 {                     ->  for x in 256 {
      y[x] = v[(x*2 + 1)//4]                 y[x*2] = v[x]
    }                                        y[x*2 + 1] = v[x]
                                           }

So interpolation has its places and weights worked out here, and conditions on them decided. Only loops that cannot run in vectors,
nor are in one that can, innermost ones and then those around what has become straight code. Of a long loop as many iterations side by side
as the digits repeat after, if these are few: the loop over the rest may run in vectors then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from math import lcm

from benchgraph.core.target import Target
from benchgraph.tir.affine import Ranges, inside, linear, period
from benchgraph.tir.build import constant
from benchgraph.tir.cost import instructions
from benchgraph.tir.ir import Binary, BinOp, Const, Expr, For, Func, If, LoopKind, Stmt, Store, Var
from benchgraph.tir.passes.simplify import simplified
from benchgraph.tir.unrolling import unrolled
from benchgraph.tir.vector_loops import loop_of
from benchgraph.tir.visit import block, bound_names, exprs, map_children, tensor_names, variables, walk, walk_expr

# Of the straight code. It makes a first compilation longer: of a trilinear interpolation to 12 columns 135 ms became 186, of a nearest one
# 36 became 39, of the gradient of one to 32 columns 33 became 40 (benchgraph compile-times, --policy=fused:no-unroll and fused).
MOST_STORES, MOST_STEPS = 64, 4096
_DIGITS = frozenset({BinOp.floordiv, BinOp.mod})


def unroll_divisions(f: Func, target: Target) -> Func:
    names = frozenset(_divided(f.body))
    if not names:
        return f
    taken = {p.name for p in f.params} | tensor_names(f.body)
    body = _Unroller(names, target, taken, bound_names(f.body))(f.body, {})
    return f if body is f.body else replace(f, body=body)


def _digits(e: Expr) -> Iterator[Binary]:
    return (d for d in walk_expr(e) if isinstance(d, Binary) and d.op in _DIGITS and variables(d))


def _divided(body: Stmt) -> Iterator[str]:
    """The variables of which something takes a digit, and those that decide with them whether anything is done."""
    for s in walk(body):
        for e in exprs(s):
            found = [name for d in _digits(e) for name in variables(d)]
            yield from variables(e) if found and isinstance(s, If) else found


@dataclass(frozen=True)
class _Unroller:
    """names: of the variables in question. taken: names of tensors, which grows; bound: names of variables."""

    names: Collection[str]
    target: Target
    taken: set[str]
    bound: frozenset[str]

    def __call__(self, s: Stmt, ranges: Ranges) -> Stmt:
        if not isinstance(s, For):
            return map_children(s, lambda c: self(c, ranges))
        if loop_of(s, self.target.lanes) is not None:
            return s
        within = inside(s, ranges)
        s = map_children(s, lambda c: self(c, within))
        assert isinstance(s, For)
        count = self._side_by_side(s)
        if not count:
            return s
        return simplified(unrolled(s, count, lambda copies: block(*copies), self.taken, self.bound), ranges)

    def _side_by_side(self, s: For) -> int:
        """How many iterations become one; 0 where the loop stays."""
        extent = constant(s.extent)
        is_asked = s.var.name in self.names and s.kind is LoopKind.serial and extent is not None and extent > 1
        if not is_asked or any(isinstance(c, For) for c in walk(s.body)):
            return 0
        assert extent is not None
        stores = [c for c in walk(s.body) if isinstance(c, Store)]
        if any(s.var.name in variables(d) for c in stores for i in c.index for d in _digits(i)):
            return 0  # it lays out anew what it writes
        most = min(MOST_STORES // max(len(stores), 1), MOST_STEPS // max(sum(map(instructions, stores)), 1))
        repeats = reduce(lcm, (_period(d, s.var) for c in walk(s.body) for e in exprs(c) for d in _digits(e)), 1)
        return extent if extent <= most else repeats if 1 < repeats <= most else 0


def _period(digit: Binary, var: Var) -> int:
    """As `affine.period`; 0, and so never, where the variable comes in otherwise than linearly."""
    bent = any(atom != var and var.name in variables(atom) for atom in linear(digit.a).terms)
    return 0 if bent or not isinstance(digit.b, Const) else period(digit, var)
