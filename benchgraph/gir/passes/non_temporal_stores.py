"""non-temporal-stores: results of nests that access more memory than the caches hold are stored past the caches.

%1: f32[1000000] = nest0(%0) {    ->   %1: f32[1000000] = nest0(%0) non_temporal=[1] {

A later reader would find nothing of the result in a cache, and a line that is stored whole need not be read first. Nests count with those
before them whose results they alone read: the last of MaxPoolBackward's three windows does not read src, but the others do. Windows that
read much more than they write lose. With several cores more memory than the last-level cache holds is required, and of a very large cache
only a part counts (docs/measurements/non-temporal-stores.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from benchgraph.gir.closure import closure
from benchgraph.gir.ir import FusedOp, Graph
from benchgraph.gir.windows import windows_of
from benchgraph.machine.target import Target
from benchgraph.schedule.limits import goes_past_caches


def non_temporal_stores(g: Graph, target: Target) -> Graph:
    return g.map_nests(lambda nest: replace(nest, non_temporal=_uncached(g, nest, target)))


def _uncached(g: Graph, node: FusedOp, target: Target) -> tuple[int, ...]:
    """Results of a nest that no other nest of its function reads, if that is worth it."""
    is_init = g.is_init(node)
    read = {v for v in node.outs if any(g.is_init(reader) == is_init for reader in g.consumers[v])}
    results = tuple(v for v in node.outs if (is_init or v in g.outs) and v not in read)
    if not results:
        return ()
    outside = (g.value(v) for v in _accessed(g, node) if v in g.ins or v in g.outs or g.value(v).is_constant)
    reads = prod(windows_of(g, node).taps) if node.ops[0].lowering.is_window else 1
    return results if goes_past_caches(sum(v.type.nbytes for v in outside), reads, target) else ()


def _accessed(g: Graph, node: FusedOp) -> set[int]:
    """What a nest reads and writes, and what those nests of its function do whose results it alone reads."""
    is_init = g.is_init(node)

    def makers(nest: FusedOp) -> Iterator[FusedOp]:
        made = (g.producer.get(v) for v in nest.ins if len(g.consumers[v]) == 1 and g.value(v).is_constant == is_init)
        return (maker for maker in made if isinstance(maker, FusedOp))

    return {v for nest in closure(node, makers) for v in (*nest.ins, *nest.outs)}
