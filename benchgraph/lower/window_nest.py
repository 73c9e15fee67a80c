"""What all loops of one window share: its taps at a place of dst, and what becomes of what they are folded to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import replace
from functools import reduce
from math import lcm
from typing import TypeAlias

from benchgraph.gir.ir import Value
from benchgraph.lower.access import Storage
from benchgraph.ops.spec import Call, Indices, Source, Tap, Window
from benchgraph.tir.affine import Range, Ranges, period
from benchgraph.tir.build import binary, f32
from benchgraph.tir.ir import Binary, BinOp, Const, Expr, For, If, Stmt, Var
from benchgraph.tir.vector_loops import CLOSE
from benchgraph.tir.visit import variables, walk_expr

Finish: TypeAlias = Callable[[Indices, Expr], Stmt]  # (index of dst, the folded value) -> what stores it, and post-ops
TapAt: TypeAlias = Callable[[Indices, Indices], Tap]  # (index of dst, the tap's in its box)
Stretch: TypeAlias = tuple[int, int]  # from the first to before the last


class Nest:
    """One window over all of dst.

    loops: their variables, along the axes of dst; outer: where they are, there or at a place derived from it; ranges: of all variables."""

    def __init__(
        self,
        storage: Storage,
        how: Window,
        call: Call,
        src: Source,
        dst: Value,
        along: int,
        finish: Finish,
        *,
        together: int,
        has_post_ops: bool = False,
    ) -> None:
        """along: x, the axis of the innermost loop. together: windows that may be folded beside each other. has_post_ops: `finish` does
        more than to store."""
        self.storage, self.how, self.call, self.src, self.dst, self.along = storage, how, call, src, dst, along
        self.finish, self.has_post_ops, self.together = finish, has_post_ops, together
        self.taps, self.init = how.taps(call), f32(how.start(call))
        self.loops = tuple(storage.var("t") for _ in dst.shape)  # the one at `along` has no loop
        self.ranges: dict[str, Range] = {var.name: (0, extent - 1) for var, extent in zip(self.loops, dst.shape, strict=True)}
        self.outer: Indices = self.loops
        self.x_size = dst.shape[along] if dst.shape else 1
        period = self._period()
        self.is_close, self.period = period <= CLOSE, period if period <= CLOSE else 1

    def moved(self, axis: int, place: Expr, ranges: Ranges) -> Nest:
        """The nest with its loops at this place along an axis. ranges: of the variables in it."""
        other = copy(self)
        other.outer = tuple(place if a == axis else i for a, i in enumerate(self.outer))
        other.ranges = {**self.ranges, **ranges}
        return other

    def tapping(self, tap: Callable[[Call, Indices, Indices, Source], Tap]) -> Nest:
        """The nest with other taps."""
        other = copy(self)
        other.how = replace(self.how, tap=tap)
        return other

    def at(self, x: Expr) -> Indices:
        return tuple(x if axis == self.along else i for axis, i in enumerate(self.outer))

    def fold(self, a: Expr, b: Expr) -> Expr:
        return b if self.how.op is None else binary(self.how.op, a, b)

    def tap(self, at: Indices, tap: Indices) -> Tap:
        return self.how.tap(self.call, at, tap, self.src)

    def inner_tap(self, at: Indices, tap: Indices) -> Tap:
        """The tap where all conditions hold: of clamped ones, where that is affine in x, the one that is not clamped along x."""
        unclamped = self.how.unclamped if self.is_close else None
        return self.tap(at, tap) if unclamped is None else unclamped(self.call, at, tap, self.src, self.along)

    def done(self, at: Indices, folded: Expr) -> Stmt:
        return self.finish(at, folded if self.how.finish is None else self.how.finish(self.call, at, folded))

    def is_inside(self, interior: list[Stretch], but: int | None = None) -> Expr | None:
        """The condition that the outer axes, but for one, are in their interiors; None when they always are."""
        found: list[Expr] = []
        for axis, (first, last) in enumerate(interior):
            if axis not in (self.along, but):
                found += [binary(BinOp.ge, self.outer[axis], Const(first))] if first > 0 else []
                found += [binary(BinOp.lt, self.outer[axis], Const(last))] if last < self.dst.shape[axis] else []
        return all_of(found) if found else None

    def within(self, more: Iterable[tuple[Expr, int]]) -> Ranges:
        """The ranges of the variables around, and of those of these loops that are variables; with each its extent."""
        return self.ranges | {var.name: (0, extent - 1) for var, extent in more if isinstance(var, Var)}

    def _period(self) -> int:
        """How far apart two x must be for the quotients and remainders of x that the taps take to move evenly."""
        x = self.loops[self.along] if self.loops else Var("x")
        tap = self.tap(self.loops, tuple(self.storage.var("k") for _ in self.taps))
        found = 1
        for e in (p for whole in (tap.value, *tap.conditions) for p in walk_expr(whole)):
            match e:
                case Binary(BinOp.floordiv | BinOp.mod, _, Const()):
                    found = lcm(found, period(e, x))
        return found


def over(loops: list[tuple[Var, Expr]], when: Iterable[Expr], stmt: Stmt) -> Stmt:
    """The statement in loops, outermost first, and where all conditions hold, each as far out as the variables in it allow."""
    waiting = list(when)
    for loop, extent in reversed(loops):
        here = [c for c in waiting if loop.name in variables(c)]
        waiting = [c for c in waiting if c not in here]
        stmt = For(loop, extent, If(all_of(here), stmt) if here else stmt)
    return If(all_of(waiting), stmt) if waiting else stmt


def all_of(conditions: list[Expr]) -> Expr:
    return reduce(lambda a, b: binary(BinOp.and_, a, b), conditions)
