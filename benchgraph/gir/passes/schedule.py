"""schedule: every nest with a tunable op gets its template parameters, every op its anchor.

nest0 { MatMul rows, Add rows }   ->   nest0 mb=64 { MatMul kernel nb=64, Add tile }
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from benchgraph.core.target import Target
from benchgraph.core.tensor import Shape, dense_strides
from benchgraph.gir.anchors import choose_anchors
from benchgraph.gir.ir import Anchor, Fused, Graph, Node, Stage
from benchgraph.gir.product import product
from benchgraph.gir.schedule import column_block, rows_per_task
from benchgraph.ops import spec
from benchgraph.ops.spec import Reduction


def schedule(g: Graph, target: Target) -> Graph:
    nodes = tuple(_scheduled(g, n, target) if isinstance(n, Fused) else n for n in g.nodes)
    return g if nodes == g.nodes else replace(g, nodes=nodes)


def _scheduled(g: Graph, node: Fused, target: Target) -> Node:
    kernels = [stage for stage in node.stages if spec(stage.ops[0].kind).is_contraction]
    if not kernels:
        return node
    rows = g.value(kernels[0].ops[0].outs[0]).shape[:-1]
    works_on_rows = any(isinstance(spec(op.kind).lower, Reduction) for op in node.ops)
    mb = rows_per_task(prod(rows[:-1]), rows[-1], _columns_at_once(g, kernels), target, works_on_rows=works_on_rows)
    stages = tuple(_with_anchors(g, stage, mb, target) for stage in node.stages)
    tasks = prod(rows[:-1]) * -(-rows[-1] // mb)
    all_tiled = all(a in (Anchor.kernel, Anchor.tile, Anchor.batch) for stage in stages for a in stage.anchors)
    split_n = tasks < target.cores and len(kernels) == len(stages) == 1 and all_tiled
    prefetch = _prefetched(g, node, kernels, rows, target) if works_on_rows else ()
    why = f"{tasks} tasks of {mb} rows over {target.cores} cores" + (", columns split too" if split_n else "")
    return replace(node, stages=stages, mb=mb, split_n=split_n, prefetch=prefetch, why=why)


def _columns_at_once(g: Graph, kernels: list[Stage]) -> int:
    """Columns that one row of a task holds in cache at a time: the operand and the result of its widest product."""
    return max(g.value(k.ops[0].ins[0]).shape[-1] + g.value(k.ops[0].outs[0]).shape[-1] for k in kernels)


def _prefetched(g: Graph, node: Fused, kernels: list[Stage], rows: Shape, target: Target) -> tuple[int, ...]:
    """Operands worth fetching ahead: dense per batch entry, the next entry right behind, two entries of all of them within L2.

    Only where work on rows (softmax) stands between the products: that is when the memory is idle.
    """
    if len(rows) < 2 or prod(rows[:-1]) < 2 * target.cores:
        return ()
    operands = [g.value(v) for stage in kernels for v in stage.ops[0].ins if v in node.ins and v in g.ins and not g.value(v).is_constant]
    found = {v.id: v for v in operands if v.shape[:-2] == rows[:-1] and v.strides == dense_strides(v.shape)}
    entry_bytes = sum(v.type.nbytes for v in found.values()) // prod(rows[:-1])
    return tuple(found) if 2 * entry_bytes <= target.l2_bytes else ()


def _with_anchors(g: Graph, stage: Stage, mb: int, target: Target) -> Stage:
    if not spec(stage.ops[0].kind).is_contraction:
        return stage
    wei = g.value(stage.ops[0].ins[1])
    nb = wei.layout.blocks[0][1] if wei.layout.blocks else column_block(product(g, stage.ops[0]), target)
    return replace(stage, anchors=choose_anchors(g, stage.ops, mb, nb, target), nb=nb)
