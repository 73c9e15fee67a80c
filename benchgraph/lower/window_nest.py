"""What all loop nests of a window share: its taps at an index of dst, and how their reduction becomes the result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from copy import copy
from dataclasses import replace
from functools import reduce
from math import lcm
from typing import TypeAlias

from benchgraph.gir.ir import Value
from benchgraph.lower.storage import Storage
from benchgraph.ops.spec import Call, Indices, Source, Tap, Window
from benchgraph.tir.affine import Range, Ranges, period
from benchgraph.tir.build import Loop, binary, f32, nest
from benchgraph.tir.ir import Binary, BinOp, Const, Expr, For, If, LoopKind, Stmt, Var
from benchgraph.tir.vector_loops import MOST_STRIDE
from benchgraph.tir.visit import variables, walk_expr

Finish: TypeAlias = Callable[[Indices, Expr], Stmt]  # (index of dst, reduced value) -> its store, and post-ops
TapAt: TypeAlias = Callable[[Indices, Indices], Tap]  # (index of dst, index of the tap in its box)
Interval: TypeAlias = tuple[int, int]  # first and end


class WindowNest:
    """One window over all of dst. x is the innermost axis.

    loops: the variables of the loops over dst's axes (there is none for x). outer: the index of dst in terms of them. ranges: of all
    variables. has_affine_taps: the taps' indices are affine in q where x = q * period + offset.
    """

    def __init__(
        self,
        storage: Storage,
        window: Window,
        call: Call,
        src: Source,
        dst: Value,
        x_axis: int,
        finish: Finish,
        *,
        jam: int,
        has_post_ops: bool = False,
    ) -> None:
        """jam: how many neighbouring windows may be computed together. has_post_ops: `finish` does more than to store."""
        self.storage, self.window, self.call, self.src, self.dst, self.x_axis = storage, window, call, src, dst, x_axis
        self.finish, self.has_post_ops, self.jam = finish, has_post_ops, jam
        self.taps, self.init = window.taps(call), f32(window.start(call))
        self.loops = tuple(storage.var("u") for _ in dst.shape)
        self.ranges: dict[str, Range] = {var.name: (0, extent - 1) for var, extent in zip(self.loops, dst.shape, strict=True)}
        self.outer: Indices = self.loops
        self.x_size = dst.shape[x_axis] if dst.shape else 1
        period = self._period()
        self.has_affine_taps, self.period = period <= MOST_STRIDE, period if period <= MOST_STRIDE else 1

    def at_index(self, axis: int, index: Expr, ranges: Ranges) -> WindowNest:
        """The nest at this index along an axis. ranges: of the variables in the index."""
        other = copy(self)
        other.outer = tuple(index if a == axis else i for a, i in enumerate(self.outer))
        other.ranges = {**self.ranges, **ranges}
        return other

    def with_taps(self, tap: Callable[[Call, Indices, Indices, Source], Tap]) -> WindowNest:
        other = copy(self)
        other.window = replace(self.window, tap=tap)
        return other

    def index(self, x: Expr) -> Indices:
        """The index of dst at x."""
        return tuple(x if axis == self.x_axis else i for axis, i in enumerate(self.outer))

    def combine(self, a: Expr, b: Expr) -> Expr:
        return b if self.window.op is None else binary(self.window.op, a, b)

    def tap(self, at: Indices, tap: Indices) -> Tap:
        return self.window.tap(self.call, at, tap, self.src)

    def interior_tap(self, at: Indices, tap: Indices) -> Tap:
        """The tap where its conditions on x hold: one that is clamped to src is then read unclamped along x, if that makes it affine."""
        unclamped = self.window.unclamped if self.has_affine_taps else None
        return self.tap(at, tap) if unclamped is None else unclamped(self.call, at, tap, self.src, self.x_axis)

    def store(self, at: Indices, reduced: Expr) -> Stmt:
        finish = self.window.finish
        return self.finish(at, reduced if finish is None else finish(self.call, at, reduced))

    def interior_condition(self, interior: list[Interval], excluded_axis: int | None = None) -> Expr | None:
        """The condition that all axes but x, and the excluded one, are in their interiors; None where they always are."""
        conditions: list[Expr] = []
        for axis, (first, end) in enumerate(interior):
            if axis not in (self.x_axis, excluded_axis):
                conditions += [binary(BinOp.ge, self.outer[axis], Const(first))] if first > 0 else []
                conditions += [binary(BinOp.lt, self.outer[axis], Const(end))] if end < self.dst.shape[axis] else []
        return all_of(conditions) if conditions else None

    def ranges_with(self, indices: Iterable[tuple[Expr, int]]) -> Ranges:
        """`ranges`, and those of further (index, extent) whose index is a variable."""
        return self.ranges | {var.name: (0, extent - 1) for var, extent in indices if isinstance(var, Var)}

    def looped(self, axes: Collection[int], body: Stmt, kind: LoopKind) -> Stmt:
        """The body in loops over axes of dst."""
        return nest(((self.loops[axis], Const(self.dst.shape[axis])) for axis in sorted(axes)), body, kind)

    def _period(self) -> int:
        """The step of x with which all quotients and remainders of x in the taps change by a constant."""
        x = self.loops[self.x_axis] if self.loops else Var("x")
        tap, result = self.tap(self.loops, tuple(self.storage.var("k") for _ in self.taps)), 1
        for e in (part for whole in (tap.value, *tap.conditions) for part in walk_expr(whole)):
            match e:
                case Binary(BinOp.floordiv | BinOp.mod, _, Const()):
                    result = lcm(result, period(e, x))
        return result


def guarded_nest(loops: list[Loop], conditions: Iterable[Expr], stmt: Stmt) -> Stmt:
    """The statement in loops, outermost first, under conditions, each as far out as its variables allow."""
    waiting = list(conditions)
    for loop, extent in reversed(loops):
        here = [c for c in waiting if loop.name in variables(c)]
        waiting = [c for c in waiting if c not in here]
        stmt = For(loop, extent, If(all_of(here), stmt) if here else stmt)
    return If(all_of(waiting), stmt) if waiting else stmt


def all_of(conditions: list[Expr]) -> Expr:
    return reduce(lambda a, b: binary(BinOp.and_, a, b), conditions)
