"""unroll-divisions: loops that divide or take remainders of their variable are unrolled, so that quotients become constants.

    for x in 12 {                      ->  y[0] = v[0]
      y[x] = v[(x*14 + 7)//12]             y[1] = v[1]
    }                                      ...
                                           y[11] = v[13]

Source indices, weights and conditions of interpolation are computed at compile time then. Loops that can be vectorised, and those inside,
stay, and so do long ones. Innermost loops are unrolled first, then those around straight-line code.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from benchgraph.machine.target import Target
from benchgraph.tir.affine import Ranges, inside
from benchgraph.tir.build import constant
from benchgraph.tir.ir import For, Func, If, LoopKind, Stmt, Store
from benchgraph.tir.loops import map_loops, unrolled, with_body
from benchgraph.tir.passes.simplify import simplified
from benchgraph.tir.vector_loops import loop_of
from benchgraph.tir.visit import block, divisions_of, exprs, names_of, variables, walk

# Of the unrolled code, which takes time to compile (docs/measurements/loop-unrolling.md).
MOST_STORES = 64


def unroll_divisions(f: Func, target: Target) -> Func:
    divided = frozenset(_divided_variables(f.body))
    if not divided:
        return f
    return with_body(f, map_loops(f.body, _Unroller(divided, target, names_of(f))))


def _divided_variables(body: Stmt) -> Iterator[str]:
    """Variables that are divided, and those that occur with them in a condition."""
    for s in walk(body):
        for e in exprs(s):
            divided = [name for d in divisions_of(e) for name in variables(d)]
            yield from variables(e) if divided and isinstance(s, If) else divided


@dataclass(frozen=True)
class _Unroller:
    """divided: names of divided variables."""

    divided: Collection[str]
    target: Target
    names: set[str]

    def __call__(self, loop: For, ranges: Ranges) -> Stmt:
        if loop_of(loop, self.target) is not None:
            return loop
        body = map_loops(loop.body, self, inside(loop, ranges))
        loop = loop if body is loop.body else replace(loop, body=body)
        if not self._pays(loop):
            return loop
        return simplified(unrolled(loop, constant(loop.extent) or 0, lambda copies: block(*copies), self.names), ranges)

    def _pays(self, s: For) -> bool:
        """Whether a loop divides its variable, and is short enough to be unrolled in full."""
        count = constant(s.extent) or 0
        is_candidate = s.var.name in self.divided and s.kind is LoopKind.serial and count > 1
        if not is_candidate or any(isinstance(c, For) for c in walk(s.body)):
            return False
        stores = [c for c in walk(s.body) if isinstance(c, Store)]
        if any(s.var.name in variables(d) for c in stores for i in c.index for d in divisions_of(i)):
            return False  # it changes a layout: quotients of store indices stay
        return count * len(stores) <= MOST_STORES
