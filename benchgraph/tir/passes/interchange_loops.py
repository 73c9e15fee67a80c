"""interchange-loops: loops whose stores are strided along the inner one are interchanged, in blocks if strided reads need more than a tile.

for r in 256 {                                for i_block in 2 {
  for i in 77 {                                 for r_block in 4 {
    y[r + i*4096] = x[r*77 + i] * s[i]            for i in min(64, 77 - i_block*64) {
  }                                    ->           for r in 64 {
}                                                     y[r + r_block*64 + i*4096 + i_block*262144] = ...
                                                    }
                                                  }
                                                }
                                              }

Stores can be vectorised then, and transpose-reads copies a tile of x for each block. Of more than two loops, as over quantisation groups of
an operand that is transposed, the outermost becomes the innermost (docs/measurements/transposition.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, isqrt
from typing import TypeAlias

from benchgraph.core.dtypes import DType
from benchgraph.machine.table import table
from benchgraph.machine.target import Target
from benchgraph.tir.affine import linear
from benchgraph.tir.aliasing import any_alias
from benchgraph.tir.build import Loop, add, block_size, constant, mul, nest
from benchgraph.tir.ir import Alloc, Const, Expr, For, Func, Load, LoopKind, Scope, Seq, Stmt, Store, Var
from benchgraph.tir.transposition import LEAST_BYTES, LEAST_ROWS, is_strided_read, only_statement
from benchgraph.tir.visit import bound_names, fresh, loads, map_children, substitute_all, walk

Axis: TypeAlias = tuple[Var, int]  # a loop's variable and extent


def interchange_loops(f: Func, target: Target) -> Func:
    body = _Interchanger(f, table(target).transposed_tile_bytes, bound_names(f.body))(f.body)
    return f if body is f.body else replace(f, body=body)


@dataclass(frozen=True)
class _Interchanger:
    """tile_bytes: of a tile at most. bound: names of all loop variables."""

    f: Func
    tile_bytes: int
    bound: frozenset[str]

    def __call__(self, s: Stmt) -> Stmt:
        if isinstance(s, For) and (new := self.interchanged(s)) is not None:
            return new
        return map_children(s, self)

    def interchanged(self, outer: For) -> Stmt | None:
        """The loops interchanged, in blocks, or both; None if neither is legal and useful."""
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
        if all(_is_dense(s, interchanged) for s in stored):
            return self(nest([(var, Const(extent)) for var, extent in interchanged], inner.body))
        if len(axes) == 2 and all(_is_dense(s, axes) for s in stored):
            return self.in_blocks(axes[0], axes[1], read, inner.body)
        return None

    def are_independent(self, stored: list[Store], read: list[Load]) -> bool:
        """Whether no iteration reads what another may store."""
        if any(s.mask is not None for s in stored) or any(x.mask is not None for x in read):
            return False
        return not any_alias(self.f, (s.tensor for s in stored), (x.tensor for x in read))

    def in_blocks(self, rows: Axis, columns: Axis, read: list[Load], body: Stmt) -> Stmt | None:
        """Loops over blocks around those within a block; None if no strided read covers more than a tile."""
        elements = rows[1] * columns[1]
        if not any(x.tensor.dtype.nbytes(elements) > self.tile_bytes and is_strided_read(x, rows[0], columns[0]) for x in read):
            return None
        side = isqrt(self.tile_bytes // DType.f32.nbytes(1))
        outer, inner, indices = list[Loop](), list[Loop](), dict[str, Expr]()
        for var, extent in (rows, columns):
            if extent <= side:
                inner.append((var, Const(extent)))
                continue
            block = Var(fresh(f"{var.name}_block", self.bound))
            outer.append((block, Const(ceil(extent / side))))
            inner.append((var, block_size(extent, side, block)))
            indices[var.name] = add(mul(block, side), var)
        return nest((*outer, *inner), substitute_all(body, indices))


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
