"""Unroll and jam of stencils: neighbouring windows are computed together, so that shared elements and weights are loaded once.

for y in 112: for x in 32:                       for g in 28: for x in 32:
  dst[y, x] = src[y, x] * w[0, x]                  dst[4g, x] = src[4g, x] * w[0, x] + src[4g + 1, x] * w[1, x] + ...
            + src[y + 1, x] * w[1, x]      ->      dst[4g + 1, x] = src[4g + 1, x] * w[0, x] + src[4g + 2, x] * w[1, x] + ...
            + src[y + 2, x] * w[2, x]              dst[4g + 2, x] = ...

y is the last axis along which neighbouring windows share elements. Windows at its borders have constant y, and taps outside of src are left
out; taps along other axes are loops, under their conditions. All sums of a vector of x stay in registers, and none waits for another:

    for x: acc_0 .. acc_3 = init;  for taps along other axes: if they count: acc_0 = acc_0 op tap_0 op tap_1 ..., acc_1 = ...;  finish

Where a window has many taps along y, as in a gradient of weights, which sums over rows of an image, a row of x is computed at a time:

    acc_0[..] .. acc_3[..] = init;  for taps along other axes: if they count: for some taps along y: for x: acc_0[x] = ...;  for x: finish
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise, product
from math import prod
from typing import TypeAlias

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape
from benchgraph.lower.window_nest import Interval, WindowNest, guarded_nest
from benchgraph.lower.window_rows import WindowRow, as_non_negative, interval_of
from benchgraph.ops.spec import Indices
from benchgraph.tir.affine import Range, Ranges, linear
from benchgraph.tir.build import add, binary, constant, mul, seq, sub
from benchgraph.tir.index import Simplifier, simplify_expr
from benchgraph.tir.ir import BinOp, Const, Expr, For, If, Load, LoopKind, Stmt, Store, Tensor, Var
from benchgraph.tir.visit import loads_of, variables

TapValue: TypeAlias = tuple[Expr, tuple[Expr, ...]]  # a tap's value, and those of its conditions that are not known to hold

MOST_TAPS, TAP_GROUP = 12, 8  # along y in one expression; if there are more, this many at a time
MOST_BORDER_GROUPS = 4  # groups of windows at the borders of y, each with its own code
FEW_ROWS = 64  # with fewer indices of the other axes, groups of windows along y are parallel tasks, too


def stencil_jam(row: WindowRow, kind: LoopKind) -> tuple[int, Stmt] | None:
    """(y, loops over y and x); None where windows share nothing, or are not that simple. kind: of the loops over dst."""
    nest = row.nest
    if nest.jam == 1 or nest.window.op is None or nest.window.unclamped is not None or not nest.has_affine_taps or nest.period > 1:
        return None
    for axis in reversed(range(len(nest.loops))):
        y_taps = _shared_tap_axes(nest, axis) if axis != nest.x_axis and nest.dst.shape[axis] > 1 else ()
        if y_taps:
            jammed = _StencilJam(nest, axis, y_taps, row.interior, row.known_clamps).lower(kind)
            return None if jammed is None else (axis, jammed)
    return None


def _shared_tap_axes(nest: WindowNest, axis: int) -> tuple[int, ...]:
    """The axes of the box of taps that move along an axis of dst, if neighbouring windows along it share elements or weights."""
    taps, var = tuple(Var(f"$t{k}") for k in range(len(nest.taps))), nest.loops[axis]
    moving, is_shared = set[int](), nest.window.channel_weights is not None
    for index in (i for load in loads_of(nest.tap(nest.loops, taps).value) for i in load.index if var.name in variables(i)):
        terms = linear(index).terms
        for k, (tap, extent) in enumerate(zip(taps, nest.taps, strict=True)):
            if tap.name in variables(index):
                moving.add(k)
                by, tap_step = terms.get(var, 0), terms.get(tap, 0)  # 0 where quotients decide which element a tap reads
                overlaps = (by * i % tap_step == 0 and abs(by * i // tap_step) < extent for i in range(1, nest.jam))
                is_shared |= extent > 1 and (tap_step == 0 or any(overlaps))
    return tuple(sorted(moving)) if is_shared else ()


@dataclass(frozen=True)
class _StencilJam:
    """axis: y. y_taps: the axes of the box of taps that move along it. interior, known_clamps: per axis of dst, as in window_rows.py."""

    nest: WindowNest
    axis: int
    y_taps: tuple[int, ...]
    interior: list[Interval]
    known_clamps: list[Interval]

    @cached_property
    def tap_loops(self) -> tuple[Var | None, ...]:
        """By axis of the box, the variable of its loop; None for those along y."""
        return tuple(None if k in self.y_taps else self.nest.storage.var("k") for k in range(len(self.nest.taps)))

    @property
    def _other_axes(self) -> list[int]:
        return [axis for axis in range(len(self.nest.dst.shape)) if axis not in (self.axis, self.nest.x_axis)]

    @property
    def acc_shape(self) -> Shape:
        """Extents of all axes but y, x last."""
        return (*(self.nest.dst.shape[axis] for axis in self._other_axes), self.nest.x_size)

    def acc_index(self, x: Expr) -> Indices:
        return (*(self.nest.outer[axis] for axis in self._other_axes), x)

    def lower(self, kind: LoopKind) -> Stmt | None:
        jam, (head, count, tail) = self.nest.jam, self._groups()
        if self.interior[self.nest.x_axis] != (0, self.nest.x_size) or len(head) + len(tail) > MOST_BORDER_GROUPS:
            return None
        is_task = kind is LoopKind.parallel and prod(self.nest.dst.shape[axis] for axis in self._other_axes) < FEW_ROWS
        group, first = self.nest.storage.var("g"), len(head[:1]) if is_task else 0
        y = add(mul(sub(group, first), jam), head[-1].stop if head else 0)
        ranges: dict[str, Range] = {group.name: (first, first + count - 1)}
        borders = [[_WindowGroup(self, tuple(map(Const, ys)), {}) for ys in groups] for groups in (head, tail)]
        interior = [_WindowGroup(self, tuple(add(y, i) for i in range(jam)), ranges)] if count else []
        if not all(group.has_known_taps for groups in (*borders, interior) for group in groups):
            return None
        before, after, middle = (seq(*(group.lower() for group in groups)) for groups in (*borders, interior))
        if not is_task:
            return seq(before, For(group, Const(count), middle), after)
        body = If(binary(BinOp.lt, group, Const(first + count)), middle, after) if tail else middle
        body = If(binary(BinOp.lt, group, Const(first)), before, body) if head else body
        return For(group, Const(first + count + len(tail[:1])), body, kind)

    def _groups(self) -> tuple[list[range], int, list[range]]:
        """Groups of windows before the interior of y, the number of full groups in it, and groups after them."""
        size, jam = self.nest.dst.shape[self.axis], self.nest.jam
        (first, end), (known_first, known_end) = self.interior[self.axis], self.known_clamps[self.axis]
        first, end = max(first, known_first), min(end, known_end)
        if size <= 2 * jam or first >= end:
            return _even_parts(0, size, jam), 0, []
        begin = -(-first // jam) * jam
        count = max((end - begin) // jam, 0)
        return _even_parts(0, begin, jam), count, _even_parts(begin + count * jam, size, jam)


def _even_parts(first: int, end: int, most: int) -> list[range]:
    """As few parts of at most so many as possible, of nearly equal size."""
    count = -(-(end - first) // most)
    bounds = [first + (end - first) * i // count for i in range(count + 1)] if count else []
    return [range(a, b) for a, b in pairwise(bounds)]


@dataclass(frozen=True)
class _TapGroup:
    """Taps along y that are reduced in one expression: their indices along y_taps. loop: repeats the group `count` times."""

    taps: list[Indices]
    loop: Var | None = None
    count: int = 1

    def repeated(self, stmt: Stmt) -> Stmt:
        return stmt if self.loop is None else For(self.loop, Const(self.count), stmt)


@dataclass(frozen=True)
class _WindowGroup:
    """The windows at these neighbouring y, over all of x. ranges: of the variables in ys."""

    jam: _StencilJam
    ys: Indices
    ranges: dict[str, Range]

    @property
    def has_known_taps(self) -> bool:
        """Whether each window's taps along y are known, and the other taps have the same conditions in all windows, whatever x."""
        inner = {self.x.name, *(group.loop.name for group in self._tap_groups if group.loop is not None)}
        are_outside = not any(inner & variables(c) for conditions in self._conditions for c in conditions)
        return bool(self._tap_groups) and len(self._conditions) <= 1 and are_outside

    def lower(self) -> Stmt:
        windows = self._vector_by_vector() if len(self._tap_groups) == 1 else self._row_by_row()
        is_known = self.jam.nest.interior_condition(self.jam.known_clamps, excluded_axis=self.jam.axis)
        return windows if is_known is None else If(is_known, windows, windows)  # simplify makes more of the first branch

    @cached_property
    def x(self) -> Var:
        return self.jam.nest.storage.var("x")

    @cached_property
    def _nests(self) -> tuple[WindowNest, ...]:
        return tuple(self.jam.nest.at_index(self.jam.axis, y, self.ranges) for y in self.ys)

    @cached_property
    def _tap_groups(self) -> list[_TapGroup]:
        """The taps along y, as one group or, if they are many, as several; none where their borders are too wide for that."""
        extents = [self.jam.nest.taps[k] for k in self.jam.y_taps]
        if prod(extents) <= MOST_TAPS:
            return [_TapGroup([tuple(map(Const, tap)) for tap in product(*map(range, extents))])]
        first, end = self._common_taps() if len(extents) == 1 else (0, 0)
        count = (end - first) // TAP_GROUP
        borders = _even_parts(0, first, TAP_GROUP), _even_parts(first + count * TAP_GROUP, extents[0], TAP_GROUP)
        head, tail = ([_TapGroup([(Const(k),) for k in part]) for part in parts] for parts in borders)
        if count < 1 or len(head) + len(tail) > MOST_BORDER_GROUPS:
            return []
        k = self.jam.nest.storage.var("k")
        tap = add(mul(k, TAP_GROUP), first)
        return [*head, _TapGroup([(add(tap, i),) for i in range(TAP_GROUP)], k, count), *tail]

    def _common_taps(self) -> Interval:
        """The interval of taps along y that all windows have, by the conditions on these taps."""
        size, k = self.jam.nest.taps[self.jam.y_taps[0]], self.jam.nest.storage.var("k")
        tap = tuple(k if loop is None else loop for loop in self.jam.tap_loops)
        first, end = 0, size
        for nest in self._nests:
            ranges = self._known_ranges(nest, {k.name: (0, size - 1)})
            conditions = (simplify_expr(c, ranges) for c in nest.tap(nest.index(self.x), tap).conditions if k.name in variables(c))
            for form in (form for c in conditions if constant(c) is None for form in as_non_negative(c)):
                _, low, high = interval_of(form, (k,), [size], ranges)
                first, end = max(first, low), min(end, high)
        return first, max(first, end)

    @cached_property
    def _values(self) -> list[list[list[TapValue]]]:
        """By group of taps and window, the values of the window's taps."""
        return [[list(self._tap_values(nest, group)) for nest in self._nests] for group in self._tap_groups]

    def _tap_values(self, nest: WindowNest, group: _TapGroup) -> Iterator[TapValue]:
        simplify = Simplifier(self._known_ranges(nest, {} if group.loop is None else {group.loop.name: (0, group.count - 1)}))
        for tap_of_group in group.taps:
            along_y = dict(zip(self.jam.y_taps, tap_of_group, strict=True))
            at = tuple(along_y[k] if loop is None else loop for k, loop in enumerate(self.jam.tap_loops))
            tap = nest.tap(nest.index(self.x), at)
            when = [simplify(c) for c in tap.conditions]
            if all(constant(c) != 0 for c in when):
                yield tap.value, tuple(c for c in when if constant(c) is None)

    def _known_ranges(self, nest: WindowNest, more: Ranges) -> Ranges:
        loops = {k.name: (0, n - 1) for k, n in zip(self.jam.tap_loops, nest.taps, strict=True) if k is not None}
        return {**nest.ranges, **loops, self.x.name: (0, nest.x_size - 1), **more}

    @cached_property
    def _conditions(self) -> set[tuple[Expr, ...]]:
        """The sets of undecided conditions that taps have."""
        return {when for windows in self._values for taps in windows for _, when in taps}

    def _vector_by_vector(self) -> Stmt:
        """All taps for one x, or a vector of x, before the next."""
        nest, at = self.jam.nest, self.jam.acc_index(self.x)
        accs = [nest.storage.temporary(DType.f32, self.jam.acc_shape) for _ in self.ys]
        (group,), (windows,) = self._tap_groups, self._values
        clears = (Store(acc, at, nest.init) for acc in accs)
        updates = (self._update(acc, at, taps) for acc, taps in zip(accs, windows, strict=True) if taps)
        stores = (n.store(n.index(self.x), Load(acc, at)) for n, acc in zip(self._nests, accs, strict=True))
        return self._over_x(*clears, self._over_taps(group.repeated(seq(*updates))), *stores)

    def _row_by_row(self) -> Stmt:
        """All x for one group of taps before the next: src's rows are read in order."""
        nest, groups = self.jam.nest, list[Stmt]()
        acc = nest.storage.temporary(DType.f32, (len(self.ys), *self.jam.acc_shape))
        at = [(Const(i), *self.jam.acc_index(self.x)) for i in range(len(self.ys))]
        for group, windows in zip(self._tap_groups, self._values, strict=True):
            groups.append(group.repeated(self._over_x(*(self._update(acc, i, taps) for i, taps in zip(at, windows, strict=True) if taps))))
        clears = self._over_x(*(Store(acc, i, nest.init) for i in at))
        stores = (n.store(n.index(self.x), Load(acc, i)) for n, i in zip(self._nests, at, strict=True))
        return seq(clears, self._over_taps(seq(*groups)), self._over_x(*stores))

    def _update(self, acc: Tensor, at: Indices, taps: list[TapValue]) -> Stmt:
        start: Expr = Load(acc, at)
        return Store(acc, at, reduce(self.jam.nest.combine, (value for value, _ in taps), start))

    def _over_taps(self, stmt: Stmt) -> Stmt:
        """Loops over the taps along other axes, under their conditions."""
        (conditions,) = self._conditions or {()}
        loops = [(k, Const(extent)) for k, extent in zip(self.jam.tap_loops, self.jam.nest.taps, strict=True) if k is not None]
        return guarded_nest([*loops], conditions, stmt)

    def _over_x(self, *stmts: Stmt) -> Stmt:
        return For(self.x, Const(self.jam.nest.x_size), seq(*stmts))
