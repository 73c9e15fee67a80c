"""Batch entries of a nest: which part of a value each of them makes or reads.

A nest with a tunable op runs over (batch, rows). What it needs once per batch entry, another nest can make right there, as a stage at the
batch anchor: packed or dequantised keys and values, the scales of a group, one factor for all. `along` says how such a stage lies: for
each batch loop that it is inside of, the axis of its own domain that this loop runs along, None where it does not depend on the loop.

    nest over [b, g, h, m]:  %5: f32[B,G,1,K,N] = Reorder(%4)      along = (0, 1): once for all h of a group
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from benchgraph.gir.domain import Axes, Domain, trace
from benchgraph.gir.ir import Anchor, Fused, Graph, Op, Stage
from benchgraph.gir.product import product
from benchgraph.gir.views import Index, root_index
from benchgraph.ops import spec
from benchgraph.ops.affine import step
from benchgraph.ops.spec import Elementwise, Reduction
from benchgraph.tir.ir import Const, Var

Along: TypeAlias = tuple[int | None, ...]
Dims: TypeAlias = tuple[int | None, ...]  # for each batch loop, the dim of a buffer that it alone moves along, by one; None: there is none


@dataclass(frozen=True)
class Read:
    """One read of a buffer by a nest. stage: where. dims: those that select the entry; None when it follows no such rule."""

    root: int
    stage: Stage
    dims: Dims | None


def entry_reads(g: Graph, node: Fused, wanted: Collection[int], batch: int) -> Iterator[Read]:
    """Every read of one of the wanted buffers. batch: how many batch loops the nest has."""
    for stage in node.stages:
        domain = trace(g, stage.ops)
        for op in stage.ops:
            for port, v in enumerate(op.ins):
                if g.root(v) not in wanted:
                    continue
                index = None if domain is None else read_index(g, stage, domain, op, port, batch)
                yield Read(g.root(v), stage, None if index is None else _dims(root_index(g, v, index), batch))


def entry_writes(g: Graph, stage: Stage, batch: int) -> dict[int, Dims]:
    """For every buffer that a stage at the batch anchor writes, the dims that select the entry."""
    domain = trace(g, stage.ops)
    assert domain is not None
    names = _names(stage, len(domain.extents), batch)
    found: dict[int, Dims] = {}
    for op in stage.ops:
        for v in op.outs:
            axes = domain.axes.get(v)
            found[g.root(v)] = (None,) * batch if axes is None else _dims(root_index(g, v, _at(axes, names)), batch)
    return found


def lay_along(g: Graph, stage: Stage, wanted: dict[int, Dims], batch: int) -> Along | None:
    """How a stage can lie at the batch anchor, when readers select their entries of its buffers by these dims; None: not at all."""
    domain = trace(g, stage.ops)
    if domain is None or not domain.is_whole or domain.scattered:
        return None
    axes_of: list[set[int | None]] = [set() for _ in range(batch)]
    for op in stage.ops:
        for v in op.outs:
            if (dims := wanted.get(g.root(v))) is None:
                continue
            names = tuple(Var(f"$x{i}") for i in range(len(domain.extents)))
            at = root_index(g, v, _at(domain.axes[v], names))
            for loop, dim in enumerate(dims):
                axes_of[loop].add(_axis_alone_on(at, dim, names))
    last = len(domain.extents) - 1
    along = tuple(next(iter(axes)) if len(axes) == 1 else None for axes in axes_of)
    # One entry of an axis that is summed up has not all that the sum needs.
    return tuple(None if a == last or a in domain.reduced or along.count(a) > 1 else a for a in along)


def _axis_alone_on(at: Index, dim: int | None, names: tuple[Var, ...]) -> int | None:
    """The axis that moves along this dim by one, and along no other, while no other axis does."""
    if dim is None:
        return None
    moving = [i for i, var in enumerate(names) if step(at[dim], var) != 0]
    if len(moving) != 1:
        return None
    steps = [step(e, names[moving[0]]) for e in at]
    return moving[0] if steps[dim] == 1 and steps.count(0) == len(steps) - 1 else None


def _names(stage: Stage, rank: int, batch: int) -> tuple[Var, ...]:
    """The axes of a stage's domain: $b of the batch loop that runs along it, or a name of its own."""
    if Anchor.batch not in stage.anchors:
        return tuple(Var(f"$b{i}" if i < batch else f"$x{i}") for i in range(rank))
    loops = {axis: loop for loop, axis in enumerate(stage.along) if axis is not None}
    return tuple(Var(f"$b{loops[i]}" if i in loops else f"$x{i}") for i in range(rank))


def _at(axes: Axes, names: tuple[Var, ...]) -> Index:
    return tuple(Const(0) if axis is None else names[axis] for axis in axes)


def read_index(g: Graph, stage: Stage, domain: Domain, op: Op, port: int, batch: int) -> Index | None:
    """The index in a value at which an op of a stage reads it, in the stage's own axes $x (a product: $k, $m, $n), or loops $b; None when
    it follows no such rule."""
    shape = g.value(op.ins[port]).shape
    if spec(op.kind).lowering.is_contraction:
        return product(g, op).operands[port]
    names = _names(stage, len(domain.extents), batch)
    match spec(op.kind).lowering.form:
        case Elementwise():
            axes = domain.axes[op.outs[0]]
            tail = axes[len(axes) - len(shape) :]
            return _at(tuple(None if extent == 1 else a for extent, a in zip(shape, tail, strict=True)), names)
        case Reduction() if op is stage.ops[0]:
            return _at(tuple(None if extent == 1 else i for i, extent in enumerate(shape)), names)
    return None


def _dims(at: Index, batch: int) -> Dims:
    """For each batch loop the dim that it moves along, if it moves by one and nothing else moves there."""
    return tuple(_dim_of(at, Var(f"$b{loop}")) for loop in range(batch))


def _dim_of(at: Index, var: Var) -> int | None:
    moving = [dim for dim, e in enumerate(at) if step(e, var) != 0]
    return moving[0] if len(moving) == 1 and at[moving[0]] == var else None


def agreed(reads: Iterable[Dims], batch: int) -> Dims:
    """The dims that select the entry in all of these reads; None for a loop where they differ."""
    columns = [set(column) for column in zip(*reads, strict=True)]
    return tuple(next(iter(c)) if len(c) == 1 else None for c in columns) if columns else (None,) * batch


def depth(along: Along) -> int:
    """How many of the batch loops a stage has to be inside of."""
    return max((i + 1 for i, axis in enumerate(along) if axis is not None), default=0)
