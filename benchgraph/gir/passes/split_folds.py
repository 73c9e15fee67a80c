"""split-folds: a fold of few elements that lie together comes after that of all else, which then runs through many.

Channels last, groups of 10, %0: bf16[2,32,10,2304] by [737280,10,1,320]:

    %1: f32[2,32,1,1] = ReduceMean(%0) {axes=[2, 3]}        %4: f32[2,32,10,1] = ReduceMean(%0) {axes=[3]}
    %2: f32[2,32,10,2304] = Subtract(%0, %1)                %1: f32[2,32,1,1] = ReduceMean(%4) {axes=[2, 3]}
    %3: f32[2,32,1,1] = ReduceMean(%2) {axes=[2, 3]}   ->   %5: f32[2,32,10,1] = Multiply(%1, 1: f32[10,1])
    .. = Multiply(%2, %3)                                   %6 = Subtract(%0, %5); %7 = ReduceMean(%6) {axes=[3]}; %3 = ReduceMean(%7) ..
                                                            %2 = Subtract(%0, %5); %8 = Multiply(%3, 1: f32[10,1]); .. = Multiply(%2, %8)

All folds, and what is done behind them, then run through the 320 channels of a pixel; 10 of them are not worth a loop, and without this
pixels are gathered, a channel at a time. What is known of a group is told to each of its channels. What is folded is made for the fold
alone, by few ops, so that others who read it read %0 again and nothing of its size is written. GroupNorm is such where channels come last.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.target import Target
from benchgraph.core.tensor import Shape
from benchgraph.gir.build import Builder
from benchgraph.gir.domain import reduction_axes
from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.passes.mark_runtime_constants import mark_runtime_constants
from benchgraph.gir.strides import strides_of
from benchgraph.ops import spec
from benchgraph.ops.spec import Elementwise, Reduction
from benchgraph.tir.ir import Var

# Elements that lie together. GroupNorm of bf16[2,320,48,48], channels last, in 32 groups to 2, of 10 channels to 160: 2.8 ms without, 0.31
# with (one Zen 4 core).
MOST = 256
FEWEST = 16  # elements that are folded besides
MOST_ANEW = 4  # ops


def split_folds(g: Graph, target: Target) -> Graph:
    found = {op: axis for op in g.nodes if isinstance(op, Op) and (axis := _few(g, op)) is not None}
    return mark_runtime_constants(_Split(g, found).graph(), target) if found else g


class _Split:
    """found: the folds, and the axis of few elements of each."""

    def __init__(self, g: Graph, found: dict[Op, int]) -> None:
        self.g, self.found, self.builder = g, found, Builder(g.values)
        self.axes = {g.value(op.ins[0]).shape: axis for op, axis in found.items()}
        self.told: dict[int, int] = {}  # values of groups -> the same for each of their elements

    def graph(self) -> Graph:
        for op in self.g.ops:
            if op in self.found:
                self._in_two(op, self.found[op])
            else:
                self.builder.nodes.append(self._telling(op))
        return replace(self.g, nodes=tuple(self.builder.nodes), values=tuple(self.builder.values.values()))

    def _in_two(self, op: Op, axis: int) -> None:
        src = self._anew(op.ins[0])
        rest = tuple(a for a in reduction_axes(op, len(self.g.value(op.ins[0]).shape)) if a != axis)
        first = self.builder.op(op.kind, src, attrs=op.attrs.updated(axes=rest, keep_dims=True), dtype=DType.f32)
        self.builder.nodes.append(replace(op, ins=(first,)))

    def _anew(self, v: int) -> int:
        """What is folded, computed by ops that nobody else reads; itself if those were many."""
        ops, _ = _made_of(self.g, v)
        if len(ops) > MOST_ANEW:
            return v
        copies: dict[int, int] = {}
        for op in ops:
            (out,), told = op.outs, self._telling(op)
            copies[out] = self.builder.new_value(self.g.value(out).dtype, self.g.value(out).shape)
            self.builder.nodes.append(replace(told, ins=tuple(copies.get(i, i) for i in told.ins), outs=(copies[out],)))
        return copies.get(v, v)

    def _telling(self, op: Op) -> Op:
        """The op, reading for each element what it reads of a group."""
        shape = self.g.value(op.outs[0]).shape
        if shape not in self.axes or not isinstance(spec(op.kind).lowering.form, Elementwise):
            return op
        ins = tuple(self._told(v, shape, self.axes[shape]) for v in op.ins)
        return op if ins == op.ins else replace(op, ins=ins)

    def _told(self, v: int, shape: Shape, axis: int) -> int:
        value = self.g.value(v)
        if len(value.shape) != len(shape) or value.shape[axis] != 1 or prod(value.shape) == 1 or not value.dtype.is_float:
            return v
        if v not in self.told:
            ones = self.builder.const(np.ones((shape[axis], *(1 for _ in shape[axis + 1 :]))))
            self.told[v] = self.builder.op("Multiply", v, ones, dtype=DType.f32)
        return self.told[v]


def _few(g: Graph, op: Op) -> int | None:
    """The axis of few elements that lie together, beside those of a kept one, if there are others to fold."""
    how = spec(op.kind).lowering.form
    if not isinstance(how, Reduction) or how.acc is not DType.f32:
        return None
    shape = g.value(op.ins[0]).shape
    axes = tuple(Var(f"${axis}") for axis in range(len(shape)))
    _, given = _made_of(g, op.ins[0])
    steps = [strides_of(g, v, axes, axes) for v in given]
    folded = [a for a in reduction_axes(op, len(shape)) if shape[a] != 1]
    axis = next((a for a in folded if shape[a] < MOST and all(s[a] == 1 for s in steps)), None)
    if axis is None or prod(shape[a] for a in folded) < FEWEST * shape[axis]:
        return None
    is_beside = any(all(s[a] == shape[axis] for s in steps) for a in range(len(shape)) if a not in folded and shape[a] != 1)
    return axis if is_beside else None


def _made_of(g: Graph, value: int) -> tuple[list[Op], list[int]]:
    """The ops that compute a value element by element, in order, and the values of its shape that they begin with."""
    made, given, shape = set[int](), list[int](), g.value(value).shape
    seen, work = set[int](), [value]
    while work:
        v = work.pop()
        if v in seen or g.value(v).shape != shape:
            continue
        seen.add(v)
        op = g.producer.get(v)
        if isinstance(op, Op) and _is_pointwise(g, op):
            made.add(v)
            work.extend(op.ins)
        else:
            given.append(v)
    return [op for op in g.nodes if isinstance(op, Op) and made.issuperset(op.outs)], given


def _is_pointwise(g: Graph, op: Op) -> bool:
    return spec(op.kind).lowering.is_pointwise and len(op.outs) == 1 and g.value(op.outs[0]).view is None
