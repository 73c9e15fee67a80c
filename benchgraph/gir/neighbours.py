"""Inputs that a split reduction and the nest beside it both read, and L2 does not hold: the two are fused, block by block.

    nest0 { rows of diff_src }            ->   nest0 { rows of diff_src }
    nest1 { sums over all rows }               nest1 { sums over all rows } shared=[0,1] blocks=64

LayerNormBackward is such a pair. A block is what a task of the reduction reads, so that the second of the two reads it from L2; or, where
the loops over rows can be one, each row from L1 (by_rows). tir/passes/merge_blocks.py fuses the loops where that is legal.
docs/measurements/parallel-loops.md
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from benchgraph.gir.ir import FusedOp, Graph
from benchgraph.machine.target import Target
from benchgraph.schedule.elements import ElementNest, axes_of
from benchgraph.schedule.limits import shares_blocks, shares_rows
from benchgraph.schedule.primitives import Schedule


def with_shared_inputs(g: Graph, node: FusedOp, nest: ElementNest, schedule: Schedule, target: Target) -> FusedOp:
    """The nest with the inputs that it shares, if it is a split reduction that has enough tasks for all cores."""
    if not schedule.split or not nest.is_shared:
        return node
    shared = tuple(v for v in node.ins if v in g.ins and len(g.consumers[v]) > 1 and g.value(v).type.elements >= nest.size(nest.axes))
    nbytes, rows = sum(g.value(v).type.nbytes for v in shared), nest.size(axes_of(schedule, schedule.split))
    tasks = ceil(rows / schedule.sizes(schedule.split)[0])
    if not shares_blocks(nbytes, tasks, target):
        return node
    return replace(node, shared=shared, blocks=tasks, by_rows=shares_rows(nbytes, rows, target))
