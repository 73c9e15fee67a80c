"""Windows: dst[i] folds what the taps of a small box give it, and pointwise ops take the result on from there.

Away from the borders every tap counts. There the taps are unrolled into one expression, and x, the axis along which dst lies densest, is
a loop of affine indices: it runs in vectors. Everywhere else taps are loops outside of the one over x, under the conditions they have;
only conditions on x itself end up inside it:

    parallel for the other axes of dst:
      if the interior is here:
        [begin of x, folded as below]
        for x in interior: dst[x] = finish(tap_0 op tap_1 op ...); post-ops
        [end of x]
      else:
        acc[x] = init;  for taps: if it counts: for x: acc[x] = acc[x] op tap;  dst[x] = finish(acc[x]); post-ops
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from itertools import pairwise, product
from math import ceil, floor, inf, prod
from typing import TypeAlias

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import dense_strides
from benchgraph.gir.domain import trace
from benchgraph.gir.ir import Fused, Value
from benchgraph.lower.access import Coord, Storage
from benchgraph.lower.loops import SMALL
from benchgraph.lower.region import Region, Span
from benchgraph.ops import spec
from benchgraph.ops.spec import Call, Indices, Source, Tap, Window
from benchgraph.tir.affine import Linear, Ranges, linear, linear_bounds
from benchgraph.tir.build import add, binary, f32, seq
from benchgraph.tir.ir import Binary, BinOp, Const, Expr, For, If, Load, LoopKind, Seq, Stmt, Store, Tensor, Var
from benchgraph.tir.visit import variables

MOST_UNROLLED = 32  # taps in one expression: a kernel of 3 x 3 x 3, and the code still fits the smallest loop buffers

Finish: TypeAlias = Callable[[Indices, Expr], Stmt]  # (index of dst, the folded value) -> what stores it, and post-ops


def lower_windows(storage: Storage, node: Fused) -> Stmt:
    """A nest whose first op is a window; the others are pointwise ops and movements of its result."""
    g, (op, *after) = storage.g, node.ops
    how, out = spec(op.kind).lower, g.value(op.outs[0])
    domain = trace(g, node.ops)
    assert isinstance(how, Window)
    assert domain is not None
    call = Call(op.kind, op.attrs, tuple(g.value(v).type for v in op.ins), tuple(g.value(v).type for v in op.outs))
    made: list[Tensor] = []

    def src(port: int, index: Indices) -> Expr:
        if port < len(op.ins):
            return storage.load(op.ins[port], tuple(map(Coord, index)))
        return Load(made[port - len(op.ins)], index)

    def finish(at: Indices, value: Expr) -> Stmt:
        coords = tuple(map(Coord, at))
        stored = storage.store(out.id, coords, value)
        return seq(stored, Region(storage, domain, (Span(Const(1)),) * len(coords), coords).emit(after)) if after else stored

    nests: list[Stmt] = []
    for port, first in how.before:
        like = g.value(op.ins[port])
        result = storage.scratch(like, DType.f32)
        nests.append(_Nest(storage, first, call, src, like, _densest(like)).lower(partial(Store, result)))
        made.append(result)
    along = _densest(g.value(node.ops[-1].outs[0]))
    return seq(*nests, _Nest(storage, how, call, src, out, along).lower(finish))


def _densest(v: Value) -> int:
    """The axis along which the value's elements lie closest together in memory; the last one for a value written through a view."""
    last = len(v.shape) - 1
    if v.view is not None:
        return last
    strides = v.strides if v.strides is not None else dense_strides(v.shape)
    return min((axis for axis, extent in enumerate(v.shape) if extent > 1), key=lambda axis: (strides[axis], -axis), default=last)


class _Nest:
    """The loops of one window over all of dst."""

    def __init__(self, storage: Storage, how: Window, call: Call, src: Source, dst: Value, along: int) -> None:
        """along: x, the axis of the innermost loop."""
        self.storage, self.how, self.call, self.src, self.dst, self.along = storage, how, call, src, dst, along
        self.taps = how.taps(call)
        self.outer = tuple(storage.var("t") for _ in dst.shape)  # the one at `along` has no loop

    def lower(self, finish: Finish) -> Stmt:
        work = prod(self.dst.shape) * max(prod(self.taps), 1)
        body = self._row(finish)
        for axis in reversed(range(len(self.dst.shape))):
            if axis != self.along:
                kind = LoopKind.parallel if work > SMALL else LoopKind.serial
                body = For(self.outer[axis], Const(self.dst.shape[axis]), body, kind)
        return body

    def _row(self, finish: Finish) -> Stmt:
        """All of x at one point of the other axes."""
        interior = self._interior()
        if any(0 in t.shape for t in self.call.ins):  # no tap counts anywhere
            interior = [(0, 0)] * len(interior)
        ends = (0, *interior[self.along], self.dst.shape[self.along])
        begin, middle, end = (self._folded(a, b, finish) for a, b in pairwise(ends))
        anywhere = seq(begin, middle, end)
        if prod(self.taps) > MOST_UNROLLED or any(a >= b for a, b in interior):
            return anywhere
        inside = seq(begin, self._unrolled(*interior[self.along], finish), end)
        here = self._is_inside(interior)
        return inside if here is None else If(here, inside, anywhere)

    def _is_inside(self, interior: list[tuple[int, int]]) -> Expr | None:
        """The condition that the other axes are in their interiors; None when they always are."""
        found: list[Expr] = []
        for axis, (first, last) in enumerate(interior):
            if axis == self.along:
                continue
            found += [binary(BinOp.ge, self.outer[axis], Const(first))] if first > 0 else []
            found += [binary(BinOp.lt, self.outer[axis], Const(last))] if last < self.dst.shape[axis] else []
        return _all(found) if found else None

    def _at(self, x: Expr) -> Indices:
        return tuple(x if axis == self.along else var for axis, var in enumerate(self.outer))

    def _tap(self, at: Indices, tap: Indices) -> Tap:
        return self.how.tap(self.call, at, tap, self.src)

    def _done(self, at: Indices, folded: Expr, finish: Finish) -> Stmt:
        return finish(at, folded if self.how.finish is None else self.how.finish(self.call, at, folded))

    # ---- the two ways

    def _unrolled(self, first: int, last: int, finish: Finish) -> Stmt:
        """x from first to last, where every tap counts."""
        x = self.storage.var("x")
        at = self._at(add(x, first))
        values = [self._tap(at, tuple(map(Const, tap))).value for tap in product(*map(range, self.taps))]
        folded = reduce(lambda a, b: binary(self.how.op, a, b), values) if values else f32(self.how.init)
        return For(x, Const(last - first), self._done(at, folded, finish))

    def _folded(self, first: int, last: int, finish: Finish) -> Stmt:
        """x from first to last, wherever that is."""
        if first >= last:
            return Seq(())
        acc, count = self.storage.scratch(self.dst, DType.f32), Const(last - first)
        x0, x1, x2 = (self.storage.var("x") for _ in range(3))
        start, at, done = (self._at(add(x, first)) for x in (x0, x1, x2))
        return seq(
            For(x0, count, Store(acc, start, f32(self.how.init))),
            self._over_taps(acc, at, x1, count),
            For(x2, count, self._done(done, Load(acc, done), finish)),
        )

    def _over_taps(self, acc: Tensor, at: Indices, x: Var, count: Expr) -> Stmt:
        """The loops over taps, the one over x inside them, and each condition as far out as the variables in it allow."""
        if any(0 in t.shape for t in self.call.ins):
            return Seq(())
        loops = (*(self.storage.var("k") for _ in self.taps), x)
        tap = self._tap(at, loops[:-1])
        stmt: Stmt = Store(acc, at, binary(self.how.op, Load(acc, at), tap.value))
        waiting = list(tap.when)
        for var, extent in zip(reversed(loops), (count, *map(Const, reversed(self.taps))), strict=True):
            here = [c for c in waiting if var.name in variables(c)]
            waiting = [c for c in waiting if c not in here]
            stmt = For(var, extent, _if(here, stmt))
        return _if(waiting, stmt)

    # ---- where every tap counts

    def _interior(self) -> list[tuple[int, int]]:
        """Per axis of dst the first index and one past the last one for which all conditions hold, whatever the tap."""
        taps = tuple(self.storage.var("k") for _ in self.taps)
        every = zip((*self.outer, *taps), (*self.dst.shape, *self.taps), strict=True)
        ranges = {var.name: (0, extent - 1) for var, extent in every}
        found = [(0, extent) for extent in self.dst.shape]
        for condition in self._tap(self.outer, taps).when:
            for form in _not_negative(condition):
                axis, first, last = self._where(form, ranges)
                found[axis] = (max(found[axis][0], first), min(found[axis][1], last))
        return [(first, last) if first < last else (0, 0) for first, last in found]

    def _where(self, form: Linear, ranges: Ranges) -> tuple[int, int, int]:
        """(axis, first, last): form >= 0 holds for all taps when the index of this axis is in first .. last - 1."""
        steps = [(axis, form.terms[var]) for axis, var in enumerate(self.outer) if var in form.terms]
        axis, step = steps[0] if len(steps) == 1 else (0, 0)
        least, _ = linear_bounds(form.minus(Linear({self.outer[axis]: step} if step else {})), ranges)
        extent = self.dst.shape[axis]
        if step == 0 or least == -inf:
            return axis, 0, extent if least >= 0 else 0
        return (axis, max(0, ceil(-least / step)), extent) if step > 0 else (axis, 0, min(extent, floor(least / -step) + 1))


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
