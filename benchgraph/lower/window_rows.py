"""One row of windows along x: taps are unrolled in the interior of x, and loops under conditions at its borders.

In the interior every tap reads src; all taps are one expression, and x is a loop of affine indices. At the borders, where some taps are
padding, loops over taps surround the loop over x, and only conditions on x stay inside it:

    parallel for the other axes of dst:
      if these axes are in their interiors:
        [first x, as below]
        for x in interior: dst[x] = finish(tap_0 op tap_1 op ...); post-ops
        [last x]
      else:
        acc[x] = init;  for taps: if it reads src: for x: acc[x] = acc[x] op tap;  dst[x] = finish(acc[x]); post-ops

Where taps depend on x // 2 or x % 2, even and odd x are two rows, and indices are affine in each. Where indices stay non-affine (x // 21),
a loop of gathers stores the reduced values of the row in a temporary, and post-ops run over it in vectors. Taps whose indices are clamped
to src have no conditions and are unrolled everywhere; in the interior of x they are read unclamped along x. An average divides by the
number of elements in its window, which differs only at the borders, where minima and maxima of indices are not known:

    1 / max(0, min(4*i + 5, 200) - max(4*i - 1, 0))    ->    where 1 <= i < 49: 1 / 6
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise, product
from math import ceil, floor, inf, prod

from benchgraph.core.dtypes import DType
from benchgraph.lower.window_nest import Interval, TapAt, WindowNest, guarded_nest
from benchgraph.ops.spec import Indices
from benchgraph.tir.affine import Linear, Ranges, linear, linear_bounds
from benchgraph.tir.build import add, constant, mul, seq
from benchgraph.tir.index import Simplifier, simplify_expr
from benchgraph.tir.ir import Binary, BinOp, Const, Expr, For, If, Load, Seq, Stmt, Store, Tensor, Var
from benchgraph.tir.visit import variables, walk_expr


@dataclass(frozen=True)
class WindowRow:
    """x = offset, offset + period, offset + 2*period ... at one index of the other axes; q counts them."""

    nest: WindowNest
    offset: int = 0

    @property
    def count(self) -> int:
        return -(-(self.nest.x_size - self.offset) // self.nest.period)

    def lower(self) -> Stmt:
        nest, interior = self.nest, self.interior
        has_interior = all(first < end for first, end in interior)
        bounds = (0, *interior[nest.x_axis], self.count)
        if nest.window.unclamped is not None:
            bounds = bounds if has_interior else (0, 0, 0, self.count)
            taps = (nest.tap, nest.interior_tap, nest.tap)
            return seq(*(self._unrolled(first, end, tap) for (first, end), tap in zip(pairwise(bounds), taps, strict=True)))
        begin, middle, end = (self._tap_by_tap(first, end) for first, end in pairwise(bounds))
        anywhere = seq(begin, middle, end)
        if prod(nest.taps) > nest.storage.machine.unrolled_taps or not has_interior:
            is_known = nest.interior_condition(self.known_clamps)
            # Both branches are equal, but simplify knows in the first that the clamps are resolved.
            return anywhere if is_known is None else If(is_known, anywhere, anywhere)
        inside = seq(begin, self._unrolled(*interior[nest.x_axis], nest.tap), end)
        is_interior = nest.interior_condition(interior)
        return inside if is_interior is None else If(is_interior, inside, anywhere)

    def _index(self, q: Expr) -> Indices:
        return self.nest.index(add(mul(q, self.nest.period), self.offset))

    def _unrolled(self, first: int, end: int, tap: TapAt) -> Stmt:
        """All taps in one expression."""
        if first >= end:
            return Seq(())
        nest, storage, count = self.nest, self.nest.storage, Const(end - first)
        q = storage.var("x")
        at = self._index(add(q, first))
        values = [tap(at, place).value for place, _ in self._taps_on_src]
        reduced = reduce(nest.combine, values) if values else nest.init
        if nest.has_affine_taps or not nest.has_post_ops:
            return For(q, count, nest.store(at, reduced))
        acc = storage.scratch(nest.dst, DType.f32)
        return seq(For(q, count, Store(acc, nest.index(q), reduced)), self._finish(acc, storage.var("x"), first, count))

    def _tap_by_tap(self, first: int, end: int) -> Stmt:
        """Loops over taps, each condition as far out as its variables allow, around a loop over q."""
        if first >= end:
            return Seq(())
        nest, storage, count = self.nest, self.nest.storage, Const(end - first)
        acc = storage.scratch(nest.dst, DType.f32)
        clear_q, q, finish_q = (storage.var("x") for _ in range(3))
        loops = (*(storage.var("k") for _ in nest.taps), q)
        tap, place = nest.tap(self._index(add(q, first)), loops[:-1]), nest.index(q)
        ranges = nest.ranges_with(zip(loops, (*nest.taps, self.count), strict=True))
        update = Store(acc, place, nest.combine(Load(acc, place), tap.value))
        extents = (*map(Const, nest.taps), count)
        return seq(
            For(clear_q, count, Store(acc, nest.index(clear_q), nest.init)),
            guarded_nest(list(zip(loops, extents, strict=True)), (simplify_expr(c, ranges) for c in tap.conditions), update),
            self._finish(acc, finish_q, first, count),
        )

    def _finish(self, acc: Tensor, q: Var, first: int, count: Expr) -> Stmt:
        """Store what acc holds, with q counted from first on."""
        return For(q, count, self.nest.store(self._index(add(q, first)), Load(acc, self.nest.index(q))))

    @cached_property
    def _q(self) -> Var:
        return self.nest.storage.var("q")

    def _ranges(self, tap: Indices) -> Ranges:
        return self.nest.ranges_with((*zip(tap, self.nest.taps, strict=True), (self._q, self.count)))

    @cached_property
    def _taps_on_src(self) -> list[tuple[Indices, list[Expr]]]:
        """The taps that read src somewhere in this row, each with its undecided conditions; one tap with variables for its position if they
        are too many to unroll. Clamped taps read src everywhere, even those that are never on src unclamped."""
        if prod(self.nest.taps) > self.nest.storage.machine.unrolled_taps:
            boxes: Iterator[Indices] = iter([tuple(self.nest.storage.var("k") for _ in self.nest.taps)])
        else:
            boxes = (tuple(map(Const, tap)) for tap in product(*map(range, self.nest.taps)))
        on_src = []
        for tap in boxes:
            when = [simplify_expr(c, self._ranges(tap)) for c in self.nest.interior_tap(self._index(self._q), tap).conditions]
            if self.nest.window.unclamped is not None or all(constant(c) != 0 for c in when):
                on_src.append((tap, [c for c in when if constant(c) in (None, 0)]))
        return on_src

    @property
    def known_clamps(self) -> list[Interval]:
        """Per axis of dst, where minima and maxima in the taps' values are known, if that is most of the axis; else, and for x, all."""
        taps, outer = tuple(self.nest.storage.var("k") for _ in self.nest.taps), self.nest.loops
        ranges, value = self._ranges(taps), self.nest.tap(self._index(self._q), taps).value
        intervals = list[Interval]()
        for axis, extent in enumerate(self.nest.dst.shape):
            others = frozenset(var.name for other, var in enumerate((*outer, self._q)) if other != axis)
            first, end = (0, extent) if axis == self.nest.x_axis else known_interval(value, outer[axis], others, ranges)
            intervals.append((first, end) if 2 * (end - first) > extent else (0, extent))
        return intervals

    @cached_property
    def interior(self) -> list[Interval]:
        """Per axis of dst the indices for which all conditions hold; for x, its q."""
        sizes = [self.count if axis == self.nest.x_axis else extent for axis, extent in enumerate(self.nest.dst.shape)]
        intervals = [(0, size) for size in sizes]
        axes = self.nest.index(self._q)
        for tap, when in self._taps_on_src:
            for form in (form for condition in when for form in as_non_negative(condition)):
                axis, first, end = interval_of(form, axes, sizes, self._ranges(tap))
                intervals[axis] = (max(intervals[axis][0], first), min(intervals[axis][1], end))
        return [(first, end) if first < end else (0, 0) for first, end in intervals]


def interval_of(form: Linear, axes: Indices, sizes: list[int], ranges: Ranges) -> tuple[int, int, int]:
    """(axis, first, end): form >= 0 holds for all taps when the index of this axis is in first .. end - 1."""
    steps = [(axis, form.terms[var]) for axis, var in enumerate(axes) if var in form.terms and sizes[axis] > 1]
    axis, step = steps[0] if len(steps) == 1 else (0, 0)
    least, _ = linear_bounds(form.minus(Linear({axes[axis]: step} if step else {})), ranges)
    if step == 0 or least == -inf:
        return axis, 0, sizes[axis] if least >= 0 else 0
    return (axis, max(0, ceil(-least / step)), sizes[axis]) if step > 0 else (axis, 0, min(sizes[axis], floor(least / -step) + 1))


def as_non_negative(condition: Expr) -> list[Linear]:
    """Linear forms that are all >= 0 exactly where the condition holds; for a non-linear condition the constant -1, which is never >= 0."""
    match condition:
        case Binary(BinOp.lt, a, b) | Binary(BinOp.gt, b, a):
            return [linear(b).minus(linear(a)).plus(Linear({}, -1))]
        case Binary(BinOp.le, a, b) | Binary(BinOp.ge, b, a):
            return [linear(b).minus(linear(a))]
        case Binary(BinOp.eq, a, b):
            return [linear(a).minus(linear(b)), linear(b).minus(linear(a))]
    return [Linear({}, -1)]


def known_interval(e: Expr, axis: Var, others: frozenset[str], ranges: Ranges) -> tuple[int, int]:
    """(first, end) of the indices along an axis, around its middle, for which each minimum and maximum in e that depends on this axis and
    on no other always has the same operand for its value; (0, 0) where there are none. others: names of the other axes."""
    extent = int(ranges[axis.name][1]) + 1
    clamps = [p for p in walk_expr(e) if _is_clamp(p) and axis.name in variables(p) and others.isdisjoint(variables(p))]

    def are_known(first: int, end: int) -> bool:
        simplified = Simplifier({**ranges, axis.name: (first, end - 1)})
        return not any(_is_clamp(p) for clamp in clamps for p in walk_expr(simplified(clamp)))

    middle = extent // 2
    if not clamps or are_known(0, extent):
        return 0, extent
    if not are_known(middle, middle + 1):
        return 0, 0
    first, end, step = middle, middle + 1, 1 << extent.bit_length()
    while step := step // 2:  # binary search: what holds for an interval holds for every part of it
        first = first - step if first >= step and are_known(first - step, middle + 1) else first
        end = end + step if end + step <= extent and are_known(middle, end + step) else end
    return first, end


def _is_clamp(e: Expr) -> bool:
    return isinstance(e, Binary) and e.op in (BinOp.min, BinOp.max)
