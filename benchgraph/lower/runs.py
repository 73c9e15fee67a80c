"""The order of loops in a nest: without reductions as the memory it writes lies, with the axes that lie densely everywhere run as one.

Every access of the nest is a vector of steps: by how many elements it moves per axis of the domain, through broadcasts, views and strides.

    y: f32[8,3,20,30] by [1800,1,90,3] = ReLU(x, with the same strides)      order: axes 0, 2, 3, 1, all of them one run of 14400 elements
    part 1 of Concat([8,3,20], [8,5,20], axis=1)                             order: 0, 1, 2, of which 1 and 2 are one run of 100 elements
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

from benchgraph.core.tensor import dense_strides
from benchgraph.gir.domain import Axes, Domain
from benchgraph.gir.ir import Fused, Graph, Op
from benchgraph.gir.memory import Steps, steps_of
from benchgraph.lower.access import right_aligned
from benchgraph.ops import affine, spec
from benchgraph.ops.spec import Elementwise, Indices, Movement, Reduction
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
    known = all(isinstance(spec(op.kind).lower, Elementwise | Movement) for op in ops)
    return known and not domain.reduced and all(axes == found[0] for axes in found)


def run(g: Graph, domain: Domain, node: Fused) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(outer axes, axes to be run through as one), outermost first; axes of size 1 are left out."""
    accesses = _at_border(g, domain, node)
    axes = [a for a, extent in enumerate(domain.extents) if extent != 1]
    written = [a.steps for a in accesses if a.is_store and a.root in node.outs]
    if written and None not in written[-1]:
        axes.sort(key=lambda a: -abs(written[-1][a] or 0))
    count = min(1, len(axes))
    while count < len(axes) and _runs_on(domain, accesses, tuple(axes[-count - 1 :])):
        count += 1
    return tuple(axes[: len(axes) - count]), tuple(axes[len(axes) - count :])


def crossed(g: Graph, domain: Domain, node: Fused, outer: tuple[int, ...], inner: tuple[int, ...]) -> tuple[int, ...]:
    """Those of the outer axes, to be run through as one, that something read lies densely along, which the inner ones step over.

    Channels last to channels first, 57 x 57 of 58 x 58: a row of 57 of one channel is an element each of 57 cache lines, and so is that of
    the channel after it.
    """
    if not outer or prod(domain.extents[a] for a in inner) < FEWEST_CROSSED:
        return ()
    accesses = _at_border(g, domain, node)
    found: tuple[int, ...] = ()
    for steps in (a.steps for a in accesses if not a.is_store and a.steps[inner[-1]] not in (None, 0, 1)):
        found = next(((a,) for a in outer if steps[a] == 1), found)
    while found and (longer := next(((a, *found) for a in outer if a not in found and _runs_on(domain, accesses, (a, *found))), ())):
        found = longer
    return found


def _runs_on(domain: Domain, accesses: Iterable[_Access], axes: tuple[int, ...]) -> bool:
    return all(_is_dense(domain, a.steps, [*axes]) for a in accesses)


def inner_axis(g: Graph, domain: Domain, node: Fused, runs: tuple[tuple[int, ...], ...]) -> int:
    """The axis for the innermost loop of a nest with reductions: the last, or another one along which more of the memory lies closely.

    runs: those of `folded_runs`; their loops are as long as all axes of a run.

    Softmax over axis 1 of f32[8,384,1024] by [393216,1,384] then runs through rows of 384 that lie together, not through 1024 columns of
    which each vector is a gather: 3.2 ms for 30.4 (backward, one thread of a Cascade Lake). Over axis 2 it runs through the same rows.
    """
    steps = [a.steps for a in _at_border(g, domain, node) if a.root is not None]
    last = len(domain.extents) - 1

    def close(axis: int) -> int:
        """Elements that are read and written by vectors along this axis."""
        return sum(_elements(domain, s) for s in steps if s[axis] == 1)

    kept = (a for a in range(last) if a not in domain.reduced)
    best = max((last, *sorted(domain.reduced), *kept), key=close)  # the last where none is better
    run = next((run for run in runs if run[-1] == best), (best,)) if best in domain.reduced else kept_run(g, domain, node, best)
    return best if prod(domain.extents[a] for a in run) >= FEWEST else last


def kept_run(g: Graph, domain: Domain, node: Fused, inner: int) -> tuple[int, ...]:
    """Kept axes up to `inner` that all memory runs through as one: what of it is the nest's own can lie so.

    Rows of 7 fill half a vector, and 7 of them three and a bit: softmax over the channels of f32[64,512,7,7] 0.4 of the time.
    """
    own, accesses, axes = inside(g, node), list(_accesses(g, domain, node.ops)), [inner]

    def runs_on(longer: list[int]) -> bool:
        return _runs_on(domain, (a for a in accesses if a.root not in own or not {*longer} <= {*domain.axes[a.root]}), tuple(longer))

    left = [a for a, extent in enumerate(domain.extents) if extent != 1 and a not in domain.reduced and a != inner]
    while found := next((a for a in left if runs_on([a, *axes])), None):
        axes.insert(0, found)
        left.remove(found)
    return tuple(axes)


def reads_closely(g: Graph, domain: Domain, node: Fused, axis: int) -> bool:
    """Whether no vector along an axis is a gather from memory."""
    return all(a.steps[axis] in (0, 1) for a in _at_border(g, domain, node) if not a.is_store and a.root is not None)


def inside(g: Graph, node: Fused) -> frozenset[int]:
    """Values that a nest makes for itself alone."""
    return frozenset(v for op in node.ops for v in op.outs if v not in node.outs and g.value(v).view is None)


def _elements(domain: Domain, steps: Steps) -> int:
    """How many elements an access comes by."""
    return prod(extent for extent, step in zip(domain.extents, steps, strict=True) if step != 0)


def folded_runs(g: Graph, domain: Domain, node: Fused) -> tuple[tuple[int, ...], ...]:
    """Folded axes that every access runs through evenly one after the other, so that one long loop will do for each of these runs.

    Rows of 7 would fill half a vector each, and what is left of rows of 56 is a masked vector of its own. Axes follow each other as most
    of the memory lies. `inner_axis` is the last of its run: along it some memory lies closely, so along an axis in front of it none does.
    """
    found = _accesses(g, domain, node.ops) if _goes_through_twice(domain, node) else _at_border(g, domain, node)
    steps = [a.steps for a in found]
    axes, widest = [a for a in sorted(domain.reduced) if domain.extents[a] != 1], max(steps, key=lambda s: _elements(domain, s))
    if all(widest[a] for a in axes):
        axes.sort(key=lambda a: -abs(widest[a] or 0))
    runs = list[tuple[int, ...]]()
    while axes:
        count = 1
        while count < len(axes) and all(_is_dense(domain, s, axes[-count - 1 :]) for s in steps):
            count += 1
        runs.append(tuple(axes[-count:]))
        del axes[-count:]
    return tuple(run for run in runs if len(run) > 1)


def _goes_through_twice(domain: Domain, node: Fused) -> bool:
    """Whether elements are made of what a fold of them comes to. What they were made into before is in memory meanwhile, in dense rows."""
    folded = set[int]()
    for op in node.ops:
        if isinstance(spec(op.kind).lower, Reduction) or not folded.isdisjoint(op.ins):
            folded.update(op.outs)
            if domain.reduced.intersection(domain.axes[op.ins[0] if op.outs[0] in domain.scattered else op.outs[0]]):
                return True
    return False


def holds(g: Graph, domain: Domain, node: Fused) -> bool:
    """Whether elements that it makes are kept until they are read behind a fold."""
    own, phase = inside(g, node), dict[int, int]()
    for op in node.ops:
        now = max((phase.get(v, 0) for v in op.ins), default=0)
        if any(v in own and phase.get(v, now) < now and domain.reduced.intersection(domain.axes.get(v, ())) for v in op.ins):
            return True
        phase.update(dict.fromkeys(op.outs, now + isinstance(spec(op.kind).lower, Reduction)))
    return False


def _is_dense(domain: Domain, steps: Steps, axes: list[int]) -> bool:
    """Whether these axes, run through as one, step evenly; standing still counts."""
    unit = steps[axes[-1]]
    dense = dense_strides(tuple(domain.extents[a] for a in axes))
    return unit is not None and all(steps[a] == unit * d for a, d in zip(axes, dense, strict=True))


def _at_border(g: Graph, domain: Domain, node: Fused) -> list[_Access]:
    """The accesses to memory: what stays inside the nest becomes registers."""
    border = {None, *node.ins, *node.outs}
    return [a for a in _accesses(g, domain, node.ops) if a.root in border]


def _accesses(g: Graph, domain: Domain, ops: Iterable[Op]) -> Iterator[_Access]:
    """Those of `Region.emit`, in order."""
    variables = tuple(Var(f"${axis}") for axis in range(len(domain.extents)))

    def at(axes: Axes) -> Indices:
        return tuple(Const(0) if axis is None else variables[axis] for axis in axes)

    def access(id: int, index: Indices, *, is_store: bool = False) -> _Access:
        return _Access(steps_of(g, id, index, variables), g.root(id), is_store)

    for op in ops:
        match spec(op.kind).lower:
            case Elementwise() as how:
                here = at(domain.axes[op.outs[0]])
                for v in op.ins:
                    yield access(v, right_aligned(here, len(g.value(v).shape), Const(0)))
                places = () if how.place is None else how.place(op.attrs, g.value(op.outs[0]).shape, here)
                for place in places:
                    yield _Access(tuple(affine.step(place, var) for var in variables))
                for v in op.outs:
                    yield access(v, here, is_store=True)
            case Reduction():
                src, out = op.ins[0], op.outs[0]
                yield access(src, at(domain.axes.get(src) or tuple(range(len(variables)))))
                yield access(out, at(domain.axes[out]), is_store=True)
            case Movement() as how:
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
