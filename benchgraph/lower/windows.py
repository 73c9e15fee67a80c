"""Windows: dst[i] folds what the taps of a small box give it, and pointwise ops take the result on from there.

x, the axis along which dst lies densest, is the innermost loop and runs in vectors. There are three ways to go:

    beside each other (beside.py)   neighbours along another axis meet the same elements or weights: their sums in registers, x by x
    over padded planes (padded.py)  x has borders that are much of the work: a task lays src out with its padding, all taps count then
    row by row (window_rows.py)     taps unrolled where all count, loops of taps under their conditions elsewhere

The second leads to one of the others. What an earlier window makes of an operand (MaxPoolBackward looks for the largest element first) is a
nest of its own.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod

from benchgraph.core.dtypes import DType
from benchgraph.gir.domain import Axes, trace
from benchgraph.gir.ir import Fused, Graph
from benchgraph.gir.strides import steps_of
from benchgraph.lower.access import Coord, Storage
from benchgraph.lower.beside import beside
from benchgraph.lower.loops import SMALL
from benchgraph.lower.padded import padded
from benchgraph.lower.region import Region, Span
from benchgraph.lower.window_nest import Nest
from benchgraph.lower.window_rows import Row
from benchgraph.ops import spec
from benchgraph.ops.spec import Call, Indices, Window
from benchgraph.tir.build import cast, seq
from benchgraph.tir.ir import Const, Expr, For, Load, LoopKind, Stmt, Store, Tensor, Var


def lower_windows(storage: Storage, node: Fused) -> Stmt:
    """A nest whose first op is a window; the others are pointwise ops and movements of its result."""
    g, (op, *after) = storage.g, node.ops
    how, out = spec(op.kind).lowering.form, g.value(op.outs[0])
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
    for port, first in how.prologue:
        like = g.value(op.ins[port])
        along = _densest(g, like.id, tuple(range(len(like.shape))))
        order = (*(axis for axis in range(len(like.shape)) if axis != along), along)
        result = _Made(storage.extra(DType.f32, tuple(like.shape[axis] for axis in order)), order)
        nests.append(_lowered(Nest(storage, first, call, src, like, along, result.store, together=node.together)))
        made.append(result)
    last = next(v for done in reversed(node.ops) for v in done.outs if v in domain.axes)
    along = _densest(g, last, domain.axes[last])
    return seq(*nests, _lowered(Nest(storage, how, call, src, out, along, finish, together=node.together, has_post_ops=bool(after))))


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


def _lowered(nest: Nest) -> Stmt:
    work, rank = prod(nest.dst.shape) * max(prod(nest.taps), 1), len(nest.dst.shape)
    kind = inner = LoopKind.parallel if work > SMALL else LoopKind.serial
    row = Row(nest)
    if (plane := padded(row)) is not None:
        nest, row, inner = plane.nest, Row(plane.nest), LoopKind.serial
    others = (Row(nest, offset) for offset in range(1, min(nest.period, nest.x_size)))
    axis, body = beside(row, inner) or (nest.along, seq(*(r.lower() for r in (row, *others))))
    outermost = frozenset[int]() if plane is None else plane.axes
    body = _looped(nest, set(range(rank)) - outermost - {axis, nest.along}, body, inner)
    return body if plane is None else _looped(nest, outermost, seq(plane.filling, body), kind)


def _looped(nest: Nest, axes: Collection[int], body: Stmt, kind: LoopKind) -> Stmt:
    for axis in sorted(axes, reverse=True):
        body = For(nest.loops[axis], Const(nest.dst.shape[axis]), body, kind)
    return body
