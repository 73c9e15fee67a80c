"""Planes of src with their padding laid out, where windows reach beyond the ends of the rows that vectors run along.

for n, c, h, x: dst[n, c, h, x] = max of what of           for n, c:  s[..] = -inf;  s[h + 1, x + 1] = src[n, c, h, x]
  src[n, c, h - 1 .. h + 1, x - 1 .. x + 1] there is  ->              for h, x: dst[n, c, h, x] = max of s[h .. h + 2, x .. x + 2]

Channels first, the first and last elements of each row have conditions of their own, tap by tap. In a plane with padding all taps count,
narrow types are converted once, and rows beside each other are taken together (beside.py). A core's caches hold it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod

from benchgraph.core.dtypes import DType
from benchgraph.lower.window_nest import Nest, all_of
from benchgraph.lower.window_rows import Row
from benchgraph.ops.spec import Call, Indices, Source, Tap
from benchgraph.tir.affine import linear, linear_bounds
from benchgraph.tir.build import add, binary, f32, seq, sub
from benchgraph.tir.ir import BinOp, Const, Expr, For, If, Load, Seq, Stmt, Store, Tensor, Var
from benchgraph.tir.visit import variables

# Elements that are laid out for each tap of a window at an end of a row, at most. Two Zen 4 cores, f32, max and average pooling, times over
# those without, images of one width: 14, 5x5 (0.2 elements) 0.16; 28, 3x3 (1.7) 0.35, 0.40; 56, 3x3 (3.2) 0.63, 0.84; stride 2, 112, 7x7
# (1.4) 0.54; 56, 5x5 (2.4) 0.85, 0.81; 14, 3x3 (3.6) 0.49, 0.45; 112, 5x5 (4.6) 1.09, 1.07; stride 1, 112, 3x3 (6.3) 0.88, 1.14; 224 (13)
# 0.93, 1.27; stride 2, 112, 3x3 (25) 1.39. Narrow elements are converted once instead of for each tap: depthwise convolutions of 3x3, 112,
# bf16 (6.3) 0.43, u8 0.40; stride 2 (25) 1.04, 0.73; f32 0.80, 1.30.
MOST_PER_TAP, MOST_NARROW = 4, 16
FEW = 32  # planes that are too few for threads to share
MOST = 1 << 16  # elements of a plane: 256 KiB


@dataclass(frozen=True)
class Padded:
    """nest: the windows over planes that have padding. axes: of dst, along which planes are. filling: what lays one out."""

    nest: Nest
    axes: frozenset[int]
    filling: Stmt


@dataclass(frozen=True)
class _Dim:
    """A dim of src along which windows have taps: what they reach, from `low` to before `high`, of 0 to `size`."""

    number: int
    low: int
    high: int
    size: int


def padded(row: Row) -> Padded | None:
    """None where rows have no borders, nothing stands for what is not there, or planes are few or large."""
    nest = row.nest
    padding = None if nest.how.padding is None else nest.how.padding(nest.call)
    if padding is None:
        return None
    first, last = row.interior[nest.along]
    index = _read(nest, nest.loops, taps := tuple(Var(f"$t{k}") for k in range(len(nest.taps))))
    ranges = nest.within(zip(taps, nest.taps, strict=True))
    axes = {d: nest.loops.index(i) for d, i in enumerate(index) if isinstance(i, Var) and i != nest.loops[nest.along]}
    dims, shape = list[_Dim](), nest.call.ins[0].shape
    for d in (d for d in range(len(shape)) if d not in axes):
        low, high = map(int, linear_bounds(linear(index[d]), ranges))
        dims.append(_Dim(d, low, high + 1, shape[d]))
    dims.sort(key=lambda dim: nest.loops[nest.along].name in variables(index[dim.number]))
    size, rows = (prod(extents) for extents in ([dim.high - dim.low for dim in dims], _inner(nest, axes.values())))
    most = MOST_PER_TAP if nest.call.ins[0].dtype is DType.f32 else MOST_NARROW
    at_ends = (nest.x_size - (last - first)) * prod(nest.taps)
    if size > MOST or prod(shape[d] for d in axes) < FEW or size > most * at_ends * rows:
        return None
    return _laid_out(nest, axes, dims, f32(padding))


def _inner(nest: Nest, axes: Collection[int]) -> list[int]:
    """The extents of dst within a plane, but for x."""
    return [extent for axis, extent in enumerate(nest.dst.shape) if axis not in axes and axis != nest.along]


def _read(nest: Nest, at: Indices, tap: Indices) -> Indices:
    """Which element of src a tap reads."""
    found: list[Indices] = []

    def src(port: int, index: Indices) -> Expr:
        found.extend([index] if port == 0 else [])
        return f32(1.0)

    nest.how.tap(nest.call, at, tap, src)
    (index,) = set(found)
    return index


def _laid_out(nest: Nest, axes: dict[int, int], dims: list[_Dim], padding: Expr) -> Padded:
    """axes: of each dim of src without taps, the axis of dst along it. dims: the others, x last."""
    planes = [nest.dst.shape[axis] for axis in axes.values()]
    plane = nest.storage.extra(DType.f32, (*planes, *(dim.high - dim.low for dim in dims)))

    def tap(call: Call, at: Indices, t: Indices, src: Source) -> Tap:
        def laid_out(port: int, index: Indices) -> Expr:
            if port > 0:
                return src(port, index)
            return Load(plane, (*(index[d] for d in axes), *(sub(index[dim.number], dim.low) for dim in dims)))

        return Tap(nest.how.tap(call, at, t, laid_out).value, ())

    outer = {d: nest.loops[axis] for d, axis in axes.items()}
    return Padded(nest.tapping(tap), frozenset(axes.values()), _filling(nest, plane, outer, dims, padding))


def _filling(nest: Nest, plane: Tensor, outer: dict[int, Var], dims: list[_Dim], padding: Expr) -> Stmt:
    """The plane at these loops, row by row. outer: by dims of src."""
    *others, last = dims
    loops = {dim.number: nest.storage.var("p") for dim in others}

    def stored(first: int, end: int, *, reads: bool) -> Stmt:
        """Elements `first` to before `end` of a row."""
        if first >= end:
            return Seq(())
        x = nest.storage.var("x")
        at = {**outer, **{dim.number: add(loops[dim.number], dim.low) for dim in others}, last.number: add(x, first + last.low)}
        value = nest.src(0, tuple(at[d] for d in range(len(at)))) if reads else padding
        return For(x, Const(end - first), Store(plane, (*outer.values(), *loops.values(), add(x, first)), value))

    width = last.high - last.low
    begin = min(max(-last.low, 0), width)
    end = max(min(last.size - last.low, width), begin)
    row, inside = seq(stored(0, begin, reads=False), stored(begin, end, reads=True), stored(end, width, reads=False)), list[Expr]()
    for dim in others:
        inside += [binary(BinOp.ge, loops[dim.number], Const(-dim.low))] if dim.low < 0 else []
        inside += [binary(BinOp.lt, loops[dim.number], Const(dim.size - dim.low))] if dim.high > dim.size else []
    filling = If(all_of(inside), row, stored(0, width, reads=False)) if inside else row
    for dim in reversed(others):
        filling = For(loops[dim.number], Const(dim.high - dim.low), filling)
    return filling
