"""The order of loops in a nest: without reductions as the memory it writes lies, with the axes that lie densely everywhere run as one.

Every access of the nest is a vector of steps: by how many elements it moves per axis of the domain, through broadcasts, views and strides.

    y: f32[8,3,20,30] by [1800,1,90,3] = ReLU(x, with the same strides)      order: axes 0, 2, 3, 1, all of them one run of 14400 elements
    part 1 of Concat([8,3,20], [8,5,20], axis=1)                             order: 0, 1, 2, of which 1 and 2 are one run of 100 elements
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from benchgraph.core.tensor import dense_strides
from benchgraph.gir.domain import Axes, Domain
from benchgraph.gir.ir import FusedOp, Graph, Op
from benchgraph.gir.strides import Steps, strides_of
from benchgraph.lower.access import right_aligned
from benchgraph.ops import affine, spec
from benchgraph.ops.spec import DataMovement, Elementwise, Indices, Reduction
from benchgraph.tir.ir import Const, Var

FEWEST_CROSSED = 8  # elements of what is written side by side
FEWEST = 16  # elements of a folded axis that are worth a loop: runs of 10, of GroupNorm's channels, took 1.3 times what gathers of 48 take


@dataclass(frozen=True)
class _Access:
    """root: the value whose buffer is meant; None for what an op takes from its own index."""

    steps: Steps
    root: int | None = None
    is_store: bool = False


def is_even(domain: Domain, ops: Iterable[Op]) -> bool:
    """Whether every op runs through every axis: no reductions, nothing computed once per row, elementwise ops and movements only."""
    found = [axes for op in ops for v in op.outs if (axes := domain.axes.get(v)) is not None]
    known = all(isinstance(spec(op.kind).lowering.form, Elementwise | DataMovement) for op in ops)
    return known and not domain.reduced and all(axes == found[0] for axes in found)


class Runs:
    """A nest and what its accesses, worked out once, say of its loops. inside: values that it makes for itself alone."""

    def __init__(self, g: Graph, domain: Domain, node: FusedOp) -> None:
        self.g, self.domain, self.node = g, domain, node
        self.inside = frozenset(v for op in node.ops for v in op.outs if v not in node.outs and g.value(v).view is None)

    @cached_property
    def _accesses(self) -> tuple[_Access, ...]:
        return tuple(_accesses(self.g, self.domain, self.node.ops))

    @cached_property
    def _at_border(self) -> tuple[_Access, ...]:
        """The accesses to memory: what stays inside the nest becomes registers."""
        border = {None, *self.node.ins, *self.node.outs}
        return tuple(a for a in self._accesses if a.root in border)

    def even(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(outer axes, axes to be run through as one) of a nest that `is_even`, outermost first; axes of size 1 are left out."""
        accesses = self._at_border
        axes = [a for a, extent in enumerate(self.domain.extents) if extent != 1]
        written = [a.steps for a in accesses if a.is_store and a.root in self.node.outs]
        if written and None not in written[-1]:
            axes.sort(key=lambda a: -abs(written[-1][a] or 0))
        count = min(1, len(axes))
        while count < len(axes) and self._all_run_on(accesses, tuple(axes[-count - 1 :])):
            count += 1
        return tuple(axes[: len(axes) - count]), tuple(axes[len(axes) - count :])

    def crossed(self, outer: tuple[int, ...], inner: tuple[int, ...]) -> tuple[int, ...]:
        """Those of the outer axes, to be run through as one, that something read lies densely along, which the inner ones step over.

        Channels last to channels first, 57 x 57 of 58 x 58: a row of 57 of one channel is an element each of 57 cache lines, and so is that
        of the channel after it.
        """
        if not outer or prod(self.domain.extents[a] for a in inner) < FEWEST_CROSSED:
            return ()
        accesses, found = self._at_border, tuple[int, ...]()
        for steps in (a.steps for a in accesses if not a.is_store and a.steps[inner[-1]] not in (None, 0, 1)):
            found = next(((a,) for a in outer if steps[a] == 1), found)
        while found and (longer := next(((a, *found) for a in outer if a not in found and self._all_run_on(accesses, (a, *found))), ())):
            found = longer
        return found

    def inner_axis(self, folded: tuple[tuple[int, ...], ...]) -> int:
        """The axis for the innermost loop of a nest with reductions: the last, or another one along which more of the memory lies closely.

        folded: those of `folded`; their loops are as long as all axes of a run.

        Softmax over axis 1 of f32[8,384,1024] by [393216,1,384] then runs through rows of 384 that lie together, not through 1024 columns
        of which each vector is a gather: 3.2 ms for 30.4 (backward, one thread of a Cascade Lake). Over axis 2 it runs through the same
        rows.
        """
        domain, last = self.domain, len(self.domain.extents) - 1
        steps = [a.steps for a in self._at_border if a.root is not None]

        def close(axis: int) -> int:
            """Elements that are read and written by vectors along this axis."""
            return sum(_elements(domain, s) for s in steps if s[axis] == 1)

        kept = (a for a in range(last) if a not in domain.reduced)
        best = max((last, *sorted(domain.reduced), *kept), key=close)  # the last where none is better
        run = next((run for run in folded if run[-1] == best), (best,)) if best in domain.reduced else self.kept(best)
        return best if prod(domain.extents[a] for a in run) >= FEWEST else last

    def kept(self, inner: int) -> tuple[int, ...]:
        """Kept axes up to `inner` that all memory runs through as one: what of it is the nest's own can lie so.

        Rows of 7 fill half a vector, and 7 of them three and a bit: softmax over the channels of f32[64,512,7,7] 0.4 of the time.
        """
        domain, own, axes = self.domain, self.inside, [inner]

        def runs_on(longer: list[int]) -> bool:
            bound = (a for a in self._accesses if a.root not in own or not {*longer} <= {*domain.axes[a.root]})
            return self._all_run_on(bound, tuple(longer))

        left = [a for a, extent in enumerate(domain.extents) if extent != 1 and a not in domain.reduced and a != inner]
        while found := next((a for a in left if runs_on([a, *axes])), None):
            axes.insert(0, found)
            left.remove(found)
        return tuple(axes)

    def folded(self) -> tuple[tuple[int, ...], ...]:
        """Folded axes that every access runs through evenly one after the other, so that one long loop will do for each of these runs.

        Rows of 7 would fill half a vector each, and what is left of rows of 56 is a masked vector of its own. Axes follow each other as
        most of the memory lies. `inner_axis` is the last of its run: along it some memory lies closely, so along an axis in front of it
        none does.
        """
        domain = self.domain
        accesses = self._accesses if _goes_through_twice(domain, self.node) else self._at_border
        axes = [a for a in sorted(domain.reduced) if domain.extents[a] != 1]
        widest = max((a.steps for a in accesses), key=lambda s: _elements(domain, s))
        if all(widest[a] for a in axes):
            axes.sort(key=lambda a: -abs(widest[a] or 0))
        runs = list[tuple[int, ...]]()
        while axes:
            count = 1
            while count < len(axes) and self._all_run_on(accesses, tuple(axes[-count - 1 :])):
                count += 1
            runs.append(tuple(axes[-count:]))
            del axes[-count:]
        return tuple(run for run in runs if len(run) > 1)

    def reads_closely(self, axis: int) -> bool:
        """Whether no vector along an axis is a gather from memory."""
        return all(a.steps[axis] in (0, 1) for a in self._at_border if not a.is_store and a.root is not None)

    @cached_property
    def holds(self) -> bool:
        """Whether elements that it makes are kept until they are read behind a fold."""
        domain, own, phase = self.domain, self.inside, dict[int, int]()
        for op in self.node.ops:
            now = max((phase.get(v, 0) for v in op.ins), default=0)
            if any(v in own and phase.get(v, now) < now and domain.reduced.intersection(domain.axes.get(v, ())) for v in op.ins):
                return True
            phase.update(dict.fromkeys(op.outs, now + isinstance(spec(op.kind).lowering.form, Reduction)))
        return False

    def _all_run_on(self, accesses: Iterable[_Access], axes: tuple[int, ...]) -> bool:
        """Whether these axes, run through as one, step evenly everywhere; standing still counts."""
        dense = dense_strides(tuple(self.domain.extents[a] for a in axes))
        return all(_is_dense([a.steps[axis] for axis in axes], dense) for a in accesses)


def _is_dense(steps: Sequence[int | None], dense: Sequence[int]) -> bool:
    unit = steps[-1]
    return unit is not None and all(step == unit * d for step, d in zip(steps, dense, strict=True))


def _elements(domain: Domain, steps: Steps) -> int:
    """How many elements an access comes by."""
    return prod(extent for extent, step in zip(domain.extents, steps, strict=True) if step != 0)


def _goes_through_twice(domain: Domain, node: FusedOp) -> bool:
    """Whether elements are made of what a fold of them comes to. What they were made into before is in memory meanwhile, in dense rows."""
    folded = set[int]()
    for op in node.ops:
        if isinstance(spec(op.kind).lowering.form, Reduction) or not folded.isdisjoint(op.ins):
            folded.update(op.outs)
            if domain.reduced.intersection(domain.axes[op.ins[0] if op.outs[0] in domain.scattered else op.outs[0]]):
                return True
    return False


def _accesses(g: Graph, domain: Domain, ops: Iterable[Op]) -> Iterator[_Access]:
    """Those of `Region.emit`, in order."""
    variables = tuple(Var(f"${axis}") for axis in range(len(domain.extents)))

    def at(axes: Axes) -> Indices:
        return tuple(Const(0) if axis is None else variables[axis] for axis in axes)

    def access(id: int, index: Indices, *, is_store: bool = False) -> _Access:
        return _Access(strides_of(g, id, index, variables), g.root(id), is_store)

    for op in ops:
        match spec(op.kind).lowering.form:
            case Elementwise() as how:
                here = at(domain.axes[op.outs[0]])
                for v in op.ins:
                    yield access(v, right_aligned(here, len(g.value(v).shape), Const(0)))
                places = () if how.position is None else how.position(op.attrs, g.value(op.outs[0]).shape, here)
                for place in places:
                    yield _Access(tuple(affine.step(place, var) for var in variables))
                for v in op.outs:
                    yield access(v, here, is_store=True)
            case Reduction():
                src, out = op.ins[0], op.outs[0]
                yield access(src, at(domain.axes.get(src) or tuple(range(len(variables)))))
                yield access(out, at(domain.axes[out]), is_store=True)
            case DataMovement() as how:
                src, dst = op.ins[0], op.outs[0]
                shapes = g.value(src).shape, g.value(dst).shape
                if dst in domain.scattered:
                    assert how.target is not None
                    here = at(domain.axes[src])
                    yield access(src, here)
                    yield access(dst, how.target(op.attrs, *shapes, here), is_store=True)
                else:
                    here = at(domain.axes[dst])
                    yield access(src, how.source(op.attrs, *shapes, here))
                    yield access(dst, here, is_store=True)
