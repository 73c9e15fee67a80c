"""flatten-index: every tensor becomes 1-d, every index a linear offset in elements.

x: f32[4,8,16]                            ->  x: f32[512]
y[b, i, j] = x[b, i, j]                       y[b*128 + i*16 + j] = x[b*128 + i*16 + j]
brgemm acc[b, i:m, 0:n] = ...                 brgemm acc[b*128 + i*16; m*16, n] = ...
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchgraph.core.memoise import memoised
from benchgraph.core.tensor import Shape, reach
from benchgraph.machine.target import Target
from benchgraph.tir.accesses import position
from benchgraph.tir.affine import Linear, Ranges, inside, to_expr
from benchgraph.tir.index import Simplifier
from benchgraph.tir.ir import Alloc, Expr, For, Func, Ramp, Scope, Slice, Stmt, Tensor, Var, flat_slice
from benchgraph.tir.visit import map_accesses, map_children, replaced


def flatten_index(f: Func, target: Target) -> Func:
    params = tuple(_flat(p) for p in f.params)
    body = _stmt(f.body, _Offsets({}))
    return f if params == f.params and body == f.body else replace(f, params=params, body=body)


@memoised
def _flat(t: Tensor) -> Tensor:
    if t.scope is Scope.register or (len(t.shape) == 1 and t.strides == (1,)):
        return t
    return replace(t, shape=(reach(t.shape, t.strides),), strides=(1,))


class _Offsets:
    """Linear offsets of indices within given ranges, each computed once, as statements of a nest share indices."""

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges
        self._simple = Simplifier(ranges)
        self._cache = dict[tuple[Shape, tuple[Expr, ...]], Expr]()

    def of(self, t: Tensor, index: tuple[Expr, ...]) -> Expr:
        """The offset, a ramp if one of the indices is."""
        offset = self._cache.get((t.strides, index))
        if offset is None:
            offset = self._cache[t.strides, index] = self._computed(t, index)
        return offset

    def _computed(self, t: Tensor, index: tuple[Expr, ...]) -> Expr:
        total = Linear({})
        for i, stride in zip(index, t.strides, strict=True):
            total = total.plus(position(i), stride)
        base = to_expr(total, self.ranges)
        if not all(isinstance(atom, Var) for atom in total.terms):  # else it is in its simplest form
            base = self._simple(base)
        for i, stride in zip(index, t.strides, strict=True):
            if isinstance(i, Ramp):
                return Ramp(base, i.stride * stride, i.lanes)
        return base


def _stmt(s: Stmt, at: _Offsets) -> Stmt:
    within = _Offsets(inside(s, at.ranges)) if isinstance(s, For) else at
    s = map_children(s, lambda c: _stmt(c, within))

    def flat(access: Any) -> Any:
        t = access.tensor
        if t.scope is Scope.register:
            return access
        if isinstance(access, Alloc):
            return Alloc(_flat(t))
        if isinstance(access, Slice):
            return flat_slice(_flat(t), at.of(t, access.index), access.strides)
        return replaced(access, tensor=_flat(t), index=(at.of(t, access.index),))

    return map_accesses(s, flat)
