"""Windows: dst[i] folds what the taps of a small box give it, and pointwise ops take the result on from there.

Away from the borders every tap counts, or is known not to. There the taps are unrolled into one expression, and x, the axis along which
dst lies densest, is a loop of affine indices: it runs in vectors. Everywhere else taps are loops outside of the one over x, under the
conditions they have; only conditions on x itself end up inside it:

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

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise, product
from math import ceil, floor, inf, lcm, prod
from typing import TypeAlias

from benchgraph.core.dtypes import DType
from benchgraph.gir.domain import Axes, trace
from benchgraph.gir.ir import Fused, Graph, Value
from benchgraph.gir.memory import steps_of
from benchgraph.lower.access import Coord, Storage
from benchgraph.lower.clamps import decided
from benchgraph.lower.loops import SMALL
from benchgraph.lower.region import Region, Span
from benchgraph.ops import spec
from benchgraph.ops.spec import Call, Indices, Source, Tap, Window
from benchgraph.tir.affine import Linear, Ranges, linear, linear_bounds, period
from benchgraph.tir.build import add, binary, cast, constant, f32, mul, seq
from benchgraph.tir.index import simplify_expr
from benchgraph.tir.ir import Binary, BinOp, Const, Expr, For, If, Load, LoopKind, Seq, Stmt, Store, Tensor, Var
from benchgraph.tir.visit import variables, walk_expr
from benchgraph.tir.widen import CLOSE

MOST_UNROLLED = 32  # taps in one expression: a kernel of 3 x 3 x 3, and the code still fits the smallest loop buffers

Finish: TypeAlias = Callable[[Indices, Expr], Stmt]  # (index of dst, the folded value) -> what stores it, and post-ops
TapAt: TypeAlias = Callable[[Indices, Indices], Tap]  # (index of dst, the tap's in its box)
Stretch: TypeAlias = tuple[int, int]  # from the first to before the last


def lower_windows(storage: Storage, node: Fused) -> Stmt:
    """A nest whose first op is a window; the others are pointwise ops and movements of its result."""
    g, (op, *after) = storage.g, node.ops
    how, out = spec(op.kind).lower, g.value(op.outs[0])
    domain = trace(g, node.ops)
    assert isinstance(how, Window)
    assert domain is not None
    call = Call(op.kind, op.attrs, tuple(g.value(v).type for v in op.ins), tuple(g.value(v).type for v in op.outs))
    made: list[_Made] = []

    def src(port: int, index: Indices) -> Expr:
        if port < len(op.ins):
            value = storage.load(op.ins[port], tuple(map(Coord, index)))
            return cast(value, DType.f32) if g.value(op.ins[port]).dtype.is_integer else value
        return made[port - len(op.ins)].load(index)

    def finish(at: Indices, value: Expr) -> Stmt:
        coords = tuple(map(Coord, at))
        stored = storage.store(out.id, coords, value)
        return seq(stored, Region(storage, domain, (Span(Const(1)),) * len(coords), coords).emit(after)) if after else stored

    nests: list[Stmt] = []
    for port, first in how.before:
        like = g.value(op.ins[port])
        along = _densest(g, like.id, tuple(range(len(like.shape))))
        order = (*(axis for axis in range(len(like.shape)) if axis != along), along)
        result = _Made(storage.extra(DType.f32, tuple(like.shape[axis] for axis in order)), order)
        nests.append(_Nest(storage, first, call, src, like, along).lower(result.store))
        made.append(result)
    last = next(v for done in reversed(node.ops) for v in done.outs if v in domain.axes)
    along = _densest(g, last, domain.axes[last])
    return seq(*nests, _Nest(storage, how, call, src, out, along).lower(finish, has_post_ops=bool(after)))


@dataclass(frozen=True)
class _Made:
    """What an earlier nest makes of an operand. order: its axes; the last is the one along which both nests go through it."""

    tensor: Tensor
    order: tuple[int, ...]

    def _at(self, index: Indices) -> Indices:
        return tuple(index[axis] for axis in self.order)

    def load(self, index: Indices) -> Expr:
        return Load(self.tensor, self._at(index))

    def store(self, index: Indices, value: Expr) -> Stmt:
        return Store(self.tensor, self._at(index), value)


def _densest(g: Graph, id: int, axes: Axes) -> int:
    """The axis of the nest along which the value's elements lie closest together in memory; axes: where its dims run."""
    found = {axis: Var(f"${axis}") for axis, extent in zip(axes, g.value(id).shape, strict=True) if axis is not None and extent > 1}
    index = tuple(found.get(axis, Const(0)) if axis is not None else Const(0) for axis in axes)
    steps = dict(zip(found, steps_of(g, id, index, tuple(found.values())), strict=True))
    last = max((axis for axis in axes if axis is not None), default=0)
    return min((axis for axis, step in steps.items() if step), key=lambda axis: (abs(steps[axis] or 0), -axis), default=last)


class _Nest:
    """The loops of one window over all of dst."""

    def __init__(self, storage: Storage, how: Window, call: Call, src: Source, dst: Value, along: int) -> None:
        """along: x, the axis of the innermost loop."""
        self.storage, self.how, self.call, self.src, self.dst, self.along = storage, how, call, src, dst, along
        self.taps, self.init = how.taps(call), f32(how.start(call))
        self.outer = tuple(storage.var("t") for _ in dst.shape)  # the one at `along` has no loop
        self.x_size = dst.shape[along] if dst.shape else 1
        period = self._period()
        self.is_close, self.period = period <= CLOSE, period if period <= CLOSE else 1

    def lower(self, finish: Finish, has_post_ops: bool = False) -> Stmt:
        work = prod(self.dst.shape) * max(prod(self.taps), 1)
        body = seq(
            *(_Row(self, offset, self.period, finish, has_post_ops).lower() for offset in range(min(self.period, max(self.x_size, 1))))
        )
        for axis in reversed(range(len(self.dst.shape))):
            if axis != self.along:
                kind = LoopKind.parallel if work > SMALL else LoopKind.serial
                body = For(self.outer[axis], Const(self.dst.shape[axis]), body, kind)
        return body

    def at(self, x: Expr) -> Indices:
        return tuple(x if axis == self.along else var for axis, var in enumerate(self.outer))

    def fold(self, a: Expr, b: Expr) -> Expr:
        return b if self.how.op is None else binary(self.how.op, a, b)

    def tap(self, at: Indices, tap: Indices) -> Tap:
        return self.how.tap(self.call, at, tap, self.src)

    def inner_tap(self, at: Indices, tap: Indices) -> Tap:
        """The tap where all conditions hold: of clamped ones, where that is affine in x, the one that is not clamped along x."""
        unclamped = self.how.unclamped if self.is_close else None
        return self.tap(at, tap) if unclamped is None else unclamped(self.call, at, tap, self.src, self.along)

    def done(self, at: Indices, folded: Expr, finish: Finish) -> Stmt:
        return finish(at, folded if self.how.finish is None else self.how.finish(self.call, at, folded))

    def _period(self) -> int:
        """How far apart two x must be for the quotients and remainders of x that the taps take to move evenly."""
        x = self.outer[self.along] if self.outer else Var("x")
        tap = self.tap(self.outer, tuple(self.storage.var("k") for _ in self.taps))
        found = 1
        for e in (p for whole in (tap.value, *tap.when) for p in walk_expr(whole)):
            match e:
                case Binary(BinOp.floordiv | BinOp.mod, _, Const()):
                    found = lcm(found, period(e, x))
        return found


@dataclass(frozen=True)
class _Row:
    """x = offset, offset + period, offset + 2*period ... at one point of the other axes; q counts them."""

    nest: _Nest
    offset: int
    period: int
    finish: Finish
    has_post_ops: bool

    @property
    def count(self) -> int:
        return -(-(self.nest.x_size - self.offset) // self.period)

    def lower(self) -> Stmt:
        interior = self._interior
        has_interior = all(a < b for a, b in interior)
        ends = (0, *interior[self.nest.along], self.count)
        if self.nest.how.unclamped is not None:
            ends = ends if has_interior else (0, 0, 0, self.count)
            taps = (self.nest.tap, self.nest.inner_tap, self.nest.tap)
            return seq(*(self._unrolled(a, b, tap) for (a, b), tap in zip(pairwise(ends), taps, strict=True)))
        begin, middle, end = (self._folded(a, b) for a, b in pairwise(ends))
        anywhere = seq(begin, middle, end)
        if prod(self.nest.taps) > MOST_UNROLLED or not has_interior:
            apart = self._is_inside(self._decided)
            return anywhere if apart is None else If(apart, anywhere, anywhere)  # the first of them becomes simpler
        inside = seq(begin, self._unrolled(*interior[self.nest.along], self.nest.tap), end)
        here = self._is_inside(interior)
        return inside if here is None else If(here, inside, anywhere)

    def _is_inside(self, interior: list[Stretch]) -> Expr | None:
        """The condition that the other axes are in their interiors; None when they always are."""
        found: list[Expr] = []
        for axis, (first, last) in enumerate(interior):
            if axis == self.nest.along:
                continue
            found += [binary(BinOp.ge, self.nest.outer[axis], Const(first))] if first > 0 else []
            found += [binary(BinOp.lt, self.nest.outer[axis], Const(last))] if last < self.nest.dst.shape[axis] else []
        return _all(found) if found else None

    def _at(self, q: Expr) -> Indices:
        return self.nest.at(add(mul(q, self.period), self.offset))

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
        if self.nest.is_close or not self.has_post_ops:
            return For(q, count, self.nest.done(at, folded, self.finish))
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
        return For(q, count, self.nest.done(self._at(add(q, first)), Load(acc, self.nest.at(q)), self.finish))

    def _over_taps(self, acc: Tensor, var: Var, q: Expr, count: Expr) -> Stmt:
        """The loops over taps, the one over q inside them, and each condition as far out as the variables in it allow."""
        loops = (*(self.nest.storage.var("k") for _ in self.nest.taps), var)
        tap, place = self.nest.tap(self._at(q), loops[:-1]), self.nest.at(var)
        ranges = self._ranges(zip(loops, (*self.nest.taps, self.count), strict=True))
        stmt: Stmt = Store(acc, place, self.nest.fold(Load(acc, place), tap.value))
        waiting = [simplify_expr(c, ranges) for c in tap.when]
        for loop, extent in zip(reversed(loops), (count, *map(Const, reversed(self.nest.taps))), strict=True):
            here = [c for c in waiting if loop.name in variables(c)]
            waiting = [c for c in waiting if c not in here]
            stmt = For(loop, extent, _if(here, stmt))
        return _if(waiting, stmt)

    # ---- where every tap counts

    def _ranges(self, more: Iterable[tuple[Var, int]]) -> Ranges:
        """Those of the other axes' variables, and of these."""
        return {var.name: (0, extent - 1) for var, extent in (*zip(self.nest.outer, self.nest.dst.shape, strict=True), *more)}

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
            loops = ((k, extent) for k, extent in zip(tap, self.nest.taps, strict=True) if isinstance(k, Var))
            ranges = self._ranges((*loops, (self._q, self.count)))
            when = [simplify_expr(c, ranges) for c in self.nest.inner_tap(self._at(self._q), tap).when]
            if self.nest.how.unclamped is not None or all(constant(c) != 0 for c in when):
                found.append((tap, [c for c in when if constant(c) in (None, 0)]))
        return found

    @property
    def _decided(self) -> list[Stretch]:
        """Per axis of dst, where minima and maxima in what taps give are decided, if that is most of it; all of x."""
        taps, outer = tuple(self.nest.storage.var("k") for _ in self.nest.taps), self.nest.outer
        ranges = self._ranges(zip((*taps, self._q), (*self.nest.taps, self.count), strict=True))
        value, found = self.nest.tap(self._at(self._q), taps).value, list[Stretch]()
        for axis, extent in enumerate(self.nest.dst.shape):
            others = frozenset(var.name for other, var in enumerate((*outer, self._q)) if other != axis)
            first, end = (0, extent) if axis == self.nest.along else decided(value, outer[axis], others, ranges)
            found.append((first, end) if 2 * (end - first) > extent else (0, extent))
        return found

    @cached_property
    def _interior(self) -> list[Stretch]:
        """Per axis of dst the indices for which all conditions hold; of x, its q."""
        sizes = [self.count if axis == self.nest.along else extent for axis, extent in enumerate(self.nest.dst.shape)]
        found = [(0, size) for size in sizes]
        axes = self.nest.at(self._q)
        for tap, when in self._counting:
            loops = ((k, extent) for k, extent in zip(tap, self.nest.taps, strict=True) if isinstance(k, Var))
            ranges = self._ranges((*loops, (self._q, self.count)))
            for form in (form for condition in when for form in _not_negative(condition)):
                axis, first, last = _where(form, axes, sizes, ranges)
                found[axis] = (max(found[axis][0], first), min(found[axis][1], last))
        return [(first, last) if first < last else (0, 0) for first, last in found]


def _where(form: Linear, axes: Indices, sizes: list[int], ranges: Ranges) -> tuple[int, int, int]:
    """(axis, first, last): form >= 0 holds for all taps when the index of this axis is in first .. last - 1."""
    steps = [(axis, form.terms[var]) for axis, var in enumerate(axes) if var in form.terms]
    axis, step = steps[0] if len(steps) == 1 else (0, 0)
    least, _ = linear_bounds(form.minus(Linear({axes[axis]: step} if step else {})), ranges)
    if step == 0 or least == -inf:
        return axis, 0, sizes[axis] if least >= 0 else 0
    return (axis, max(0, ceil(-least / step)), sizes[axis]) if step > 0 else (axis, 0, min(sizes[axis], floor(least / -step) + 1))


def _not_negative(condition: Expr) -> list[Linear]:
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


def _all(conditions: list[Expr]) -> Expr:
    return reduce(lambda a, b: binary(BinOp.and_, a, b), conditions)


def _if(conditions: list[Expr], stmt: Stmt) -> Stmt:
    return If(_all(conditions), stmt) if conditions else stmt
