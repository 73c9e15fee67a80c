"""interchange-loops: loops change places where stores are strided along the inner one, in blocks if they read more across them than a tile.

for r in 256 {                                for i_block in 2 {
  for i in 77 {                                 for r_block in 4 {
    y[r + i*4096] = x[r*77 + i] * s[i]            for i in min(64, 77 - i_block*64) {
  }                                    ->           for r in 64 {
}                                                     y[r + r_block*64 + i*4096 + i_block*262144] = ...
                                                    }
                                                  }
                                                }
                                              }

Stores run in vectors then, and transpose-reads makes a tile of what a block reads of x. Of more than two loops, as over groups of an
operand that is transposed, the outermost becomes the innermost: times of attention on keys of s4 in groups 0.79 to 0.85 (Zen 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, isqrt
from typing import TypeAlias

from benchgraph.core.dtypes import DType
from benchgraph.core.target import Target
from benchgraph.tir.affine import linear
from benchgraph.tir.build import Loop, add, block_size, constant, mul, nest
from benchgraph.tir.ir import Alloc, Const, Expr, For, Func, Load, LoopKind, Scope, Seq, Stmt, Store, Var
from benchgraph.tir.transposition import LEAST_BYTES, LEAST_ROWS, MOST_BYTES, is_strided_read, only_statement
from benchgraph.tir.vector_loops import any_meet
from benchgraph.tir.visit import bound_names, fresh, loads, map_children, substitute_all, walk

SIDE = isqrt(MOST_BYTES // DType.f32.nbytes(1))  # of a block: a tile of 32 bits an element

Side: TypeAlias = tuple[Var, int]  # of what is stored: a loop's variable and extent


def interchange_loops(f: Func, target: Target) -> Func:
    body = _Turner(f, bound_names(f.body))(f.body)
    return f if body is f.body else replace(f, body=body)


@dataclass(frozen=True)
class _Turner:
    """bound: names of variables."""

    f: Func
    bound: frozenset[str]

    def __call__(self, s: Stmt) -> Stmt:
        if isinstance(s, For) and (found := self.turned(s)) is not None:
            return found
        return map_children(s, self)

    def turned(self, outer: For) -> Stmt | None:
        """The loops in the other order, in blocks, or both; None where they are good as they are, or have to stay so."""
        loops = _nested(outer)
        sides = [(loop.var, extent) for loop in loops if (extent := constant(loop.extent)) is not None]
        inner = loops[-1]
        if len(loops) == 1 or len(sides) < len(loops) or any(loop.kind is LoopKind.parallel for loop in loops):
            return None
        if not all(isinstance(s, Seq | Alloc | Store) for s in walk(inner.body)):
            return None
        own = {s.tensor for s in walk(inner.body) if isinstance(s, Alloc) and s.tensor.scope is Scope.register}
        stored = [s for s in walk(inner.body) if isinstance(s, Store) and s.tensor not in own]
        read = list(loads(inner.body))
        if not stored or not self.in_any_order(stored, read):
            return None
        turned = (*sides[1:], sides[0])
        if all(_is_dense(s, turned) for s in stored):
            return self(nest([(var, Const(extent)) for var, extent in turned], inner.body))
        if len(sides) == 2 and all(_is_dense(s, sides) for s in stored):
            return self.in_blocks(sides[0], sides[1], read, inner.body)
        return None

    def in_any_order(self, stored: list[Store], read: list[Load]) -> bool:
        """Whether no turn of the loops reads what another may have stored."""
        if any(s.mask is not None for s in stored) or any(x.mask is not None for x in read):
            return False
        return not any_meet(self.f, (s.tensor for s in stored), (x.tensor for x in read))

    def in_blocks(self, rows: Side, columns: Side, read: list[Load], body: Stmt) -> Stmt | None:
        """The loops over blocks, and inside those in a block; None where nothing is read across, or by no more than a tile."""
        elements = rows[1] * columns[1]
        if not any(x.tensor.dtype.nbytes(elements) > MOST_BYTES and is_strided_read(x, rows[0], columns[0]) for x in read):
            return None
        over, within, places = list[Loop](), list[Loop](), dict[str, Expr]()
        for var, extent in (rows, columns):
            if extent <= SIDE:
                within.append((var, Const(extent)))
                continue
            block = Var(fresh(f"{var.name}_block", self.bound))
            over.append((block, Const(ceil(extent / SIDE))))
            within.append((var, block_size(extent, SIDE, block)))
            places[var.name] = add(mul(block, SIDE), var)
        return nest((*over, *within), substitute_all(body, places))


def _nested(outer: For) -> list[For]:
    """The loop, the one that it consists of, and so on."""
    inner = only_statement(outer.body)
    return [outer, *_nested(inner)] if isinstance(inner, For) else [outer]


def _is_dense(s: Store, sides: Sequence[Side]) -> bool:
    """Whether the last loop stores elements one after the other, in vectors and apart from those of its other turns, which are several."""
    (_, height), (column, width) = sides[-2:]
    _, moving = linear(s.index[0]).split(frozenset(var.name for var, _ in sides))
    if height < LEAST_ROWS or s.tensor.dtype.nbytes(width) < LEAST_BYTES or not moving.terms.keys() <= {var for var, _ in sides}:
        return False
    found = sorted((moving.terms.get(var, 0), extent) for var, extent in sides)
    return 1 == moving.terms.get(column) == found[0][0] and all(step >= inner * extent for (inner, extent), (step, _) in pairwise(found))
