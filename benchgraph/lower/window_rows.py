"""One row of windows along x: away from its borders every tap counts, and elsewhere taps are under the conditions they have.

Away from the borders the taps are unrolled into one expression, and x is a loop of affine indices. Everywhere else taps are loops outside
of the one over x; only conditions on x itself end up inside it:

    parallel for the other axes of dst:
      if the interior is here:
        [begin of x, folded as below]
        for x in interior: dst[x] = finish(tap_0 op tap_1 op ...); post-ops
        [end of x]
      else:
        acc[x] = init;  for taps: if it counts: for x: acc[x] = acc[x] op tap;  dst[x] = finish(acc[x]); post-ops

Where the taps depend on x // 2 or x % 2, the even and the odd x are two such rows: indices are affine in each of them. Where on x // 21, x
reads here and there: the row is filled first, and post-ops, if there are any, run over it in vectors.

Taps that stay on src by minima and maxima of indices have no conditions, and are unrolled everywhere. Only in the interior of x, where that
makes vectors of what would be gathered, are they taken without those along x.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise, product
from math import ceil, floor, inf, prod

from benchgraph.core.dtypes import DType
from benchgraph.lower.clamps import decided
from benchgraph.lower.window_nest import Nest, Stretch, TapAt, over
from benchgraph.ops.spec import Indices
from benchgraph.tir.affine import Linear, Ranges, linear, linear_bounds
from benchgraph.tir.build import add, constant, mul, seq
from benchgraph.tir.index import simplify_expr
from benchgraph.tir.ir import Binary, BinOp, Const, Expr, For, If, Load, Seq, Stmt, Store, Tensor, Var

MOST_UNROLLED = 32  # taps in one expression: a kernel of 3 x 3 x 3, and the code still fits the smallest loop buffers


@dataclass(frozen=True)
class Row:
    """x = offset, offset + period, offset + 2*period ... at one point of the other axes; q counts them."""

    nest: Nest
    offset: int = 0

    @property
    def count(self) -> int:
        return -(-(self.nest.x_size - self.offset) // self.nest.period)

    def lower(self) -> Stmt:
        interior = self.interior
        has_interior = all(a < b for a, b in interior)
        ends = (0, *interior[self.nest.along], self.count)
        if self.nest.how.unclamped is not None:
            ends = ends if has_interior else (0, 0, 0, self.count)
            taps = (self.nest.tap, self.nest.inner_tap, self.nest.tap)
            return seq(*(self._unrolled(a, b, tap) for (a, b), tap in zip(pairwise(ends), taps, strict=True)))
        begin, middle, end = (self._folded(a, b) for a, b in pairwise(ends))
        anywhere = seq(begin, middle, end)
        if prod(self.nest.taps) > MOST_UNROLLED or not has_interior:
            apart = self.nest.is_inside(self.decided)
            return anywhere if apart is None else If(apart, anywhere, anywhere)  # the first of them becomes simpler
        inside = seq(begin, self._unrolled(*interior[self.nest.along], self.nest.tap), end)
        here = self.nest.is_inside(interior)
        return inside if here is None else If(here, inside, anywhere)

    def _at(self, q: Expr) -> Indices:
        return self.nest.at(add(mul(q, self.nest.period), self.offset))

    # ---- the two ways

    def _unrolled(self, first: int, last: int, tap: TapAt) -> Stmt:
        """q from first to last, where every tap counts that may count anywhere."""
        if first >= last:
            return Seq(())
        storage, count = self.nest.storage, Const(last - first)
        q = storage.var("x")
        at = self._at(add(q, first))
        values = [tap(at, place).value for place, _ in self._counting]
        folded = reduce(self.nest.fold, values) if values else self.nest.init
        if self.nest.is_close or not self.nest.has_post_ops:
            return For(q, count, self.nest.done(at, folded))
        acc = storage.scratch(self.nest.dst, DType.f32)
        return seq(For(q, count, Store(acc, self.nest.at(q), folded)), self._finished(acc, storage.var("x"), first, count))

    def _folded(self, first: int, last: int) -> Stmt:
        """q from first to last, wherever that is."""
        if first >= last:
            return Seq(())
        storage = self.nest.storage
        acc, count = storage.scratch(self.nest.dst, DType.f32), Const(last - first)
        q0, q1, q2 = (storage.var("x") for _ in range(3))
        return seq(
            For(q0, count, Store(acc, self.nest.at(q0), self.nest.init)),
            self._over_taps(acc, q1, add(q1, first), count),
            self._finished(acc, q2, first, count),
        )

    def _finished(self, acc: Tensor, q: Var, first: int, count: Expr) -> Stmt:
        """What becomes of a row that acc holds, q counted from first on."""
        return For(q, count, self.nest.done(self._at(add(q, first)), Load(acc, self.nest.at(q))))

    def _over_taps(self, acc: Tensor, var: Var, q: Expr, count: Expr) -> Stmt:
        """The loops over taps, the one over q inside them, and each condition as far out as the variables in it allow."""
        loops = (*(self.nest.storage.var("k") for _ in self.nest.taps), var)
        tap, place = self.nest.tap(self._at(q), loops[:-1]), self.nest.at(var)
        ranges = self.nest.within(zip(loops, (*self.nest.taps, self.count), strict=True))
        stmt: Stmt = Store(acc, place, self.nest.fold(Load(acc, place), tap.value))
        extents = (*map(Const, self.nest.taps), count)
        return over(list(zip(loops, extents, strict=True)), (simplify_expr(c, ranges) for c in tap.conditions), stmt)

    # ---- where every tap counts

    @cached_property
    def _q(self) -> Var:
        return self.nest.storage.var("q")

    @cached_property
    def _counting(self) -> list[tuple[Indices, list[Expr]]]:
        """The taps that count somewhere in this row, each with what is left to be compared; all as one when they are too many to unroll.

        Clamped ones count everywhere, be it that they never are on src without.
        """
        if prod(self.nest.taps) > MOST_UNROLLED:
            boxes: Iterator[Indices] = iter([tuple(self.nest.storage.var("k") for _ in self.nest.taps)])
        else:
            boxes = (tuple(map(Const, tap)) for tap in product(*map(range, self.nest.taps)))
        found = []
        for tap in boxes:
            ranges = self.nest.within((*zip(tap, self.nest.taps, strict=True), (self._q, self.count)))
            when = [simplify_expr(c, ranges) for c in self.nest.inner_tap(self._at(self._q), tap).conditions]
            if self.nest.how.unclamped is not None or all(constant(c) != 0 for c in when):
                found.append((tap, [c for c in when if constant(c) in (None, 0)]))
        return found

    @property
    def decided(self) -> list[Stretch]:
        """Per axis of dst, where minima and maxima in what taps give are decided, if that is most of it; all of x."""
        taps, outer = tuple(self.nest.storage.var("k") for _ in self.nest.taps), self.nest.loops
        ranges = self.nest.within(zip((*taps, self._q), (*self.nest.taps, self.count), strict=True))
        value, found = self.nest.tap(self._at(self._q), taps).value, list[Stretch]()
        for axis, extent in enumerate(self.nest.dst.shape):
            others = frozenset(var.name for other, var in enumerate((*outer, self._q)) if other != axis)
            first, end = (0, extent) if axis == self.nest.along else decided(value, outer[axis], others, ranges)
            found.append((first, end) if 2 * (end - first) > extent else (0, extent))
        return found

    @cached_property
    def interior(self) -> list[Stretch]:
        """Per axis of dst the indices for which all conditions hold; of x, its q."""
        sizes = [self.count if axis == self.nest.along else extent for axis, extent in enumerate(self.nest.dst.shape)]
        found = [(0, size) for size in sizes]
        axes = self.nest.at(self._q)
        for tap, when in self._counting:
            ranges = self.nest.within((*zip(tap, self.nest.taps, strict=True), (self._q, self.count)))
            for form in (form for condition in when for form in not_negative(condition)):
                axis, first, last = holding(form, axes, sizes, ranges)
                found[axis] = (max(found[axis][0], first), min(found[axis][1], last))
        return [(first, last) if first < last else (0, 0) for first, last in found]


def holding(form: Linear, axes: Indices, sizes: list[int], ranges: Ranges) -> tuple[int, int, int]:
    """(axis, first, last): form >= 0 holds for all taps when the index of this axis is in first .. last - 1."""
    steps = [(axis, form.terms[var]) for axis, var in enumerate(axes) if var in form.terms and sizes[axis] > 1]
    axis, step = steps[0] if len(steps) == 1 else (0, 0)
    least, _ = linear_bounds(form.minus(Linear({axes[axis]: step} if step else {})), ranges)
    if step == 0 or least == -inf:
        return axis, 0, sizes[axis] if least >= 0 else 0
    return (axis, max(0, ceil(-least / step)), sizes[axis]) if step > 0 else (axis, 0, min(sizes[axis], floor(least / -step) + 1))


def not_negative(condition: Expr) -> list[Linear]:
    """Linear forms that are all 0 or more exactly when the condition holds; for a condition without any, one that never is."""
    match condition:
        case Binary(BinOp.lt, a, b):
            return [linear(b).minus(linear(a)).plus(Linear({}, -1))]
        case Binary(BinOp.le, a, b):
            return [linear(b).minus(linear(a))]
        case Binary(BinOp.gt, a, b):
            return [linear(a).minus(linear(b)).plus(Linear({}, -1))]
        case Binary(BinOp.ge, a, b):
            return [linear(a).minus(linear(b))]
        case Binary(BinOp.eq, a, b):
            return [linear(a).minus(linear(b)), linear(b).minus(linear(a))]
    return [Linear({}, -1)]
