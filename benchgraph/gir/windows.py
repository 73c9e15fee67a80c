"""Windows: where their taps count, what neighbouring windows share, and so which schedules they can have. Lowering asks the same.

dst[y, x] = max of src[2y - 1 + t0, x + t1], 0 <= 2y - 1 + t0 < 20:     all rows of taps count from y = 1 on, and windows at neighbouring y
share one row of src.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import takewhile
from math import ceil, floor, gcd, inf, lcm, prod
from typing import TypeGuard

from benchgraph.core.dtypes import DType
from benchgraph.core.record import note
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.gir.domain import Axes, domain_of
from benchgraph.gir.ir import FusedOp, Graph, Node, Op
from benchgraph.gir.text import print_attrs, print_type
from benchgraph.gir.views import strides_by_dim, strides_of
from benchgraph.machine.target import Target
from benchgraph.ops.spec import Call, Indices, Interval, Source, Tap, Window
from benchgraph.ops.unit_steps import step
from benchgraph.schedule.primitives import Schedule
from benchgraph.schedule.tuning import forced_or_chosen
from benchgraph.schedule.window import Neighbours, Passed, Planes, Read, WindowNest, space
from benchgraph.schedule.window_cost import choose_window
from benchgraph.tir.affine import Linear, Range, Ranges, linear, linear_bounds, period
from benchgraph.tir.build import add, mul
from benchgraph.tir.index import Simplifier
from benchgraph.tir.instructions import instructions
from benchgraph.tir.ir import Binary, BinOp, Expr, Load, Scope, Store, Var, tensor
from benchgraph.tir.vector_loops import MOST_STRIDE
from benchgraph.tir.visit import divisions_of, loads_of, variables


@dataclass(frozen=True)
class Windows:
    """One window over all of dst. x: the innermost axis, which runs in vectors. is_padded: src has its padding."""

    window: Window
    call: Call
    x: int
    is_padded: bool = False

    @property
    def shape(self) -> Shape:
        """Of dst."""
        return self.call.outs[0].shape

    @cached_property
    def taps(self) -> Shape:
        """Extents of the box of taps."""
        return self.window.taps(self.call)

    @cached_property
    def axes(self) -> tuple[Var, ...]:
        """Variables for the axes of dst."""
        return tuple(Var(f"$d{axis}") for axis in range(len(self.shape)))

    @cached_property
    def tap_axes(self) -> tuple[Var, ...]:
        """Variables for the axes of the box of taps."""
        return tuple(Var(f"$t{k}") for k in range(len(self.taps)))

    def tap(self, at: Indices, tap: Indices, src: Source, *, is_inside: bool = False) -> Tap:
        """The tap of the window at an index. is_inside: its conditions on x hold; one that is clamped to src is read unclamped
        along x then, where that makes it affine."""
        unclamped = self.window.unclamped if is_inside and self.has_affine_taps else None
        found = self.window.tap(self.call, at, tap, src) if unclamped is None else unclamped(self.call, at, tap, src, self.x)
        return Tap(found.value, ()) if self.is_padded else found

    @cached_property
    def generic_tap(self) -> Tap:
        """Of the variables."""
        return self.tap(self.axes, self.tap_axes, _element)

    def inner_tap(self, offset: int) -> Tap:
        """One without conditions on x, or with those that make it unclamped, in terms of q where x = q * rows + offset."""
        at = tuple(add(mul(i, self.rows), offset) if axis == self.x else i for axis, i in enumerate(self.axes))
        return self.tap(at, self.tap_axes, _element, is_inside=True)

    # ---- x

    @cached_property
    def _period_of_x(self) -> int:
        return self._period(self.x)

    @property
    def has_affine_taps(self) -> bool:
        """Whether the taps' indices are affine in q where x = q * rows + offset."""
        return self._period_of_x <= MOST_STRIDE

    @property
    def rows(self) -> int:
        """How many rows a row of windows falls into: those of even and odd x, for example."""
        return min(self._period_of_x, max((*self.shape[self.x :][:1], 1))) if self.has_affine_taps else 1

    def row_size(self, offset: int) -> int:
        """Of the row whose first window this is."""
        return ceil((self.shape[self.x] - offset) / self.rows)

    def interior(self, offset: int) -> tuple[Interval, ...]:
        """By axis of dst, for x by q, where all taps' conditions hold that depend on the axis; nowhere if one is not linear."""
        ranges = self._ranges(offset)
        sizes = [int(ranges[v.name][1]) + 1 for v in self.axes]
        found = [(0, size) for size in sizes]
        for condition in map(Simplifier(ranges), self.inner_tap(offset).conditions):
            moving = [axis for axis, v in enumerate(self.axes) if v.name in variables(condition)]
            for axis in moving:
                holds = where_holds(condition, self.axes[axis], sizes[axis], ranges) if len(moving) == 1 else NOWHERE
                found[axis] = _both(found[axis], holds)
        return tuple(found)

    def _ranges(self, offset: int | None = None) -> dict[str, Range]:
        """Of the variables; offset: of a row, along which that of x is q."""
        sizes = (size if offset is None or axis != self.x else self.row_size(offset) for axis, size in enumerate(self.shape))
        return {v.name: (0, size - 1) for v, size in zip((*self.axes, *self.tap_axes), (*sizes, *self.taps), strict=True)}

    # ---- neighbouring windows

    @cached_property
    def neighbours(self) -> Neighbours | None:
        """Along the last axis on which they share elements or weights; None where windows share nothing, or are not that simple."""
        if self.window.op is None or self.window.unclamped is not None or not self.has_affine_taps:
            return None
        axes = (axis for axis in reversed(range(len(self.shape))) if axis != self.x and self.shape[axis] > 1)
        shared = ((axis, taps) for axis in axes if (taps := self._shared_taps(axis)))
        return next((self._along(axis, taps) for axis, taps in shared), None)

    @property
    def shares_lines(self) -> bool:
        """Whether neighbours have maxima of elements in common, as those of a row of a 3x3 window: maxima are exact in any order."""
        return self.window.op is not None and self.window.op.is_extreme and isinstance(self.generic_tap.value, Load)

    def _along(self, axis: int, taps: tuple[int, ...]) -> Neighbours | None:
        """Windows along an axis of dst and these of taps; None where these axes and others have a condition in common."""
        y, ranges, interior = self.axes[axis], self._ranges(), (0, self.shape[axis])
        own = {y.name, *(self.tap_axes[k].name for k in taps)}
        for condition in map(Simplifier(ranges), self.generic_tap.conditions):
            names = {name for name in variables(condition) if ranges[name] != (0, 0)}
            if own & names and not own >= names:
                return None
            if any(y in form.terms for form in non_negative(condition)):
                interior = _both(interior, where_holds(condition, y, self.shape[axis], ranges))
        return Neighbours(axis, taps, self._period(axis), interior, self._unrolled({self.x, axis}))

    def _shared_taps(self, axis: int) -> tuple[int, ...]:
        """The axes of the box of taps that move along an axis of dst, if neighbours along it share elements or weights."""
        var, moving, is_shared = self.axes[axis], set[int](), self.window.channel_weights is not None
        for index in (i for load in loads_of(self.generic_tap.value) for i in load.index if var.name in variables(i)):
            terms = linear(index).terms
            for k, (tap, extent) in enumerate(zip(self.tap_axes, self.taps, strict=True)):
                if tap.name in variables(index):
                    moving.add(k)
                    by, of_tap = terms.get(var, 0), terms.get(tap, 0)  # 0 where quotients decide which element a tap reads
                    is_shared |= extent > 1 and (of_tap == 0 or abs(by // gcd(by, of_tap)) < extent)
        return tuple(sorted(moving)) if is_shared else ()

    def _period(self, axis: int) -> int:
        """The step along an axis with which all quotients and remainders in the taps change by a constant."""
        along = (*self.axes, Var("$d0"))[axis]
        return lcm(*(period(d, along) for e in (self.generic_tap.value, *self.generic_tap.conditions) for d in divisions_of(e)))

    def _unrolled(self, outside: set[int]) -> float:
        """The share of dst's indices where all taps count, but for these axes."""
        interiors = [self.interior(offset) for offset in range(self.rows)]
        if any(first == end for interior in interiors for first, end in interior[self.x : self.x + 1]):
            return 0.0
        sizes = ([(end - first) / max(n, 1) for (first, end), n in zip(i, self.shape, strict=True)] for i in interiors)
        return min(prod(share for axis, share in enumerate(shares) if axis not in outside) for shares in sizes)

    # ---- planes

    @cached_property
    def planes(self) -> Planes | None:
        """None where rows of windows have no borders, or no value stands for padding."""
        padding = None if self.window.padding is None or self.is_padded else self.window.padding(self.call)
        if padding is None or self.interior(0)[self.x] == (0, self.shape[self.x]):
            return None
        index = next(load.index for load in loads_of(self.generic_tap.value) if load.tensor.name == "0")
        x, src, ranges = self.axes[self.x], self.call.ins[0].shape, self._ranges()
        axes = {dim: self.axes.index(i) for dim, i in enumerate(index) if isinstance(i, Var) and i != x}
        if not axes:
            return None
        dims = sorted((dim for dim in range(len(src)) if dim not in axes), key=lambda dim: x.name in variables(index[dim]))
        reached = (linear_bounds(linear(index[dim]), ranges) for dim in dims)
        bounds = tuple((int(low), int(high) + 1) for low, high in reached)
        return Planes(tuple(axes.items()), tuple(dims), bounds, tuple(src[dim] for dim in dims), padding)

    def padded(self) -> Windows:
        """The windows over planes that hold the padding."""
        return replace(self, is_padded=True)

    # ---- schedules

    def nest(self, g: Graph, op: Op) -> WindowNest:
        """What the schedule is chosen for. op: whose window it is."""
        inner = [self.interior(offset)[self.x : self.x + 1] for offset in range(self.rows)]
        return WindowNest(
            self.shape,
            self.taps,
            self.x,
            self.rows,
            sum(end - first for ((first, end),) in inner) if self.shape else 1,
            self._unrolled({self.x}),
            max(instructions(Store(_REGISTER, (), self.generic_tap.value), function=1), 1),
            tuple(dict.fromkeys(self._reads(g, op))),
            self.call.outs[0].dtype,
            self.neighbours,
            self.planes,
        )

    def text(self, nest: WindowNest) -> str:
        """The nest: its op, the axis of its vectors, and by which steps they load each operand.

        f32[1,56,56,64] = MaxPool(f32[1,112,112,64]) {kernel=[3, 3], strides=[2, 2]} along d3 by 1
        """
        call, steps = self.call, ("-" if read.along_x is None else str(read.along_x) for read in nest.reads)
        op = f"{call.kind}({', '.join(map(print_type, call.ins))}){print_attrs(call.kind, call.attrs)}"
        dst = print_type(TensorType(nest.dst, self.shape))
        return f"{dst} = {op} along d{self.x} by {', '.join(dict.fromkeys(steps))}"

    def _reads(self, g: Graph, op: Op) -> Iterator[Read]:
        x, y = (*self.axes, Var("$d0"))[self.x], Var("") if self.neighbours is None else self.axes[self.neighbours.axis]
        for load, inner in zip(loads_of(self.generic_tap.value), loads_of(self.inner_tap(0).value), strict=True):
            port, along_taps = int(load.tensor.name), tuple(_step(load, tap) for tap in self.tap_axes)
            t, (along_x,) = g.value(op.ins[port]).type, strides_of(g, op.ins[port], inner.index, (x,))
            yield Read(port, t.dtype, t.nbytes, along_x if abs(along_x or 0) <= MOST_STRIDE else None, _step(load, y), along_taps)


_REGISTER = tensor("r", DType.f32, (), Scope.register)


def _element(port: int, index: Indices) -> Expr:
    """The element of an input, in a tensor that is called as its port."""
    return Load(tensor(str(port), DType.f32, (1,) * len(index), Scope.register), index)


def _step(load: Load, var: Var) -> int | None:
    """By how much the index of a load grows along the one dim that moves with a variable."""
    steps = [step(i, var) for i in load.index]
    return None if None in steps else next((s for s in steps if s), 0)


def scheduled_windows(g: Graph, node: FusedOp, target: Target) -> Schedule:
    """The schedule of least cost, or the one that tuning prescribes."""
    nest, text = window_nest(g, node)
    schedule, why = forced_or_chosen(g.forced_by_nest, text, space(nest, target.isa.registers), partial(choose_window, nest, target))
    note(node.name, why=why)
    return schedule


def window_nest(g: Graph, node: FusedOp) -> tuple[WindowNest, str]:
    """What the schedule of a fused op's windows is chosen for, and the text that tuning files have for it."""
    windows = windows_of(g, node)
    nest = windows.nest(g, node.ops[0])
    read = [*((v, node) for v in node.ins), *((v, reader) for v in node.outs for reader in g.consumers[v])]
    passed = (_passed(g, v, reader) for v, reader in read if v in g.producer and v not in g.outs)
    return replace(nest, passed=tuple(p for p in passed if p is not None)), windows.text(nest)


def _passed(g: Graph, v: int, reader: Node) -> Passed | None:
    """A value that one nest of windows makes for another."""
    if not (_is_of_windows(g.producer[v]) and _is_of_windows(reader)):
        return None
    windows, ins = windows_of(g, reader), reader.ops[0].ins
    index = next((load.index for load in loads_of(windows.generic_tap.value) if ins[int(load.tensor.name)] == v), ())
    same = takewhile(lambda pair: pair[0] == pair[1], zip(index, windows.axes, strict=False))
    return Passed(g.value(v).type.nbytes, len(list(same)))


def _is_of_windows(node: Node) -> TypeGuard[FusedOp]:
    return isinstance(node, FusedOp) and node.ops[0].lowering.is_window


def windows_of(g: Graph, node: FusedOp) -> Windows:
    """Those of its first op; x is the densest axis of what the nest makes of them."""
    op, window, domain = node.ops[0], node.ops[0].lowering.form, domain_of(g, node.ops)
    assert isinstance(window, Window)
    last = next(v for done in reversed(node.ops) for v in done.outs if v in domain.axes)
    return _windows(window, g.call(op), densest_axis(g, last, domain.axes[last]))


@lru_cache(maxsize=512)
def _windows(window: Window, call: Call, x: int) -> Windows:
    """One object for each, which remembers what it has found."""
    return Windows(window, call, x)


def densest_axis(g: Graph, id: int, axes: Axes) -> int:
    """The axis of the nest along which a value's elements are closest in memory. axes: of the nest, by dim of the value."""
    steps = {axis: step for axis, step in zip(axes, strides_by_dim(g, id), strict=True) if axis is not None and step}
    last = max((axis for axis in axes if axis is not None), default=0)
    return min(steps, key=lambda axis: (abs(steps[axis]), -axis), default=last)


# ---- where conditions hold -------------------------------------------------------------------------------------------

NOWHERE: Interval = (0, 0)


def where_holds(condition: Expr, var: Var, size: int, ranges: Ranges) -> Interval:
    """The values of a variable, of 0 to `size`, for which a condition holds whatever the other variables are, if it is linear.

    >>> from benchgraph.tir.build import index
    >>> i, t = Var("i"), Var("t")
    >>> where_holds(Binary(BinOp.ge, add(i, t), index(2)), i, 10, {"i": (0, 9), "t": (0, 2)})
    (2, 10)
    """
    first, end = 0, size
    for form in non_negative(condition):
        step = form.terms.get(var, 0)
        least, _ = linear_bounds(form.minus(Linear({var: step} if step else {})), ranges)
        if step == 0 or least == -inf:
            return NOWHERE
        first, end = (max(first, ceil(-least / step)), end) if step > 0 else (first, min(end, floor(least / -step) + 1))
    return (first, end) if first < end else NOWHERE


def non_negative(condition: Expr) -> list[Linear]:
    """Linear forms that are all >= 0 exactly where the condition holds; for a non-linear condition the constant -1, which is never >= 0."""
    match condition:
        case Binary(BinOp.lt, a, b) | Binary(BinOp.gt, b, a):
            return [linear(b).minus(linear(a)).plus(Linear({}, -1))]
        case Binary(BinOp.le, a, b) | Binary(BinOp.ge, b, a):
            return [linear(b).minus(linear(a))]
        case Binary(BinOp.eq, a, b):
            return [linear(a).minus(linear(b)), linear(b).minus(linear(a))]
    return [Linear({}, -1)]


def _both(a: Interval, b: Interval) -> Interval:
    first, end = max(a[0], b[0]), min(a[1], b[1])
    return (first, end) if first < end else NOWHERE
