"""interchange-loops: loops whose stores are strided along the inner one are interchanged.

for r in 64 {                                 for i in 64 {
  for i in 64 {                                 for r in 64 {
    y[r + i*4096] = x[r*64 + i] * s[i]   ->       y[r + i*4096] = x[r*64 + i] * s[i]
  }                                             }
}                                             }

Stores can be vectorised then, and transpose copies a tile of x. Of more than two loops, as over quantisation groups of an operand
that is transposed, the outermost becomes the innermost (docs/measurements/transposition.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

from benchgraph.machine.target import Target
from benchgraph.tir.accesses import any_alias
from benchgraph.tir.affine import linear
from benchgraph.tir.build import constant, nest
from benchgraph.tir.ir import Alloc, Const, For, Func, LoopKind, Scope, Stmt, Store, Var
from benchgraph.tir.loops import is_straight_line, map_loops, perfect_nest, with_body
from benchgraph.tir.transposition import LEAST_BYTES, LEAST_ROWS
from benchgraph.tir.visit import loads, walk

Axis: TypeAlias = tuple[Var, int]  # a loop's variable and extent


def interchange_loops(f: Func, target: Target) -> Func:
    return with_body(f, map_loops(f.body, lambda loop, ranges: _interchanged(f, loop)))


def _interchanged(f: Func, outer: For) -> Stmt | None:
    """The loops interchanged; None if that is not legal and useful."""
    loops = perfect_nest(outer)
    axes = [(loop.var, extent) for loop in loops if (extent := constant(loop.extent)) is not None]
    body = loops[-1].body
    if len(loops) == 1 or len(axes) < len(loops) or any(loop.kind is LoopKind.parallel for loop in loops) or not is_straight_line(body):
        return None
    registers = {s.tensor for s in walk(body) if isinstance(s, Alloc) and s.tensor.scope is Scope.register}
    stored = [s for s in walk(body) if isinstance(s, Store) and s.tensor not in registers]
    read = list(loads(body))
    if not stored or any(s.mask is not None for s in stored) or any(x.mask is not None for x in read):
        return None
    if any_alias(f, (s.tensor for s in stored), (x.tensor for x in read)):
        return None  # an iteration may read what another one stores
    interchanged = (*axes[1:], axes[0])
    if not all(_is_dense(s, interchanged) for s in stored):
        return None
    return nest([(var, Const(extent)) for var, extent in interchanged], body)


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
