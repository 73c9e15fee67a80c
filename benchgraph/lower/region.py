"""Fusible ops on a region of a nest: pointwise ops, reductions and layout ops over the same axes.

A region gives each axis of the domain a span. Ops are sorted into phases by the reductions that they depend on:

    for kept axes:
        phase 0 per row:      initialise the accumulators
        phase 0 per element:  for reduced axes: pointwise ops; acc = combine(acc, value)
        phase 1 per row:      finish, ops on the reduced values
        phase 1 per element:  for reduced axes: ...

Softmax, for example, is per row a loop for the maximum, one for exponentials and their sum, and one for the quotient.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

from benchgraph.core.dtypes import DType
from benchgraph.gir.domain import Axes, Domain, reduction_axes
from benchgraph.gir.ir import Op
from benchgraph.gir.product import is_row_major
from benchgraph.lower.rematerialise import Rematerialiser
from benchgraph.lower.storage import ZERO, Coord, Coords, Element, ElementAt, Storage, broadcast, unravel
from benchgraph.ops.spec import Elementwise, LayoutOp, Reduction
from benchgraph.schedule.primitives import NO_JAM, UnrollJam
from benchgraph.tir.build import binary, cast, nest, seq
from benchgraph.tir.cse import eliminate_common_subexpressions
from benchgraph.tir.ir import Const, Expr, Load, Stmt, Store, Tensor

Collapsed: TypeAlias = tuple[tuple[int, ...], ...]  # groups of axes, each of which is one loop


@dataclass(frozen=True)
class Span:
    """An interval of one axis: coordinates outer * tile + i for 0 <= i < extent. Extent 1 is a point and needs no loop."""

    extent: Expr
    outer: Expr = ZERO
    tile: int = 1


@dataclass
class _Phase:
    per_row: list[Stmt] = field(default_factory=list)
    per_element: list[Stmt] = field(default_factory=list)
    reduces: bool = False


class Region:
    """Emits ops; create one for each nest. `emit` is `add`, any number of times, and `finish`, once. initial: initial values of
    accumulators that continue the reduction of an earlier region, by result."""

    def __init__(
        self,
        storage: Storage,
        domain: Domain,
        spans: tuple[Span, ...],
        coords: Coords | None = None,
        inner: int | None = None,
        collapsed: Collapsed = (),
        contiguous: tuple[int, ...] = (),
        private: frozenset[int] = frozenset(),
        most_instructions: int = 0,
        jam: UnrollJam = NO_JAM,
    ) -> None:
        """coords: of a region that is one point, where the caller's loops do not follow the axes; all spans are points then.

        inner: the axis of the innermost loop, by default the last; another one must be reduced, or the nest
        pointwise (gir/elements.py). collapsed: groups of axes that are one loop each, that of the group's last axis; the spans of its other
        axes are points. contiguous: kept axes up to `inner` that temporaries of reductions and of `private` values store as one contiguous
        dim. private: values that nothing outside of the region reads. most_instructions: the cost up to which later phases recompute them.
        jam: of rows that are reduced, each to one element or all to one row.
        """
        self.storage, self.domain, self.spans = storage, domain, spans
        self.vars = tuple(storage.var("i") if span.extent != Const(1) else None for span in spans)
        self.coords = coords or tuple(
            Coord(ZERO if var is None else var, span.outer, span.tile) for var, span in zip(self.vars, spans, strict=True)
        )
        self.contiguous, self.private, self.jam = contiguous, private, jam
        self.rematerialiser = Rematerialiser(storage, domain, private, self._at, most_instructions)
        self.contiguous_index = self.coords[contiguous[-1]].value if contiguous else ZERO
        for axes in collapsed:
            coord_of = unravel(axes, domain.extents, self.coords[axes[-1]].value)
            self.coords = tuple(coord_of.get(axis, coord) for axis, coord in enumerate(self.coords))
        last = len(spans) - 1 if inner is None else inner
        self.inner = sorted(domain.reduced | {last}, key=lambda a: (a == last, a)) if domain.reduced else [last] * (last >= 0)
        self.per_row_axes = [last] if domain.reduced and last not in domain.reduced else []
        self.first_phase: dict[int, int] = {}  # value -> the first phase that may read it
        self.phases: list[_Phase] = []
        self.before: list[Stmt] = []
        self.initial: dict[int, Expr] = {}

    @classmethod
    def point(cls, storage: Storage, domain: Domain, coords: Coords) -> Region:
        """A region of one point."""
        return cls(storage, domain, (Span(Const(1)),) * len(coords), coords)

    def at_row_start(self, stmts: Iterable[Stmt]) -> None:
        self._phase(0).per_row.extend(stmts)

    def after_value(self, value: int, stmts: Iterable[Stmt]) -> None:
        """Put statements into every row, after the op that computes a value per row and before the elements that read it."""
        self._phase(self.first_phase.get(value, 0)).per_row.extend(stmts)

    def emit(self, ops: Iterable[Op]) -> Stmt:
        stored = [v for v in sorted(self.private) if self._has_contiguous_axes(v)]
        with self.storage.redirect({v: self._contiguous_temporary(v, self.storage.g.value(v).dtype) for v in stored}):
            self.add(ops)
            return self.finish()

    def add(self, ops: Iterable[Op]) -> None:
        for op in ops:
            self.rematerialiser.record(op)
            match op.lowering.form:
                case Elementwise() as form:
                    self._elementwise(op, form)
                case Reduction() as form:
                    self._reduction(op, form)
                case LayoutOp() as form:
                    self._layout_op(op, form)
                case form:
                    raise TypeError(f"{op.kind} cannot be part of a region: {form}")

    def finish(self) -> Stmt:
        reduced = [axis for axis in self.inner if axis not in self.per_row_axes]
        body: list[Stmt] = []
        for number, phase in enumerate(self.phases):
            body += [self._loops(self.per_row_axes, phase.per_row)] if phase.per_row else []
            if phase.per_element:
                elements = self._loops(self.per_row_axes, phase.per_element)
                body.append(self._loops(reduced, [elements], self.jam.of(number) if self.per_row_axes and phase.reduces else 1))
        kept = [a for a in range(len(self.spans)) if a not in self.inner]
        reduces = not self.per_row_axes and any(phase.reduces for phase in self.phases)
        return seq(*self.before, self._loops(kept, body, self.jam.count if reduces else 1))

    def _loops(self, axes: list[int], body: list[Stmt], unroll_jam: int = 1) -> Stmt:
        loops = ((var, self.spans[axis].extent) for axis in axes if (var := self.vars[axis]) is not None)
        return nest(loops, seq(*body), unroll_jam=unroll_jam)

    def _phase(self, number: int) -> _Phase:
        while len(self.phases) <= number:
            self.phases.append(_Phase())
        return self.phases[number]

    def _at(self, axes: Axes) -> Coords:
        return tuple(Coord(ZERO) if axis is None else self.coords[axis] for axis in axes)

    def _put(self, phase: int, axes: Axes, stmt: Stmt) -> None:
        """Per element if the result varies along a reduced axis (without reductions, along the innermost one)."""
        varying = {a for a in axes if a is not None}
        if not varying and phase == 0 and not self.domain.reduced:
            self.before.append(stmt)
        elif (self.domain.reduced or set(self.inner)) & varying:
            self._phase(phase).per_element.append(stmt)
        else:
            self._phase(phase).per_row.append(stmt)

    def _elementwise(self, op: Op, form: Elementwise) -> None:
        g, axes = self.storage.g, self.domain.axes[op.outs[0]]
        at = self._at(axes)
        phase = max((self.first_phase.get(v, 0) for v in op.ins), default=0)
        recomputed = (self.rematerialiser.value(v) if self.first_phase.get(v, phase) < phase else None for v in op.ins)
        pairs = zip(op.ins, recomputed, strict=True)
        operands = tuple(self.storage.load(v, broadcast(g.value(v).shape, at)) if new is None else new for v, new in pairs)
        values = form.values(op.attrs, g.value(op.outs[0]).shape, tuple(c.value for c in at), operands)
        shared, values = eliminate_common_subexpressions(values[: len(op.outs)], lambda: self.storage.var("r").name)
        self._put(phase, axes, seq(*shared, *(self.storage.store(v, at, value) for v, value in zip(op.outs, values, strict=True))))
        self.first_phase.update(dict.fromkeys(op.outs, phase))

    def _layout_op(self, op: Op, form: LayoutOp) -> None:
        g, (src, dst) = self.storage.g, (op.ins[0], op.outs[0])
        src_shape, dst_shape = g.value(src).shape, g.value(dst).shape
        axes = self.domain.axes[src if dst in self.domain.scattered else dst]
        at = self._at(axes)
        index = tuple(c.value for c in at)
        if dst in self.domain.scattered:
            assert form.target is not None, "a layout op without targets is the first op of its nest"
            target = tuple(map(Coord, form.target(op.attrs, src_shape, dst_shape, index)))
            stmt = self.storage.store(dst, target, self.storage.load_raw(src, at))
        else:
            source = tuple(map(Coord, form.source(op.attrs, src_shape, dst_shape, index)))
            stmt = self.storage.store(dst, at, self.storage.load_raw(src, source))
        phase = self.first_phase[dst] = self.first_phase.get(src, 0)
        self._put(phase, axes, stmt)

    def _reduction(self, op: Op, form: Reduction) -> None:
        g, (src, out) = self.storage.g, (op.ins[0], op.outs[0])
        src_shape = g.value(src).shape
        src_axes = self.domain.axes.get(src) or tuple(i if e != 1 else None for i, e in enumerate(src_shape))
        at = self._at(self.domain.axes[out])
        phase = self.first_phase.get(src, 0)
        acc, index = self._accumulator(out, at, form.acc, continues=out in self.initial)
        self._initialise(phase, Store(acc, index, self.initial.get(out, form.start)))
        self._accumulate(phase, acc, index, form, cast(self.storage.load(src, self._at(src_axes)), form.acc))
        self.first_phase[out] = phase + 1
        is_in_place = acc is self.storage.element(out, at)[0]
        if form.finish is None and is_in_place:
            return
        count = prod(src_shape[i] for i in reduction_axes(op, len(src_axes)))
        reduced = Load(acc, index)
        result = reduced if form.finish is None else form.finish(count, cast(reduced, DType.f32))
        self._phase(phase + 1).per_row.append(self.storage.store(out, at, result))

    def _initialise(self, phase: int, store: Store) -> None:
        self._phase(phase).per_row.append(store)

    def _accumulate(self, phase: int, acc: Tensor, index: tuple[Expr, ...], form: Reduction, value: Expr) -> None:
        self._phase(phase).per_element.append(Store(acc, index, binary(form.op, Load(acc, index), value)))
        self._phase(phase).reduces = True

    def _accumulator(self, out: int, at: Coords, dtype: DType, *, continues: bool) -> Element:
        """The result itself if it has this dtype, is row-major, continues no earlier region, and is private or does not have several
        contiguous axes; else a temporary."""
        v = self.storage.g.value(out)
        is_contiguous = self._has_contiguous_axes(out)
        # The index of `out` is then made of quotients of the collapsed loop's variable; that of a temporary is the variable.
        is_indirect = is_contiguous and len(self.contiguous) > 1
        if not continues and v.dtype is dtype and is_row_major(self.storage.g, out) and (out in self.private or not is_indirect):
            return self.storage.element(out, at)
        if is_contiguous:
            return self._contiguous_temporary(out, dtype)(at)
        return self.storage.temporary(dtype, v.shape), tuple(c.value for c in at)

    def _has_contiguous_axes(self, v: int) -> bool:
        return bool(self.contiguous) and set(self.contiguous) <= set(self.domain.axes.get(v, ()))

    def _contiguous_temporary(self, v: int, dtype: DType) -> ElementAt:
        """The elements of a new temporary for a value, whose last dim is the contiguous axes."""
        others = tuple(i for i, axis in enumerate(self.domain.axes[v]) if axis not in self.contiguous)
        shape = self.storage.g.value(v).shape
        buffer = self.storage.temporary(dtype, (*(shape[i] for i in others), prod(self.domain.extents[a] for a in self.contiguous)))
        return lambda at: (buffer, (*(at[i].value for i in others), self.contiguous_index))
