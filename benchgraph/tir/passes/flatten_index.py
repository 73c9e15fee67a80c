"""flatten-index: every tensor becomes 1-d, every index the number of an element.

x: f32[4,8,16]                            ->  x: f32[512]
y[b, i, j] = x[b, i, j]                       y[b*128 + i*16 + j] = x[b*128 + i*16 + j]
brgemm acc[b, i:+4, 0:+16] = ...              brgemm acc[b*128 + i*16, 16] = ...
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.remember import remembered
from benchgraph.core.target import Target
from benchgraph.core.tensor import reach
from benchgraph.tir.affine import Linear, Ranges, inside, to_expr
from benchgraph.tir.index import simplify_expr
from benchgraph.tir.ir import Alloc, Brgemm, Expr, Flat, For, Func, Load, Pack, Prefetch, Ramp, Scope, Slice, Stmt, Store, Tensor
from benchgraph.tir.regions import position
from benchgraph.tir.visit import map_children, map_exprs, map_parts, reads_memory


def flatten_index(f: Func, target: Target) -> Func:
    params = tuple(_flat(p) for p in f.params)
    body = _stmt(f.body, {})
    return f if params == f.params and body == f.body else replace(f, params=params, body=body)


@remembered
def _flat(t: Tensor) -> Tensor:
    if t.scope is Scope.register or (len(t.shape) == 1 and t.strides == (1,)):
        return t
    return replace(t, shape=(reach(t.shape, t.strides),), strides=(1,))


def _position(t: Tensor, index: tuple[Expr, ...], ranges: Ranges) -> Expr:
    """The element number, a ramp when an index is one."""
    total = Linear({})
    for i, stride in zip(index, t.strides, strict=True):
        total = total.plus(position(i), stride)
    base = simplify_expr(to_expr(total, ranges), ranges)
    for i, stride in zip(index, t.strides, strict=True):
        if isinstance(i, Ramp):
            return Ramp(base, i.stride * stride, i.lanes)
    return base


def _index(t: Tensor, index: tuple[Expr, ...], ranges: Ranges) -> tuple[Expr, ...]:
    return index if t.scope is Scope.register else (_position(t, index, ranges),)


def _stmt(s: Stmt, ranges: Ranges) -> Stmt:
    within = inside(s, ranges) if isinstance(s, For) else ranges
    s = map_children(s, lambda c: _stmt(c, within))

    def expr(e: Expr) -> Expr:
        if not reads_memory(e):
            return e
        e = map_parts(e, expr)
        return Load(_flat(e.tensor), _index(e.tensor, e.index, ranges), e.mask) if isinstance(e, Load) else e

    def piece(p: Slice | Flat) -> Slice | Flat:
        if isinstance(p, Flat):
            return p
        strides = p.tensor.strides
        return Flat(_flat(p.tensor), _position(p.tensor, p.index, ranges), tuple(strides[dim] * step for dim, step in p.axes))

    s = map_exprs(s, expr)
    match s:
        case Alloc():
            return Alloc(_flat(s.tensor))
        case Store():
            return Store(_flat(s.tensor), _index(s.tensor, s.index, ranges), s.value, s.mask)
        case Prefetch():
            return replace(s, tensor=_flat(s.tensor), index=_index(s.tensor, s.index, ranges))
        case Brgemm():
            return replace(s, src=piece(s.src), wei=piece(s.wei), acc=piece(s.acc))
        case Pack():
            return replace(s, src=piece(s.src), dst=piece(s.dst))
    return s
