"""Batch invariants: what a nest computes once per batch entry, before the entry's tasks.

A nest with a tunable op runs over (batch, rows). What every batch entry needs once, another nest can compute right there, as a stage at the
batch anchor: packed or dequantised keys and values, the scales of a group, one factor for all. `along` says, for each batch loop around
such a stage, which axis of its domain this loop runs along, None where it does not depend on the loop.

    nest over [b, g, h, m]:  %5: f32[B,G,1,K,N] = Reorder(%4)      along = (0, 1): once for all h of a group
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from benchgraph.gir.domain import Domain, trace
from benchgraph.gir.ir import Anchor, FusedOp, Graph, Op, Stage
from benchgraph.gir.product import product
from benchgraph.gir.views import Index, nest_index, root_index, zeroed
from benchgraph.ops.spec import Elementwise, Reduction
from benchgraph.ops.unit_steps import step
from benchgraph.tir.ir import Var

Along: TypeAlias = tuple[int | None, ...]
Dims: TypeAlias = tuple[int | None, ...]  # for each batch loop, the dim of a buffer that it alone moves along, by one; None: there is none


@dataclass(frozen=True)
class Read:
    """A read of a buffer by a stage of a nest. dims: those that select the batch entry; None when the index follows no such rule."""

    root: int
    stage: Stage
    dims: Dims | None


def entry_reads(g: Graph, node: FusedOp, buffers: Collection[int], batch: int) -> Iterator[Read]:
    """Every read of one of these buffers. batch: how many batch loops the nest has."""
    for stage in node.stages:
        domain = trace(g, stage.ops)
        for op in stage.ops:
            for port, v in enumerate(op.ins):
                if g.root(v) not in buffers:
                    continue
                index = None if domain is None else read_index(g, stage, domain, op, port, batch)
                yield Read(g.root(v), stage, None if index is None else _dims(root_index(g, v, index), batch))


def batch_axes_of(g: Graph, stage: Stage, read_dims: dict[int, Dims], batch: int) -> Along | None:
    """`along` of a stage at the batch anchor, when readers select their entries of its buffers by these dims; None: it cannot be there."""
    domain = trace(g, stage.ops)
    if domain is None or not domain.has_whole_rows or domain.scattered:
        return None
    axes_of: list[set[int | None]] = [set() for _ in range(batch)]
    for op in stage.ops:
        for v in op.outs:
            if (dims := read_dims.get(g.root(v))) is None:
                continue
            names = tuple(Var(f"$x{i}") for i in range(len(domain.extents)))
            at = root_index(g, v, nest_index(domain.axes[v], names))
            for loop, dim in enumerate(dims):
                axes_of[loop].add(_axis_alone_on(at, dim, names))
    last = len(domain.extents) - 1
    along = tuple(next(iter(axes)) if len(axes) == 1 else None for axes in axes_of)
    # A reduced axis stays inside the stage: one entry of it has not all terms of the sum.
    return tuple(None if a == last or a in domain.reduced or along.count(a) > 1 else a for a in along)


def _axis_alone_on(at: Index, dim: int | None, names: tuple[Var, ...]) -> int | None:
    """The axis that moves along this dim by one, and along no other, if no other axis moves along the dim."""
    if dim is None:
        return None
    moving = [i for i, var in enumerate(names) if step(at[dim], var) != 0]
    if len(moving) != 1:
        return None
    steps = [step(e, names[moving[0]]) for e in at]
    return moving[0] if steps[dim] == 1 and steps.count(0) == len(steps) - 1 else None


def _names(stage: Stage, rank: int, batch: int) -> tuple[Var, ...]:
    """The axes of a stage's domain: $b for one that a batch loop runs along, $x for the others."""
    if Anchor.batch not in stage.anchors:
        return tuple(Var(f"$b{i}" if i < batch else f"$x{i}") for i in range(rank))
    loops = {axis: loop for loop, axis in enumerate(stage.along) if axis is not None}
    return tuple(Var(f"$b{loops[i]}" if i in loops else f"$x{i}") for i in range(rank))


def read_index(g: Graph, stage: Stage, domain: Domain, op: Op, port: int, batch: int) -> Index | None:
    """The index at which an op of a stage reads a value, in the stage's axes $x (of a product: $k, $m, $n) and the batch loops $b; None
    when it follows no such rule."""
    shape = g.value(op.ins[port]).shape
    if op.lowering.is_contraction:
        return product(g, op).operands[port]
    names = _names(stage, len(domain.extents), batch)
    match op.lowering.form:
        case Elementwise():
            axes = domain.axes[op.outs[0]]
            tail = axes[len(axes) - len(shape) :]
            return zeroed(shape, nest_index(tail, names))
        case Reduction() if op is stage.ops[0]:
            return zeroed(shape, names)
    return None


def _dims(at: Index, batch: int) -> Dims:
    """For each batch loop the dim that it moves along, if it moves by one and nothing else moves there."""
    variables = [Var(f"$b{loop}") for loop in range(batch)]
    moving = ([dim for dim, e in enumerate(at) if step(e, var) != 0] for var in variables)
    return tuple(dims[0] if len(dims) == 1 and at[dims[0]] == var else None for var, dims in zip(variables, moving, strict=True))


def common_dims(reads: Iterable[Dims], batch: int) -> Dims:
    """The dims that select the batch entry in all of these reads; None for a loop where they differ."""
    columns = [set(column) for column in zip(*reads, strict=True)]
    return tuple(next(iter(c)) if len(c) == 1 else None for c in columns) if columns else (None,) * batch


def loop_depth(along: Along) -> int:
    """How many of the batch loops a stage has to be inside of."""
    return max((i + 1 for i, axis in enumerate(along) if axis is not None), default=0)
