"""The order of loops in a nest, and axes that are collapsed into one loop.

Loops without reductions follow the memory that the nest writes. Every access is a vector of steps: by how many elements it moves per axis
of the domain, through broadcasts, views and strides. Neighbouring axes that all accesses step through evenly are one loop.

    y: f32[8,3,20,30] by [1800,1,90,3] = ReLU(x, with the same strides)      order: axes 0, 2, 3, 1, all collapsed to 14400 elements
    part 1 of Concat([8,3,20], [8,5,20], axis=1)                             order: 0, 1, 2, of which 1 and 2 collapse to 100 elements
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

from benchgraph.core.tensor import dense_strides
from benchgraph.gir.domain import Axes, Domain
from benchgraph.gir.ir import FusedOp, Graph, Op
from benchgraph.gir.views import Steps, strides_of
from benchgraph.lower.storage import right_aligned
from benchgraph.machine.table import MachineTable
from benchgraph.ops import unit_steps
from benchgraph.ops.spec import Elementwise, Indices, LayoutOp, Reduction
from benchgraph.tir.ir import Const, Var

FEWEST_TILED = 8  # elements of the innermost loop that are worth tiles


@dataclass(frozen=True)
class _Access:
    """root: the value whose buffer is accessed; None for a number that an op computes from its index."""

    steps: Steps
    root: int | None = None
    is_store: bool = False

    def elements(self, domain: Domain) -> int:
        """How many elements it accesses in the whole nest."""
        return prod(extent for extent, step in zip(domain.extents, self.steps, strict=True) if step != 0)


def covers_all_axes(domain: Domain, ops: Iterable[Op]) -> bool:
    """Whether every op runs over every axis: only elementwise and layout ops, none of them once per row."""
    ops = tuple(ops)
    axes = [domain.axes[v] for op in ops for v in op.outs if v in domain.axes]
    has_forms = all(isinstance(op.lowering.form, Elementwise | LayoutOp) for op in ops)
    return has_forms and not domain.reduced and all(a == axes[0] for a in axes)


class LoopOrder:
    """What the accesses of a nest, worked out once, imply for its loops. private: values that nothing outside of the nest reads."""

    def __init__(self, g: Graph, domain: Domain, node: FusedOp, machine: MachineTable) -> None:
        self.g, self.domain, self.node, self.machine = g, domain, node, machine
        self.private = frozenset(v for op in node.ops for v in op.outs if v not in node.outs and g.value(v).view is None)

    @cached_property
    def _accesses(self) -> tuple[_Access, ...]:
        return tuple(_accesses(self.g, self.domain, self.node.ops))

    @cached_property
    def _memory_accesses(self) -> tuple[_Access, ...]:
        """Without values that stay inside the nest, which become registers."""
        border = {None, *self.node.ins, *self.node.outs}
        return tuple(a for a in self._accesses if a.root in border)

    def _axes(self) -> list[int]:
        return [axis for axis, extent in enumerate(self.domain.extents) if extent != 1]

    def of_stores(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(outer axes, axes that collapse into the innermost loop) of a nest that `covers_all_axes`, outermost first, without size 1."""
        accesses, axes = self._memory_accesses, self._axes()
        stores = [a.steps for a in accesses if a.is_store and a.root in self.node.outs]
        if stores and None not in stores[-1]:
            axes.sort(key=lambda a: -abs(stores[-1][a] or 0))
        count = self._collapsible(accesses, axes)
        return tuple(axes[: len(axes) - count]), tuple(axes[len(axes) - count :])

    def tiled_axes(self, outer: tuple[int, ...], inner: tuple[int, ...]) -> tuple[int, ...]:
        """Those of the outer axes, as one loop, along which something is read contiguously that the inner axes read with a stride: from
        channels last to channels first, each row of a channel would read one element of each cache line, and the next row again."""
        if not outer or prod(self.domain.extents[a] for a in inner) < FEWEST_TILED:
            return ()
        accesses, axes = self._memory_accesses, tuple[int, ...]()
        for steps in (a.steps for a in accesses if not a.is_store and a.steps[inner[-1]] not in (None, 0, 1)):
            axes = next(((a,) for a in outer if steps[a] == 1), axes)
        while axes and (longer := next(((a, *axes) for a in outer if a not in axes and self._can_collapse(accesses, (a, *axes))), ())):
            axes = longer
        return axes

    def inner_axis(self, reduced: tuple[tuple[int, ...], ...]) -> int:
        """The axis of the innermost loop of a nest with reductions: the one along which most elements are contiguous; the last in a tie.

        reduced: `reduced_axes`. For softmax over axis 1 of f32[8,384,1024] by [393216,1,384] it is axis 1: vectors along the last axis
        would be gathered.
        """
        domain, last = self.domain, len(self.domain.extents) - 1

        def contiguous_elements(axis: int) -> int:
            return sum(a.elements(domain) for a in self._memory_accesses if a.root is not None and a.steps[axis] == 1)

        kept = (a for a in range(last) if a not in domain.reduced)
        best = max((last, *sorted(domain.reduced), *kept), key=contiguous_elements)
        loop = next((axes for axes in reduced if axes[-1] == best), (best,)) if best in domain.reduced else self.kept_axes(best)
        return best if prod(domain.extents[a] for a in loop) >= self.machine.inner_loop_elements else last

    def kept_axes(self, inner: int) -> tuple[int, ...]:
        """Kept axes that collapse with `inner`, the last of them, in all memory but private temporaries, which can follow them: softmax
        over the channels of f32[64,512,7,7] runs over 49 elements instead of 7, which fill half a vector."""
        domain, axes = self.domain, [inner]

        def can_extend(longer: list[int]) -> bool:
            fixed = (a for a in self._accesses if a.root not in self.private or not {*longer} <= {*domain.axes[a.root]})
            return self._can_collapse(fixed, tuple(longer))

        left = [a for a in self._axes() if a not in domain.reduced and a != inner]
        while extension := next((a for a in left if can_extend([a, *axes])), None):
            axes.insert(0, extension)
            left.remove(extension)
        return tuple(axes)

    def reduced_axes(self) -> tuple[tuple[int, ...], ...]:
        """Groups of reduced axes that collapse, in the order of the largest access: short rows, and masked ends of rows, become one long
        loop. `inner_axis` is the last of its group: where memory is contiguous along it, none is along an axis before it."""
        domain = self.domain
        accesses = self._accesses if _has_second_pass(domain, self.node) else self._memory_accesses
        axes = [a for a in self._axes() if a in domain.reduced]
        largest = max(accesses, key=lambda a: a.elements(domain)).steps
        if all(largest[a] for a in axes):
            axes.sort(key=lambda a: -abs(largest[a] or 0))
        groups = list[tuple[int, ...]]()
        while axes:
            count = self._collapsible(accesses, axes)
            groups.append(tuple(axes[-count:]))
            del axes[-count:]
        return tuple(axes for axes in groups if len(axes) > 1)

    def reads_without_gathers(self, axis: int) -> bool:
        """Whether vectors along an axis are read contiguously, or are one element."""
        return all(a.steps[axis] in (0, 1) for a in self._memory_accesses if not a.is_store and a.root is not None)

    @cached_property
    def stores_private_elements(self) -> bool:
        """Whether a phase behind a reduction reads elements that an earlier phase of the nest computed."""
        domain, phase = self.domain, dict[int, int]()
        for op in self.node.ops:
            now = max((phase.get(v, 0) for v in op.ins), default=0)
            earlier = (v for v in op.ins if v in self.private and phase.get(v, now) < now)
            if any(domain.reduced.intersection(domain.axes.get(v, ())) for v in earlier):
                return True
            phase.update(dict.fromkeys(op.outs, now + isinstance(op.lowering.form, Reduction)))
        return False

    def _collapsible(self, accesses: Iterable[_Access], axes: list[int]) -> int:
        """How many of the last axes collapse into one loop."""
        count = min(1, len(axes))
        while count < len(axes) and self._can_collapse(accesses, tuple(axes[-count - 1 :])):
            count += 1
        return count

    def _can_collapse(self, accesses: Iterable[_Access], axes: tuple[int, ...]) -> bool:
        """Whether all accesses step evenly through these axes as one, or do not move."""
        dense = dense_strides(tuple(self.domain.extents[a] for a in axes))
        steps = ([a.steps[axis] for axis in axes] for a in accesses)
        return all(s[-1] is not None and all(step == s[-1] * d for step, d in zip(s, dense, strict=True)) for s in steps)


def _has_second_pass(domain: Domain, node: FusedOp) -> bool:
    """Whether elements are computed from a reduction of elements. Their own values are in temporaries until then, in dense rows."""
    depends = set[int]()  # on a reduction
    for op in node.ops:
        if isinstance(op.lowering.form, Reduction) or not depends.isdisjoint(op.ins):
            depends.update(op.outs)
            if domain.reduced.intersection(domain.axes[op.ins[0] if op.outs[0] in domain.scattered else op.outs[0]]):
                return True
    return False


def _accesses(g: Graph, domain: Domain, ops: Iterable[Op]) -> Iterator[_Access]:
    """The accesses that `Region.emit` makes, in order."""
    variables = tuple(Var(f"${axis}") for axis in range(len(domain.extents)))

    def at(axes: Axes) -> Indices:
        return tuple(Const(0) if axis is None else variables[axis] for axis in axes)

    def access(id: int, index: Indices, *, is_store: bool = False) -> _Access:
        return _Access(strides_of(g, id, index, variables), g.root(id), is_store)

    for op in ops:
        src, dst = next(iter(op.ins), -1), op.outs[0]
        match op.lowering.form:
            case Elementwise() as form:
                index = at(domain.axes[dst])
                for v in op.ins:
                    yield access(v, right_aligned(index, len(g.value(v).shape), Const(0)))
                for position in () if form.position is None else form.position(op.attrs, g.value(dst).shape, index):
                    yield _Access(tuple(unit_steps.step(position, var) for var in variables))
                for v in op.outs:
                    yield access(v, index, is_store=True)
            case Reduction():
                yield access(src, at(domain.axes.get(src) or tuple(range(len(variables)))))
                yield access(dst, at(domain.axes[dst]), is_store=True)
            case LayoutOp() as form:
                shapes = g.value(src).shape, g.value(dst).shape
                if dst in domain.scattered:
                    assert form.target is not None
                    index = at(domain.axes[src])
                    yield access(src, index)
                    yield access(dst, form.target(op.attrs, *shapes, index), is_store=True)
                else:
                    index = at(domain.axes[dst])
                    yield access(src, form.source(op.attrs, *shapes, index))
                    yield access(dst, index, is_store=True)
