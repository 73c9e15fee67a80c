"""flatten-index: every tensor becomes 1-d, every index a linear offset in elements.

x: f32[4,8,16]                            ->  x: f32[512]
y[b, i, j] = x[b, i, j]                       y[b*128 + i*16 + j] = x[b*128 + i*16 + j]
brgemm acc[b, i:m, 0:n] = ...                 brgemm acc[b*128 + i*16; m*16, n] = ...
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.memoise import memoised
from benchgraph.core.tensor import Shape, reach
from benchgraph.machine.target import Target
from benchgraph.tir.accesses import position
from benchgraph.tir.affine import Linear, Ranges, inside, to_expr
from benchgraph.tir.index import Simplifier
from benchgraph.tir.ir import Alloc, Brgemm, Expr, FlatSlice, For, Func, Load, Pack, Prefetch, Ramp, Scope, Slice, Stmt, Store, Tensor, Var
from benchgraph.tir.visit import loads_of, map_children, map_exprs, map_parts


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

    def index(self, t: Tensor, index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return index if t.scope is Scope.register else (self.of(t, index),)

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

    def expr(e: Expr) -> Expr:
        if not loads_of(e):
            return e
        e = map_parts(e, expr)
        return Load(_flat(e.tensor), at.index(e.tensor, e.index), e.mask) if isinstance(e, Load) else e

    def slice_of(p: Slice | FlatSlice) -> Slice | FlatSlice:
        if isinstance(p, FlatSlice):
            return p
        strides = p.tensor.strides
        return FlatSlice(_flat(p.tensor), at.of(p.tensor, p.index), tuple(strides[dim] * step for dim, step in p.axes))

    def prefetch_of(p: Prefetch) -> Prefetch:
        return replace(p, tensor=_flat(p.tensor), index=at.index(p.tensor, p.index))

    s = map_exprs(s, expr)
    match s:
        case Alloc():
            return Alloc(_flat(s.tensor))
        case Store():
            return Store(_flat(s.tensor), at.index(s.tensor, s.index), s.value, s.mask)
        case Prefetch():
            return prefetch_of(s)
        case Brgemm():
            return replace(
                s, src=slice_of(s.src), wei=slice_of(s.wei), acc=slice_of(s.acc), prefetches=tuple(map(prefetch_of, s.prefetches))
            )
        case Pack():
            return replace(s, src=slice_of(s.src), dst=slice_of(s.dst))
    return s
