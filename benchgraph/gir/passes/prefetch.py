"""prefetch: inputs larger than L2 whose next rows, or what is further along, loops prefetch while they compute.

%1: f32[3072,4096] = nest0(%0) {    ->   %1: f32[3072,4096] = nest0(%0) prefetched=[0] {         softmax along the rows

Rows that are reduced: later loops read a row from a cache, so memory would be idle meanwhile, and hardware prefetchers restart at every
page. Rows are left to the hardware if the loops access less than most of L1, or if one row does not fit L1.

Columns of weights that are multiplied by few rows, several at a time: where hardware prefetches several streams of 16-bit floats late
(`stream_prefetch_bytes` of the machine table). Measurements: docs/measurements/prefetch.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchgraph.gir.elements import element_nest
from benchgraph.gir.ir import FusedOp, Graph
from benchgraph.machine.target import Target
from benchgraph.schedule.elements import axes_of
from benchgraph.schedule.limits import rows_ahead
from benchgraph.schedule.traffic import beyond_l2


def prefetch(g: Graph, target: Target) -> Graph:
    return g.map_nests(lambda nest: replace(nest, prefetched=_prefetched(g, nest, target)))


def _prefetched(g: Graph, node: FusedOp, target: Target) -> tuple[int, ...]:
    large = {v for v in node.ins if (v in g.ins or g.value(v).is_constant) and beyond_l2(g.value(v).type.nbytes, target)}
    if not large or node.ops[0].lowering.is_window:
        return ()
    is_product = any(stage.is_product for stage in node.stages)
    return tuple(v for v in dict.fromkeys(_streams(g, node) if is_product else _rows(g, node, target)) if v in large)


def _streams(g: Graph, node: FusedOp) -> Iterator[int]:
    """Weights whose columns are multiplied as they are stored."""
    for stage in node.stages:
        if stage.parameters is not None and stage.parameters.stream_bytes:
            yield g.root(stage.ops[0].ins[1])


def _rows(g: Graph, node: FusedOp, target: Target) -> Iterator[int]:
    """What several loops along a row read."""
    nest = element_nest(g, node)
    if nest is None or node.schedule is None or len(nest.instructions) < 2:
        return
    row = axes_of(node.schedule, node.schedule.vectorized)
    if not nest.reduced.issuperset(row):
        return
    moving = (a for a in nest.accesses if (not a.is_private or a.name in nest.stored) and a.axes.intersection(row))
    lengths = {a.name: a.bits * nest.size(row) // 8 for a in moving}
    yield from rows_ahead(lengths, target)
