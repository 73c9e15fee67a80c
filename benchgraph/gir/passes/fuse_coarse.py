"""fuse-coarse: consecutive nests over the same rows become one, so that rows stay in cache from one matrix product to the next.

    %2 = nest0 { MatMul ReLU }          %4 = nest0 { MatMul ReLU
    %4 = nest1 { MatMul ReLU }   ->                  MatMul ReLU }      one parallel loop instead of two

Legal when each row of the later nest reads, of the earlier one's results, only the same row. A nest without a tunable op becomes a stage at
the batch anchor of a later nest whose batch entries each read a part of its results (gir/batch_invariants.py): weights that change are
packed, or keys and values dequantised, once per batch entry, or once for all heads that share them. A product that reduces over the rows of
a nest, as the gradients of keys and values do, joins too, if batch entries alone keep the cores busy: every task adds its part.

Then nests of several products are cut where that takes less time (gir/nest_sequence.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from math import prod

from benchgraph.core.memoise import memoised_within
from benchgraph.core.record import is_recorded, note
from benchgraph.core.tensor import Shape
from benchgraph.gir.batch_invariants import Along, batch_axes_of, common_dims, entry_reads, loop_depth
from benchgraph.gir.domain import domain_of, trace
from benchgraph.gir.ir import Anchor, FusedOp, Graph, Op, Stage
from benchgraph.gir.nest_cost import product_rows
from benchgraph.gir.nest_graph import NestGraph, merge_pairs, with_borders
from benchgraph.gir.nest_sequence import cheapest_sequence
from benchgraph.gir.product import K, M, N, k_group, product, transposed_src_axes
from benchgraph.gir.views import Index, root_index, zeroed
from benchgraph.machine.target import Target
from benchgraph.schedule.limits import converted_macs
from benchgraph.schedule.steps import idle_share, occupies_all
from benchgraph.tir.ir import Var

ROW, COLUMN = Var("$row"), Var("$column")
MORE = "a row of the later one needs more than the same row of the earlier one"
MOST_IDLE = 0.05  # share of the cores' time that batch entries may waste where a stage is repeated for each
LEAST_BUSY = 0.75  # share of the cores that batch entries must keep busy where rows cannot be spread over the cores
MOST_REPEATED = 0.25  # share of a nest's multiply-adds that repeating a stage for each batch entry may cost


def fuse_coarse(g: Graph, target: Target) -> Graph:
    nodes = g.nests
    nests = merge_pairs(g, nodes, lambda nests, i, j: _merged(g, nests, i, j, target))
    names = {stage: node.name for node in nodes for stage in node.stages}
    cut = [part for node in nests.nodes for part in _cut(g, node, names, target)]
    for i, j in nests.pairs() if is_recorded() else ():
        merged = _merged(g, nests, i, j, target)
        why = merged if isinstance(merged, str) else "a third nest reads one of them and is read by the other"
        note(nests[i].name, nests[j].name, why=why)
    return g if len(cut) == len(nodes) else replace(g, nodes=tuple(cut if len(cut) == len(nests.order) else with_borders(g, cut)))


def _cut(g: Graph, node: FusedOp, names: Mapping[Stage, str], target: Target) -> list[FusedOp]:
    """The nests that take the least time instead of one."""
    nests, why = cheapest_sequence(g, node, target)
    if len(nests) == 1:
        return [node]
    named = [replace(nest, name=names[nest.stages[0]]) for nest in nests]
    for one, other in pairwise(named):
        note(one.name, other.name, why=why)
    return named


def _merged(g: Graph, nests: NestGraph, i: int, j: int, target: Target) -> FusedOp | str:
    """Nest i and its reader j as one, or why they cannot be."""
    first, second = nests[i], nests[j]
    shared = set(first.outs) & set(second.ins)
    if g.is_init(first):
        return "it is computed once, by init"
    if any(len(nests.makers[v]) > 1 for v in shared):
        return "other nests make other parts of it, and it is read after all of them"
    merged = _by_rows(g, first, second, shared, target)
    if isinstance(merged, FusedOp):
        return merged
    has_one_reader = not nests.is_used_beyond(first.outs, (i, j))
    invariant = _as_batch_invariant(g, first, second, shared, target, has_one_reader=has_one_reader)
    return invariant or _by_reduction(g, first, second, shared, target) or merged


def _as_batch_invariant(
    g: Graph, first: FusedOp, second: FusedOp, shared: set[int], target: Target, *, has_one_reader: bool
) -> FusedOp | None:
    """second with first as a stage at its batch anchor. has_one_reader: no other node reads first's results."""
    rows = product_rows(g, second)
    if prod(rows[:-1]) == 1 or len(first.stages) > 1 or first.row_products:
        return None  # with one batch entry nothing is gained, and pack-on-the-fly may take the stage block by block
    (stage,), batch = first.stages, len(rows) - 1
    reads = list(entry_reads(g, second, shared, batch))
    read_dims = {root: common_dims((r.dims for r in reads if r.root == root and r.dims is not None), batch) for root in shared}
    along = None if any(r.dims is None for r in reads) else batch_axes_of(g, stage, read_dims, batch)
    if along is None:
        return None
    domain = domain_of(g, stage.ops)
    along = tuple(a if a is not None and domain.extents[a] == extent else None for a, extent in zip(along, rows, strict=False))
    deepest = min((len(r.stage.along) for r in reads if r.stage.is_batch_invariant), default=batch)
    depth = _depth(g, second, prod(domain.extents), along[:deepest], rows, target, may_repeat=has_one_reader)
    if depth is None:
        return None
    at_batch = replace(stage, anchors=(Anchor.batch,) * len(stage.ops), along=along[:depth])
    return replace(second, stages=(at_batch, *second.stages))


def _depth(g: Graph, node: FusedOp, elements: int, along: Along, rows: Shape, target: Target, *, may_repeat: bool) -> int | None:
    """Inside how many batch loops a stage that computes so many elements runs: the least that keep the cores busy, at no high cost. A stage
    that would be repeated for each batch entry stays a nest of its own where the entries would leave a core idle for long."""
    macs = sum(g.value(op.outs[0]).type.elements * prod(product(g, op).reduced) for op in node.ops if op.lowering.is_contraction)
    entries_of_stage = prod(rows[loop] for loop, axis in enumerate(along) if axis is not None)
    for depth in range(loop_depth(along), len(along) + 1) if elements > 1 else (len(along),):
        entries = prod(rows[:depth])
        repeated = elements * (entries // entries_of_stage - 1)
        is_busy = idle_share(entries, target) <= MOST_IDLE if repeated else _keep_busy(entries, target)
        is_cheap = may_repeat and converted_macs(repeated, target) <= MOST_REPEATED * macs
        if is_busy and (not repeated or is_cheap):
            return depth
    return None


def _keep_busy(entries: int, target: Target) -> bool:
    return idle_share(entries, target) <= 1 - LEAST_BUSY


def _by_rows(g: Graph, first: FusedOp, second: FusedOp, shared: set[int], target: Target) -> FusedOp | str:
    """The stages of first, then those of second, on the same rows; or why not."""
    if not any(op.lowering.is_contraction for op in (*first.ops, *second.ops)):
        return "neither holds a product"
    rows, other = _rows(g, first), _rows(g, second)
    if rows is None or other is None:
        return "one of them does not iterate over whole rows"
    if rows != other:
        return "one has {} rows, the other {}".format(*(" x ".join(map(str, extents)) for extents in (rows, other)))
    if not occupies_all(prod(rows), target):
        return f"{prod(rows)} rows are fewer than cores"
    if _written(g, [stage for stage in first.stages if stage.reduces_rows]) & shared:
        return "the sums over all rows of one are not finished while the other works on some of them"
    if _written(g, [stage for stage in first.stages if stage.is_batch_invariant]) & shared:
        return MORE
    in_place = {v for stage in first.stages for op in stage.ops if op is stage.ops[0] or not op.lowering.is_layout_op for v in op.outs}
    if not shared <= in_place or not all(_reads_by_row(g, stage, op, shared, rows) for stage in second.stages for op in stage.ops):
        return MORE
    return replace(first, stages=first.stages + second.stages)


def _written(g: Graph, stages: Iterable[Stage]) -> set[int]:
    """The buffers that these stages write."""
    return {g.root(v) for stage in stages for op in stage.ops for v in op.outs}


def _rows(g: Graph, node: FusedOp) -> Shape | None:
    """The extents of the nest's row axes, None when it has none or its stages differ."""
    rows = {_rows_of(g, stage.ops) for stage in node.stages if stage.is_per_task}
    return rows.pop() if len(rows) == 1 else None


@memoised_within
def _rows_of(g: Graph, ops: tuple[Op, ...]) -> Shape | None:
    """The extents of a stage's row axes, None when it has no such form."""
    domain = trace(g, ops)
    if domain is None or not domain.has_whole_rows or len(domain.extents) < 2 or not domain.reduced <= {len(domain.extents) - 1}:
        return None
    return domain.extents[:-1]


def _reads_by_row(g: Graph, stage: Stage, op: Op, shared: set[int], rows: Shape) -> bool:
    """Each row of op's result needs only the same row of the shared values."""
    for port, v in enumerate(op.ins):
        if g.root(v) not in shared:
            continue
        value = g.value(v)
        needs_more = op.lowering.is_layout_op or (op.lowering.is_contraction and (port == 1 or not product(g, op).is_row_wise))
        if stage.is_batch_invariant or value.view is not None or value.shape[:-1] != rows or needs_more:
            return False
    return True


def _by_reduction(g: Graph, first: FusedOp, second: FusedOp, shared: set[int], target: Target) -> FusedOp | None:
    """first with the product of second, which reduces over its rows, as a stage to which every task adds."""
    rows = _rows(g, first)
    stages = [stage for stage in second.stages if not stage.is_batch_invariant]
    if rows is None or rows != product_rows(g, first) or len(stages) != 1 or stages[0].reduces_rows:
        return None
    (stage,) = stages
    kernel = stage.ops[0]
    if not stage.is_product or not _keep_busy(prod(rows[:-1]), target):
        return None
    if k_group(g, kernel) > 1 and transposed_src_axes(g, kernel) is None:
        return None
    if not shared <= _written(g, [stage for stage in first.stages if stage.is_per_task]):
        return None
    readers = [(op, port) for op in second.ops for port, v in enumerate(op.ins) if g.root(v) in shared]
    if any(op is not kernel or not _reduces_rows_of(g, first, kernel, port, rows) for op, port in readers):
        return None
    p = product(g, kernel)
    steps_evenly = rows[-1] == 1 or all(K in index for index in p.operands)
    if p.batch or p.call.outs[0].shape[:-2] != rows[:-1] or p.reduced[-1] != rows[-1] or not steps_evenly:
        return None
    before = tuple(s for s in second.stages if s.is_batch_invariant)
    return replace(first, stages=(*before, *first.stages, replace(stage, reduces_rows=True)))


def _reduces_rows_of(g: Graph, first: FusedOp, kernel: Op, port: int, rows: Shape) -> bool:
    """Whether the product reduces, batch entry by batch entry, over the rows of first that write this operand."""
    v = kernel.ins[port]
    axes = {K: ROW, (M, N)[port]: COLUMN}
    read = tuple(axes.get(e, e) if isinstance(e, Var) else e for e in root_index(g, v, product(g, kernel).operands[port]))
    makers = [w for op in first.ops for w in op.outs if g.root(w) == g.root(v)]
    return g.value(g.root(v)).layout.is_plain and all(_write_index(g, w, rows) == read for w in makers)


def _write_index(g: Graph, id: int, rows: Shape) -> Index | None:
    """The index at which a nest over these rows writes a value's element of a row and a column."""
    shape = g.value(id).shape
    at = (*(Var(f"$b{i}") for i in range(len(rows) - 1)), ROW, COLUMN)
    if shape[:-1] != rows:
        return None
    return root_index(g, id, zeroed(shape, at))
