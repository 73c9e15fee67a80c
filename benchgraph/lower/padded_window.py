"""Windows over planes of src that are copied with their padding, where windows reach beyond the ends of the rows along x.

for n, c, h, x: dst[n, c, h, x] = max of those of         for n, c:  s[..] = -inf;  s[h + 1, x + 1] = src[n, c, h, x]
  src[n, c, h - 1 .. h + 1, x - 1 .. x + 1] that exist ->              for h, x: dst[n, c, h, x] = max of s[h .. h + 2, x .. x + 2]

With channels first, the first and last elements of each row have conditions of their own, tap by tap. In a padded plane all taps count,
narrow dtypes are converted once, and neighbouring rows are computed together (stencil_jam.py). A plane fits a core's caches.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod

from benchgraph.core.dtypes import DType
from benchgraph.lower.window_nest import WindowNest, all_of
from benchgraph.lower.window_rows import WindowRow
from benchgraph.ops.spec import Call, Indices, Source, Tap
from benchgraph.tir.affine import linear, linear_bounds
from benchgraph.tir.build import add, binary, f32, nest, seq, sub
from benchgraph.tir.ir import BinOp, Const, Expr, For, If, Load, Seq, Stmt, Store, Tensor, Var
from benchgraph.tir.visit import variables

FEWEST_PLANES = 32  # fewer do not keep threads busy


@dataclass(frozen=True)
class PaddedWindow:
    """nest: the window over padded planes. axes: of dst, those that number the planes. fill: copies one plane."""

    nest: WindowNest
    axes: frozenset[int]
    fill: Stmt

    @classmethod
    def of(cls, row: WindowRow) -> PaddedWindow | None:
        """None where rows have no borders, no value can stand for padding, or planes are few or large."""
        window, shape = row.nest, row.nest.call.ins[0].shape
        padding = None if window.window.padding is None else window.window.padding(window.call)
        if padding is None:
            return None
        first, end = row.interior[window.x_axis]
        taps = tuple(Var(f"$t{k}") for k in range(len(window.taps)))
        index = _read_index(window, taps)
        ranges = window.ranges_with(zip(taps, window.taps, strict=True))
        x = window.loops[window.x_axis]
        axes = {dim: window.loops.index(i) for dim, i in enumerate(index) if isinstance(i, Var) and i != x}
        dims = list[_Dim]()
        for dim in (dim for dim in range(len(shape)) if dim not in axes):
            low, high = map(int, linear_bounds(linear(index[dim]), ranges))
            dims.append(_Dim(dim, low, high + 1, shape[dim]))
        dims.sort(key=lambda dim: x.name in variables(index[dim.number]))
        size = prod(dim.extent for dim in dims)
        rows = prod(extent for axis, extent in enumerate(window.dst.shape) if axis not in {*axes.values(), window.x_axis})
        machine, is_f32 = window.storage.machine, window.call.ins[0].dtype is DType.f32
        most = machine.padded_elements_per_tap if is_f32 else machine.padded_narrow_elements_per_tap
        taps_at_ends = (window.x_size - (end - first)) * prod(window.taps) * rows
        if size > machine.padded_plane_elements or prod(shape[dim] for dim in axes) < FEWEST_PLANES or size > most * taps_at_ends:
            return None
        plane = window.storage.temporary(DType.f32, (*(window.dst.shape[axis] for axis in axes.values()), *(dim.extent for dim in dims)))
        loops = {dim: window.loops[axis] for dim, axis in axes.items()}
        return cls(_over_planes(window, plane, axes, dims), frozenset(axes.values()), _fill(window, plane, loops, dims, f32(padding)))


@dataclass(frozen=True)
class _Dim:
    """A dim of src, of 0 to `size`, along which windows have taps from `low` to before `high`."""

    number: int
    low: int
    high: int
    size: int

    @property
    def extent(self) -> int:
        return self.high - self.low


def _read_index(window: WindowNest, tap: Indices) -> Indices:
    """The index of src that a tap reads."""
    indices: set[Indices] = set()

    def src(port: int, index: Indices) -> Expr:
        indices.update([index] if port == 0 else [])
        return f32(1.0)

    window.window.tap(window.call, window.loops, tap, src)
    (index,) = indices
    return index


def _over_planes(window: WindowNest, plane: Tensor, axes: Collection[int], dims: list[_Dim]) -> WindowNest:
    """The window that reads planes, without conditions. axes: the dims of src that number them. dims: the other dims, x last."""

    def tap(call: Call, at: Indices, tap: Indices, src: Source) -> Tap:
        def padded_src(port: int, index: Indices) -> Expr:
            if port > 0:
                return src(port, index)
            return Load(plane, (*(index[dim] for dim in axes), *(sub(index[dim.number], dim.low) for dim in dims)))

        return Tap(window.window.tap(call, at, tap, padded_src).value, ())

    return window.with_taps(tap)


def _fill(window: WindowNest, plane: Tensor, outer: dict[int, Var], dims: list[_Dim], padding: Expr) -> Stmt:
    """Copy the plane at these loops, by dims of src, row by row."""
    *others, last = dims
    loops = {dim.number: window.storage.var("p") for dim in others}

    def fill_row(first: int, end: int, *, has_src: bool) -> Stmt:
        """Elements `first` to before `end` of a row, from src or as padding."""
        if first >= end:
            return Seq(())
        x = window.storage.var("x")
        at = {**outer, **{dim.number: add(loops[dim.number], dim.low) for dim in others}, last.number: add(x, first + last.low)}
        value = window.src(0, tuple(at[dim] for dim in range(len(at)))) if has_src else padding
        return For(x, Const(end - first), Store(plane, (*outer.values(), *loops.values(), add(x, first)), value))

    begin = min(max(-last.low, 0), last.extent)
    end = max(min(last.size - last.low, last.extent), begin)
    row = seq(fill_row(0, begin, has_src=False), fill_row(begin, end, has_src=True), fill_row(end, last.extent, has_src=False))
    conditions = list[Expr]()
    for dim in others:
        conditions += [binary(BinOp.ge, loops[dim.number], Const(-dim.low))] if dim.low < 0 else []
        conditions += [binary(BinOp.lt, loops[dim.number], Const(dim.size - dim.low))] if dim.high > dim.size else []
    body = If(all_of(conditions), row, fill_row(0, last.extent, has_src=False)) if conditions else row
    return nest(((loops[dim.number], Const(dim.extent)) for dim in others), body)
