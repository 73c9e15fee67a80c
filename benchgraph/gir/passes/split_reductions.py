"""split-reductions: reducing along a short dense axis is done after reducing along all other axes, whose loop is then long and dense.

Channels last, groups of 10, %0: bf16[2,32,10,2304] by [737280,10,1,320]:

    %1: f32[2,32,1,1] = ReduceMean(%0) {axes=[2, 3]}        %4: f32[2,32,10,1] = ReduceMean(%0) {axes=[3]}
    %2: f32[2,32,10,2304] = Subtract(%0, %1)                %1: f32[2,32,1,1] = ReduceMean(%4) {axes=[2, 3]}
    %3: f32[2,32,1,1] = ReduceMean(%2) {axes=[2, 3]}   ->   %5: f32[2,32,10,1] = Multiply(%1, 1: f32[10,1])
    .. = Multiply(%2, %3)                                   %6 = Subtract(%0, %5); %7 = ReduceMean(%6) {axes=[3]}; %3 = ReduceMean(%7) ..
                                                            %2 = Subtract(%0, %5); %8 = Multiply(%3, 1: f32[10,1]); .. = Multiply(%2, %8)

All reductions, and the ops after them, then run through the 320 channels of a pixel. A loop over 10 channels is too short, and without the
pass pixels are gathered, a channel at a time. A result per group is broadcast to each of its channels. The operand of a reduction is
rematerialised by few ops, so that its other readers read %0 again and nothing of its size is stored. GroupNorm with channels last is such.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape
from benchgraph.gir.build import Builder
from benchgraph.gir.closure import closure
from benchgraph.gir.domain import reduction_axes
from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.passes.mark_runtime_constants import mark_runtime_constants
from benchgraph.gir.views import strides_by_dim
from benchgraph.machine.target import Target
from benchgraph.ops.spec import Elementwise, Reduction

MOST = 256  # elements of the dense axis: longer ones are a loop of their own. docs/measurements/fusion.md, Split reductions
FEWEST = 16  # elements of the other reduced axes together
MOST_REMATERIALISED = 4  # ops


def split_reductions(g: Graph, target: Target) -> Graph:
    axes = {op: axis for op in g.ops if (axis := _short_axis(g, op)) is not None}
    return mark_runtime_constants(_Split(g, axes).graph(), target) if axes else g


class _Split:
    """reductions: those to split, and the short axis of each."""

    def __init__(self, g: Graph, reductions: dict[Op, int]) -> None:
        self.g, self.reductions, self.builder = g, reductions, Builder(g.values)
        self.axes = {g.value(op.ins[0]).shape: axis for op, axis in reductions.items()}
        self.broadcasts: dict[int, int] = {}  # values of groups -> the same for each of their elements

    def graph(self) -> Graph:
        for op in self.g.ops:
            if op in self.reductions:
                self._split(op, self.reductions[op])
            else:
                self.builder.nodes.append(self._with_broadcasts(op))
        return self.builder.graph(self.g, self.builder.nodes)

    def _split(self, op: Op, axis: int) -> None:
        src = self._rematerialised(op.ins[0])
        rest = tuple(a for a in reduction_axes(op, len(self.g.value(op.ins[0]).shape)) if a != axis)
        first = self.builder.op(op.kind, src, attrs=op.attrs.updated(axes=rest, keep_dims=True), dtype=DType.f32)
        self.builder.nodes.append(replace(op, ins=(first,)))

    def _rematerialised(self, v: int) -> int:
        """A value computed once more, for one reader alone; the value itself if that takes many ops."""
        ops, _ = _sources(self.g, v)
        if len(ops) > MOST_REMATERIALISED:
            return v
        copies: dict[int, int] = {}
        for op in ops:
            (out,), copy = op.outs, self._with_broadcasts(op)
            copies[out] = self.builder.new_value(self.g.value(out).dtype, self.g.value(out).shape)
            self.builder.nodes.append(replace(copy, ins=tuple(copies.get(i, i) for i in copy.ins), outs=(copies[out],)))
        return copies.get(v, v)

    def _with_broadcasts(self, op: Op) -> Op:
        """The op, with operands per element in place of operands per group."""
        shape = self.g.value(op.outs[0]).shape
        if shape not in self.axes or not isinstance(op.lowering.form, Elementwise):
            return op
        ins = tuple(self._broadcast(v, shape, self.axes[shape]) for v in op.ins)
        return op if ins == op.ins else replace(op, ins=ins)

    def _broadcast(self, v: int, shape: Shape, axis: int) -> int:
        value = self.g.value(v)
        if len(value.shape) != len(shape) or value.shape[axis] != 1 or prod(value.shape) == 1 or not value.dtype.is_float:
            return v
        if v not in self.broadcasts:
            ones = self.builder.const(np.ones((shape[axis], *(1 for _ in shape[axis + 1 :]))))
            self.broadcasts[v] = self.builder.op("Multiply", v, ones, dtype=DType.f32)
        return self.broadcasts[v]


def _short_axis(g: Graph, op: Op) -> int | None:
    """The short dense axis that a reduction reduces, next to an axis that it keeps, if it reduces others too."""
    form = op.lowering.form
    if not isinstance(form, Reduction) or form.acc is not DType.f32:
        return None
    shape = g.value(op.ins[0]).shape
    _, first = _sources(g, op.ins[0])
    steps = [strides_by_dim(g, v) for v in first]
    reduced = [a for a in reduction_axes(op, len(shape)) if shape[a] != 1]
    axis = next((a for a in reduced if shape[a] < MOST and all(s[a] == 1 for s in steps)), None)
    if axis is None or prod(shape[a] for a in reduced) < FEWEST * shape[axis]:
        return None
    has_dense_neighbour = any(all(s[a] == shape[axis] for s in steps) for a in range(len(shape)) if a not in reduced and shape[a] != 1)
    return axis if has_dense_neighbour else None


def _sources(g: Graph, value: int) -> tuple[list[Op], list[int]]:
    """The ops that compute a value element by element, in order, and the values of its shape that they read first."""
    shape = g.value(value).shape

    def operands(v: int) -> list[int]:
        op = g.maker(v)
        return [i for i in op.ins if g.value(i).shape == shape] if op is not None and _is_pointwise(g, op) else []

    values = [*closure(value, operands)]
    first = [v for v in values if (op := g.maker(v)) is None or not _is_pointwise(g, op)]
    made = {*values}.difference(first)
    return [op for op in g.ops if made.issuperset(op.outs)], first


def _is_pointwise(g: Graph, op: Op) -> bool:
    return op.lowering.is_pointwise and len(op.outs) == 1 and g.value(op.outs[0]).view is None
