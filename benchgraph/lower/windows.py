"""Windows: dst[i] reduces the values of a small box of taps, and pointwise ops follow. Pooling, depthwise convolution, interpolation.

x, the axis along which dst is closest to contiguous, is the innermost loop and runs in vectors. There are three forms:

    stencil_jam.py     neighbouring windows along another axis, which share elements or weights, are computed together, sums in registers
    padded_window.py   where the borders of x are much of the work: a task copies src with its padding, and all taps count
    window_rows.py     row by row: unrolled taps where all count, loops over taps under conditions elsewhere

The second leads to one of the others. An earlier window over an operand (MaxPoolBackward first finds the largest elements) is its own nest.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from benchgraph.core.dtypes import DType
from benchgraph.gir.domain import Axes, domain_of
from benchgraph.gir.ir import FusedOp, Graph
from benchgraph.gir.views import strides_of
from benchgraph.lower.padded_window import PaddedWindow
from benchgraph.lower.region import Region
from benchgraph.lower.stencil_jam import stencil_jam
from benchgraph.lower.storage import Coord, Storage
from benchgraph.lower.window_nest import WindowNest
from benchgraph.lower.window_rows import WindowRow
from benchgraph.ops.spec import Indices, Window
from benchgraph.tir.build import cast, seq
from benchgraph.tir.ir import Const, Expr, Load, LoopKind, Stmt, Store, Tensor, Var


def lower_windows(storage: Storage, node: FusedOp) -> Stmt:
    """A nest whose first op is a window; the others are pointwise ops and layout ops on its result."""
    g, (op, *post_ops) = storage.g, node.ops
    window, out = op.lowering.form, g.value(op.outs[0])
    domain = domain_of(g, node.ops)
    assert isinstance(window, Window)
    call = g.call(op)
    earlier: list[_EarlierResult] = []

    def src(port: int, index: Indices) -> Expr:
        if port >= len(op.ins):
            return earlier[port - len(op.ins)].load(index)
        value = storage.load(op.ins[port], tuple(map(Coord, index)))
        return cast(value, DType.f32) if g.value(op.ins[port]).dtype.is_integer else value

    def finish(at: Indices, value: Expr) -> Stmt:
        coords = tuple(map(Coord, at))
        store = storage.store(out.id, coords, value)
        return seq(store, Region.point(storage, domain, coords).emit(post_ops)) if post_ops else store

    nests: list[Stmt] = []
    for port, first in window.prologue:
        operand = g.value(op.ins[port])
        axes = tuple(range(len(operand.shape)))
        x_axis = _densest_axis(g, operand.id, axes)
        order = (*(axis for axis in axes if axis != x_axis), x_axis)
        result = _EarlierResult(storage.temporary(DType.f32, tuple(operand.shape[axis] for axis in order)), order)
        nests.append(_lower(WindowNest(storage, first, call, src, operand, x_axis, result.store, jam=node.stencil_jam)))
        earlier.append(result)
    last = next(v for done in reversed(node.ops) for v in done.outs if v in domain.axes)
    x_axis = _densest_axis(g, last, domain.axes[last])
    nest = WindowNest(storage, window, call, src, out, x_axis, finish, jam=node.stencil_jam, has_post_ops=bool(post_ops))
    return seq(*nests, _lower(nest))


@dataclass(frozen=True)
class _EarlierResult:
    """The result of an earlier window over an operand. order: the operand's axes in the tensor, its x last."""

    tensor: Tensor
    order: tuple[int, ...]

    def load(self, index: Indices) -> Expr:
        return Load(self.tensor, tuple(index[axis] for axis in self.order))

    def store(self, index: Indices, value: Expr) -> Stmt:
        return Store(self.tensor, tuple(index[axis] for axis in self.order), value)


def _densest_axis(g: Graph, id: int, axes: Axes) -> int:
    """The axis of the nest along which a value's elements are closest in memory. axes: of the nest, by dim of the value."""
    variables = {axis: Var(f"${axis}") for axis, extent in zip(axes, g.value(id).shape, strict=True) if axis is not None and extent > 1}
    index = tuple(variables.get(axis, Const(0)) if axis is not None else Const(0) for axis in axes)
    steps = dict(zip(variables, strides_of(g, id, index, tuple(variables.values())), strict=True))
    last = max((axis for axis in axes if axis is not None), default=0)
    return min((axis for axis, step in steps.items() if step), key=lambda axis: (abs(steps[axis] or 0), -axis), default=last)


def _lower(nest: WindowNest) -> Stmt:
    work = prod(nest.dst.shape) * max(prod(nest.taps), 1)
    kind = inner = LoopKind.parallel if work > nest.storage.machine.parallel_elements else LoopKind.serial
    row = WindowRow(nest)
    if (padded := PaddedWindow.of(row)) is not None:
        nest, row, inner = padded.nest, WindowRow(padded.nest), LoopKind.serial
    other_rows = (WindowRow(nest, offset) for offset in range(1, min(nest.period, nest.x_size)))
    axis, body = stencil_jam(row, inner) or (nest.x_axis, seq(*(r.lower() for r in (row, *other_rows))))
    planes = frozenset[int]() if padded is None else padded.axes
    body = nest.looped(set(range(len(nest.dst.shape))) - planes - {axis, nest.x_axis}, body, inner)
    return body if padded is None else nest.looped(planes, seq(padded.fill, body), kind)
