"""interchange-loops: loops whose stores are strided along the inner one are interchanged.

for r in 64 {                                 for i in 64 {
  for i in 64 {                                 for r in 64 {
    y[r + i*4096] = x[r*64 + i] * s[i]   ->       y[r + i*4096] = x[r*64 + i] * s[i]
  }                                             }
}                                             }

Stores can be vectorised then, and transpose-reads copies a tile of x. Of more than two loops, as over quantisation groups of an operand
that is transposed, the outermost becomes the innermost (docs/measurements/transposition.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

from benchgraph.machine.target import Target
from benchgraph.tir.affine import linear
from benchgraph.tir.aliasing import any_alias
from benchgraph.tir.build import constant, nest
from benchgraph.tir.ir import Alloc, Const, For, Func, Load, LoopKind, Scope, Seq, Stmt, Store, Var
from benchgraph.tir.transposition import LEAST_BYTES, LEAST_ROWS, only_statement
from benchgraph.tir.visit import loads, map_children, walk

Axis: TypeAlias = tuple[Var, int]  # a loop's variable and extent


def interchange_loops(f: Func, target: Target) -> Func:
    body = _Interchanger(f)(f.body)
    return f if body is f.body else replace(f, body=body)


@dataclass(frozen=True)
class _Interchanger:
    f: Func

    def __call__(self, s: Stmt) -> Stmt:
        if isinstance(s, For) and (new := self.interchanged(s)) is not None:
            return new
        return map_children(s, self)

    def interchanged(self, outer: For) -> Stmt | None:
        """The loops interchanged; None if that is not legal and useful."""
        loops = _nested(outer)
        axes = [(loop.var, extent) for loop in loops if (extent := constant(loop.extent)) is not None]
        inner = loops[-1]
        if len(loops) == 1 or len(axes) < len(loops) or any(loop.kind is LoopKind.parallel for loop in loops):
            return None
        if not all(isinstance(s, Seq | Alloc | Store) for s in walk(inner.body)):
            return None
        registers = {s.tensor for s in walk(inner.body) if isinstance(s, Alloc) and s.tensor.scope is Scope.register}
        stored = [s for s in walk(inner.body) if isinstance(s, Store) and s.tensor not in registers]
        read = list(loads(inner.body))
        if not stored or not self.are_independent(stored, read):
            return None
        interchanged = (*axes[1:], axes[0])
        if not all(_is_dense(s, interchanged) for s in stored):
            return None
        return nest([(var, Const(extent)) for var, extent in interchanged], inner.body)

    def are_independent(self, stored: list[Store], read: list[Load]) -> bool:
        """Whether no iteration reads what another may store."""
        if any(s.mask is not None for s in stored) or any(x.mask is not None for x in read):
            return False
        return not any_alias(self.f, (s.tensor for s in stored), (x.tensor for x in read))


def _nested(outer: For) -> list[For]:
    """The perfectly nested loops from this one on."""
    inner = only_statement(outer.body)
    return [outer, *_nested(inner)] if isinstance(inner, For) else [outer]


def _is_dense(s: Store, axes: Sequence[Axis]) -> bool:
    """Whether the innermost loop stores vectors of contiguous elements, and iterations of all loops store to different ones."""
    (_, height), (column, width) = axes[-2:]
    _, moving = linear(s.index[0]).split(frozenset(var.name for var, _ in axes))
    if height < LEAST_ROWS or s.tensor.dtype.nbytes(width) < LEAST_BYTES or not moving.terms.keys() <= {var for var, _ in axes}:
        return False
    strides = sorted((moving.terms.get(var, 0), extent) for var, extent in axes)
    return 1 == moving.terms.get(column) == strides[0][0] and all(
        step >= inner * extent for (inner, extent), (step, _) in pairwise(strides)
    )
