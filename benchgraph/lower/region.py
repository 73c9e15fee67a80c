"""Fusible ops on a region: one loop nest for a run of pointwise ops and reductions over the same axes.

A region gives each axis of the domain a span. Ops are sorted into phases by the reductions they wait for:

    for kept axes:
        phase 0 per row:      start the accumulators
        phase 0 per element:  for reduced axes: pointwise ops; acc = fold(acc, value)
        phase 1 per row:      finish, ops on the folded values
        phase 1 per element:  for reduced axes: ...

so that softmax is: for each row, one loop for the maximum, one for exponentials and their sum, one for the quotient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from benchgraph.core.dtypes import DType
from benchgraph.gir.domain import Axes, Domain, reduction_axes
from benchgraph.gir.ir import Op
from benchgraph.gir.product import is_row_major
from benchgraph.lower.access import ZERO, Coord, Place, Storage, aligned, along
from benchgraph.lower.again import Again
from benchgraph.ops import spec
from benchgraph.ops.spec import DataMovement, Elementwise, Reduction
from benchgraph.tir.build import binary, cast, seq
from benchgraph.tir.cse import eliminate_common_subexpressions
from benchgraph.tir.ir import Const, Expr, For, Load, Stmt, Store, Tensor

Merged: TypeAlias = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Span:
    """A stretch of one axis: coordinates outer * tile + i for 0 <= i < extent. extent 1 is a point and needs no loop."""

    extent: Expr
    outer: Expr = ZERO
    tile: int = 1


@dataclass
class _Phase:
    per_row: list[Stmt]
    per_element: list[Stmt]


class Region:
    """Emits ops; create one per nest. `emit` is `add`, any number of times, and `finish`, once.

    starts: for reductions that go on where other regions left them, what the accumulator of a row starts from.
    """

    def __init__(
        self,
        storage: Storage,
        domain: Domain,
        spans: tuple[Span, ...],
        coords: tuple[Coord, ...] | None = None,
        inner: int | None = None,
        merged: Merged = (),
        across: tuple[int, ...] = (),
        inside: frozenset[int] = frozenset(),
        most_steps: int = 0,
    ) -> None:
        """coords: where the region's only point is, when the caller's loops do not run along the axes; spans are then all points.

        inner: the axis of the innermost loop, the last one if not given; another one only if it is folded, or for ops that `is_even`
        (runs.py) describes. merged: runs of axes that the loop of the last of them goes through as one; the others' spans are points.
        across: kept axes up to `inner`, along which temporaries lie closest and as one: those of the values `inside`, which nothing else
        reads, and those of folds. most_steps: for the former to be computed anew in later phases (again.py).
        """
        self.storage, self.domain = storage, domain
        self.vars = tuple(storage.var("i") if span.extent != Const(1) else None for span in spans)
        self.spans = spans
        self.coords = coords or tuple(
            Coord(ZERO if var is None else var, span.outer, span.tile) for var, span in zip(self.vars, spans, strict=True)
        )
        self.across, self.inside = across, inside
        self.again = Again(storage, domain, inside, self._at, most_steps)
        self.number = self.coords[across[-1]].value if across else ZERO  # of the element of what lies across
        for axes in merged:
            self._merge(axes)
        last = len(spans) - 1 if inner is None else inner
        self.inner = sorted(domain.reduced | {last}, key=lambda a: (a == last, a)) if domain.reduced else [last] * (last >= 0)
        self.per_row_axes = [last] if domain.reduced and last not in domain.reduced else []
        self.ready: dict[int, int] = {}  # value -> first phase in which it may be read
        self.phases: list[_Phase] = []
        self.before: list[Stmt] = []
        self.starts: dict[int, Expr] = {}

    def first_in_row(self, stmts: Iterable[Stmt]) -> None:
        """Put statements at the beginning of every row."""
        self._phase(0).per_row.extend(stmts)

    def once_known(self, value: int, stmts: Iterable[Stmt]) -> None:
        """Put statements into every row behind what makes a value per row, and before the elements that read it."""
        self._phase(self.ready.get(value, 0)).per_row.extend(stmts)

    def emit(self, ops: Iterable[Op]) -> Stmt:
        with self.storage.elsewhere({v: self._laid(v, self.storage.g.value(v).dtype) for v in sorted(self.inside) if self._lies_across(v)}):
            self.add(ops)
            return self.finish()

    def add(self, ops: Iterable[Op]) -> None:
        for op in ops:
            self.again.made_by(op)
            match spec(op.kind).lowering.form:
                case Elementwise() as how:
                    self._elementwise(op, how)
                case Reduction() as how:
                    self._reduction(op, how)
                case DataMovement() as how:
                    self._movement(op, how)
                case how:
                    raise TypeError(f"{op.kind} has no place in a region: {how}")

    def finish(self) -> Stmt:
        reduced_first = [a for a in self.inner if a in self.domain.reduced] + [a for a in self.inner if a not in self.domain.reduced]
        body: list[Stmt] = []
        for phase in self.phases:
            body += [self._loops(self.per_row_axes, phase.per_row)] if phase.per_row else []
            body += [self._loops(reduced_first, phase.per_element)] if phase.per_element else []
        kept = [a for a in range(len(self.spans)) if a not in self.inner]
        return seq(*self.before, self._loops(kept, body))

    def _loops(self, axes: list[int], body: list[Stmt]) -> Stmt:
        result = seq(*body)
        for axis in reversed(axes):
            var = self.vars[axis]
            if var is not None:
                result = For(var, self.spans[axis].extent, result)
        return result

    def _merge(self, axes: tuple[int, ...]) -> None:
        found = along(axes, self.domain.extents, self.coords[axes[-1]].value)
        self.coords = tuple(found.get(axis, coord) for axis, coord in enumerate(self.coords))

    def _phase(self, number: int) -> _Phase:
        while len(self.phases) <= number:
            self.phases.append(_Phase([], []))
        return self.phases[number]

    def _at(self, axes: Axes) -> tuple[Coord, ...]:
        return tuple(Coord(ZERO) if axis is None else self.coords[axis] for axis in axes)

    def _put(self, phase: int, axes: Axes, stmt: Stmt) -> None:
        """Per element when the result varies along an axis that is folded (or, without folds, along the last one)."""
        deciding = self.domain.reduced or set(self.inner)
        if not any(axis is not None for axis in axes) and phase == 0 and not self.domain.reduced:
            self.before.append(stmt)
        elif deciding & {a for a in axes if a is not None}:
            self._phase(phase).per_element.append(stmt)
        else:
            self._phase(phase).per_row.append(stmt)

    def _elementwise(self, op: Op, how: Elementwise) -> None:
        axes = self.domain.axes[op.outs[0]]
        at = self._at(axes)
        g = self.storage.g
        phase = max((self.ready.get(v, 0) for v in op.ins), default=0)
        operands = tuple(self._operand(v, aligned(g.value(v).shape, at), phase) for v in op.ins)
        values = how.values(op.attrs, g.value(op.outs[0]).shape, tuple(c.value for c in at), operands)
        shared, values = eliminate_common_subexpressions(values[: len(op.outs)], lambda: self.storage.var("r").name)
        self._put(phase, axes, seq(*shared, *(self.storage.store(v, at, value) for v, value in zip(op.outs, values, strict=True))))
        self.ready.update(dict.fromkeys(op.outs, phase))

    def _operand(self, v: int, at: tuple[Coord, ...], phase: int) -> Expr:
        """What a pointwise op of this phase computes with."""
        again = self.again.value(v) if self.ready.get(v, phase) < phase else None
        return self.storage.load(v, at) if again is None else again

    def _movement(self, op: Op, how: DataMovement) -> None:
        g, (src, dst) = self.storage.g, (op.ins[0], op.outs[0])
        src_shape, dst_shape = g.value(src).shape, g.value(dst).shape
        scatter = dst in self.domain.scattered
        axes = self.domain.axes[src if scatter else dst]
        at = self._at(axes)
        exprs = tuple(c.value for c in at)
        if scatter:
            assert how.target is not None, "a movement without targets begins its nest"
            away = tuple(Coord(e) for e in how.target(op.attrs, src_shape, dst_shape, exprs))
            stmt = self.storage.store(dst, away, self.storage.load_raw(src, at))
        else:
            away = tuple(Coord(e) for e in how.source(op.attrs, src_shape, dst_shape, exprs))
            stmt = self.storage.store(dst, at, self.storage.load_raw(src, away))
        phase = self.ready.get(src, 0)
        self.ready[dst] = phase
        self._put(phase, axes, stmt)

    def _reduction(self, op: Op, how: Reduction) -> None:
        g, (src, out) = self.storage.g, (op.ins[0], op.outs[0])
        src_axes = self.domain.axes.get(src) or tuple(i if e != 1 else None for i, e in enumerate(g.value(src).shape))
        out_axes = self.domain.axes[out]
        at = self._at(out_axes)
        phase = self.ready.get(src, 0)
        goes_on = out in self.starts
        acc, index = self._accumulator(out, at, how.acc, own=not goes_on)
        start = self.starts[out] if goes_on else how.start
        self._start(phase, Store(acc, index, start))
        value = cast(self.storage.load(src, self._at(src_axes)), how.acc)
        self._fold(phase, acc, index, how, value)
        self.ready[out] = phase + 1
        is_in_place = acc is self.storage.place(out, at)[0]
        if how.finish is None and is_in_place:
            return
        count = 1
        for i in reduction_axes(op, len(src_axes)):
            count *= g.value(src).shape[i]
        folded = Load(acc, index)
        done = folded if how.finish is None else how.finish(count, cast(folded, DType.f32))
        self._phase(phase + 1).per_row.append(self.storage.store(out, at, done))

    def _start(self, phase: int, start: Store) -> None:
        self._phase(phase).per_row.append(start)

    def _fold(self, phase: int, acc: Tensor, index: tuple[Expr, ...], how: Reduction, value: Expr) -> None:
        self._phase(phase).per_element.append(Store(acc, index, binary(how.op, Load(acc, index), value)))

    def _accumulator(self, out: int, at: tuple[Coord, ...], dtype: DType, *, own: bool) -> tuple[Tensor, tuple[Expr, ...]]:
        """Where the fold runs: the result itself when it is of this dtype, lies in rows and is only this region's own, else a temporary."""
        v = self.storage.g.value(out)
        is_run = len(self.across) > 1 and self._lies_across(out)  # its index in rows would tell later passes less
        if own and v.dtype is dtype and is_row_major(self.storage.g, out) and (out in self.inside or not is_run):
            return self.storage.place(out, at)
        return self._laid(out, dtype)(at) if self._lies_across(out) else (self.storage.scratch(v, dtype), tuple(c.value for c in at))

    def _lies_across(self, v: int) -> bool:
        return bool(self.across) and set(self.across) <= set(self.domain.axes.get(v, ()))

    def _laid(self, v: int, dtype: DType) -> Callable[[tuple[Coord, ...]], Place]:
        """Where the elements of a fresh temporary are, for a value at its coordinates."""
        others = tuple(i for i, axis in enumerate(self.domain.axes[v]) if axis not in self.across)
        shape = self.storage.g.value(v).shape
        buffer = self.storage.extra(dtype, (*(shape[i] for i in others), prod(self.domain.extents[a] for a in self.across)))
        return lambda at: (buffer, (*(at[i].value for i in others), self.number))
