"""Windows: dst[i] reduces the values of a small box of taps, and pointwise ops follow. Pooling, depthwise convolution, interpolation.

Where windows reach beyond the ends of the rows along x, the schedule may copy src with its padding, plane by plane:

for n, c, h, x: dst[n, c, h, x] = max of those of         for n, c:  s[..] = -inf;  s[h + 1, x + 1] = src[n, c, h, x]
  src[n, c, h - 1 .. h + 1, x - 1 .. x + 1] that exist ->              for h, x: dst[n, c, h, x] = max of s[h .. h + 2, x .. x + 2]

In a padded plane all taps count, and narrow dtypes are converted once.
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.dtypes import DType
from benchgraph.gir.domain import domain_of
from benchgraph.gir.ir import FusedOp
from benchgraph.gir.windows import windows_of
from benchgraph.lower.region import Region
from benchgraph.lower.storage import Coord, Storage
from benchgraph.lower.window_loops import WindowLoops, all_of
from benchgraph.ops.spec import Indices, Source
from benchgraph.schedule.window import Planes
from benchgraph.tir.build import add, binary, cast, f32, nest, seq, sub
from benchgraph.tir.ir import BinOp, Const, Expr, For, If, Load, Seq, Stmt, Store, Tensor


def lower_windows(storage: Storage, node: FusedOp) -> Stmt:
    """A nest whose first op is a window; the others are pointwise ops and layout ops on its result."""
    g, (op, *post_ops) = storage.g, node.ops
    out, domain = g.value(op.outs[0]), domain_of(g, node.ops)
    assert node.schedule is not None, "schedule gives every window its schedule"

    def src(port: int, index: Indices) -> Expr:
        value = storage.load(op.ins[port], tuple(map(Coord, index)))
        return cast(value, DType.f32) if g.value(op.ins[port]).dtype.is_integer else value

    def finish(at: Indices, value: Expr) -> Stmt:
        coords = tuple(map(Coord, at))
        store = storage.store(out.id, coords, value)
        return seq(store, Region.point(storage, domain, coords).emit(post_ops)) if post_ops else store

    return _in_loops(WindowLoops(storage, windows_of(g, node), node.schedule, src, finish, has_post_ops=bool(post_ops)))


def _in_loops(loops: WindowLoops) -> Stmt:
    """The loops of a window's schedule, with copies of planes if it packs src."""
    packed, planes, shape = loops.schedule.packed, loops.windows.planes, loops.windows.shape
    if packed is None or 0 in shape:
        return loops.lower()
    assert planes is not None, "only windows that have padding are packed with padding"
    plane = loops.storage.temporary(DType.f32, (*(shape[axis] for _, axis in planes.axes), *planes.shape))

    def src(port: int, index: Indices) -> Expr:
        if port > 0:
            return loops.src(port, index)
        inner = (sub(index[dim], low) for dim, (low, _) in zip(planes.dims, planes.bounds, strict=True))
        return Load(plane, (*(index[dim] for dim, _ in planes.axes), *inner))

    over_planes = replace(loops, windows=loops.windows.padded(), src=src)
    return over_planes.lower({packed.loop: _copy(over_planes, loops.src, plane, planes)})


def _copy(loops: WindowLoops, src: Source, plane: Tensor, planes: Planes) -> Stmt:
    """A plane at the nest's loops that number planes, row by row."""
    (*others, last), (*bounds, (low, _)) = planes.dims, planes.bounds
    (*sizes, size), (*extents, width) = planes.sizes, planes.shape
    outer = {dim: loops.loops[axis] for dim, axis in planes.axes}
    inner = [loops.storage.var("p") for _ in others]

    def row(first: int, end: int, *, has_src: bool) -> Stmt:
        """Elements `first` to before `end` of a row, from src or as padding."""
        if first >= end:
            return Seq(())
        x = loops.storage.var("x")
        at = {**outer, **{dim: add(var, low) for dim, var, (low, _) in zip(others, inner, bounds, strict=True)}, last: add(x, first + low)}
        value = src(0, tuple(at[dim] for dim in range(len(at)))) if has_src else f32(planes.padding)
        return For(x, Const(end - first), Store(plane, (*outer.values(), *inner, add(x, first)), value))

    begin = min(max(-low, 0), width)
    end = max(min(size - low, width), begin)
    whole = seq(row(0, begin, has_src=False), row(begin, end, has_src=True), row(end, width, has_src=False))
    conditions = list[Expr]()
    for var, (low_, high_), n in zip(inner, bounds, sizes, strict=True):
        conditions += [binary(BinOp.ge, var, Const(-low_))] if low_ < 0 else []
        conditions += [binary(BinOp.lt, var, Const(n - low_))] if high_ > n else []
    body = If(all_of(conditions), whole, row(0, width, has_src=False)) if conditions else whole
    return nest(zip(inner, map(Const, extents), strict=True), body)
