"""What a nest shares with those beside it: inputs, and loops.

Inputs that a split reduction and the nest beside it both read, and L2 does not hold: the two are fused, block by block.

    nest0 { rows of diff_src }            ->   nest0 { rows of diff_src }
    nest1 { sums over all rows }               nest1 { sums over all rows } shared=[0,1] blocks=64

LayerNormBackward is such a pair. A block is what a task of the reduction reads, so that the second of the two reads it from L2; or, where
the loops over rows can be one, each row from L1 (by_rows). tir/passes/merge_blocks.py fuses the loops where that is legal.
Loops of nests over the same range become one where that is legal (tir/passes/merge_parallel.py), outermost first, so that caches hold what
goes from one to the next. Where the outermost loop of a nest has fewer iterations than there are cores, it may not lose others by that:

    nest2 { padding of 2 images }   on 16 cores   ->   nest2 { padding of 2 images } tasks=16

docs/measurements/parallel-loops.md
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil, prod

from benchgraph.core.tensor import Shape
from benchgraph.gir.domain import domain_of
from benchgraph.gir.elements import element_nest
from benchgraph.gir.ir import FusedOp, Graph
from benchgraph.gir.windows import windows_of
from benchgraph.machine.target import Target
from benchgraph.schedule.elements import axes_of
from benchgraph.schedule.limits import shares_blocks, shares_rows
from benchgraph.schedule.primitives import Schedule


def among_others(g: Graph, node: FusedOp, target: Target) -> FusedOp:
    """The scheduled nest with what it shares."""
    node = _with_shared_inputs(g, node, target)
    return node if min(_outermost(g, node), default=target.cores) >= target.cores else replace(node, tasks=target.cores)


def _outermost(g: Graph, node: FusedOp) -> Iterator[int]:
    """Of the nest's loops over tasks, iterations of the outermost one that has several."""
    if (p := node.parameters) is not None:
        batch = next(g.value(op.outs[0]).shape[:-2] for op in node.ops if op.lowering.is_contraction)
        loops = (p.npn, *batch, p.mpn) if node.panels_first else (*batch, p.mpn, p.npn)
        yield from [] if node.is_serial else [trips for trips in loops if trips > 1][:1]
        return
    shapes = [windows.shape for windows in windows_of(g, node)] if node.ops[0].lowering.is_window else [domain_of(g, node.ops).extents]
    for shape, schedule in zip(shapes, node.schedules, strict=False):
        trips = (_trips(shape, schedule, loop) for loop in schedule.parallel)
        yield from [each for each in trips if each > 1][:1]


def _trips(shape: Shape, schedule: Schedule, loop: str) -> int:
    sizes = schedule.sizes(loop.split(".")[0])
    return ceil(prod(shape[axis] for axis in axes_of(schedule, loop)) / (sizes[0] if sizes else 1))


def _with_shared_inputs(g: Graph, node: FusedOp, target: Target) -> FusedOp:
    """If it is a split reduction that has enough tasks for all cores."""
    nest = element_nest(g, node) if node.schedules and node.schedules[0].split else None
    if nest is None or not nest.is_shared:
        return node
    (schedule,) = node.schedules
    shared = tuple(v for v in node.ins if v in g.ins and len(g.consumers[v]) > 1 and g.value(v).type.elements >= nest.size(nest.axes))
    nbytes, rows = sum(g.value(v).type.nbytes for v in shared), nest.size(axes_of(schedule, schedule.split))
    tasks = ceil(rows / schedule.sizes(schedule.split)[0])
    if not shares_blocks(nbytes, tasks, target):
        return node
    return replace(node, shared=shared, blocks=tasks, by_rows=shares_rows(nbytes, rows, target))
