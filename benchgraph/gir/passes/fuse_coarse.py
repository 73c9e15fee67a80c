"""fuse-coarse: consecutive nests over the same rows become one, so that rows stay in cache from one matrix product to the next.

    %2 = nest0 { MatMul ReLU }          %4 = nest0 { MatMul ReLU
    %4 = nest1 { MatMul ReLU }   ->                  MatMul ReLU }      one parallel loop instead of two

Legal when each row of the later nest needs, of what the earlier one makes, only the same row. A weight that has to be packed at every
execution joins at the batch anchor: packed once per batch entry, next to its use.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from benchgraph.core.target import Target
from benchgraph.core.tensor import Shape
from benchgraph.gir.domain import trace
from benchgraph.gir.ir import Anchor, Fused, Graph, Op
from benchgraph.gir.nests import in_order, reachable, with_borders
from benchgraph.gir.product import product
from benchgraph.ops import spec


def fuse_coarse(g: Graph, target: Target) -> Graph:
    nodes = [n for n in g.nodes if isinstance(n, Fused)]
    changed = True
    while changed:
        changed = False
        for i, j in ((i, j) for j in range(len(nodes)) for i in range(len(nodes)) if i != j):
            merged = _merged(g, nodes[i], nodes[j], target)
            if merged is not None and _stays_acyclic(nodes, i, j):
                rest = [n for k, n in enumerate(nodes) if k not in (i, j)]
                nodes = list(in_order(with_borders(g, [*rest, merged])))
                changed = True
                break
    return g if tuple(nodes) == g.nodes else replace(g, nodes=tuple(nodes))


def _merged(g: Graph, first: Fused, second: Fused, target: Target) -> Fused | None:
    """first and second as one nest, or None. second runs after first and reads something of it."""
    shared = set(first.outs) & set(second.ins)
    if not shared or g.value(first.outs[0]).is_constant or not any(spec(op.kind).is_contraction for op in (*first.ops, *second.ops)):
        return None
    if _packs_weight_of(g, first, second) and _batches(g, first) == _batches(g, second) and prod(_batches(g, second)) >= target.cores:
        pack = replace(first.stages[0], anchors=(Anchor.batch,))
        return replace(second, stages=(pack, *second.stages))
    rows, other = _rows(g, first), _rows(g, second)
    if rows is None or rows != other or prod(rows) < target.cores:
        return None
    in_place = {v for op in first.ops if not spec(op.kind).is_movement for v in op.outs}
    if not shared <= in_place or not all(_reads_by_row(g, op, shared, rows) for op in second.ops):
        return None
    return replace(first, stages=first.stages + second.stages)


def _rows(g: Graph, node: Fused) -> Shape | None:
    """The extents of the nest's row axes, None when it has no such form."""
    found: set[Shape] = set()
    for stage in node.stages:
        if Anchor.batch in stage.anchors:
            continue
        domain = trace(g, stage.ops)
        if domain is None or not domain.is_whole or len(domain.extents) < 2 or not domain.reduced <= {len(domain.extents) - 1}:
            return None
        found.add(domain.extents[:-1])
    return found.pop() if len(found) == 1 else None


def _batches(g: Graph, node: Fused) -> Shape:
    return g.value(node.stages[-1].ops[0].outs[0]).shape[:-2]


def _packs_weight_of(g: Graph, pack: Fused, user: Fused) -> bool:
    if len(pack.ops) != 1 or not spec(pack.ops[0].kind).is_movement:
        return False
    packed = pack.ops[0].outs[0]
    readers = [op for op in user.ops if packed in op.ins]
    if pack.outs != (packed,) or packed in g.outs:
        return False
    return all(spec(op.kind).is_contraction and op.ins[0] != packed and product(g, op).has_wei_per_batch for op in readers)


def _reads_by_row(g: Graph, op: Op, shared: set[int], rows: Shape) -> bool:
    """Each row of op's result needs only the same row of the shared values."""
    row = spec(op.kind)
    for position, v in enumerate(op.ins):
        if g.root(v) not in shared:
            continue
        value = g.value(v)
        needs_more = row.is_movement or (row.is_contraction and (position == 1 or not product(g, op).is_row_wise))
        if value.view is not None or value.shape[:-1] != rows or needs_more:
            return False
    return True


def _stays_acyclic(nodes: list[Fused], i: int, j: int) -> bool:
    """No path from i to j runs through a third node, or the other way round."""
    reach = reachable(nodes)
    return not any((k in reach[i] and j in reach[k]) or (k in reach[j] and i in reach[k]) for k in range(len(nodes)) if k not in (i, j))
