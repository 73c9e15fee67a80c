"""schedule: every nest with a tunable op gets its template parameters, every op its anchor.

nest0 { MatMul rows, Add rows }   ->   nest0 mb=64 { MatMul kernel nb=64, Add tile }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, lcm, prod

from benchgraph.core.memoise import memoised_within
from benchgraph.core.tensor import Shape, dense_strides
from benchgraph.gir.anchors import choose_anchors
from benchgraph.gir.column_blocks import columns_per_call, columns_reason
from benchgraph.gir.flash_attention import FlashAttention, flash_attention
from benchgraph.gir.gemm_nest import stage_nest
from benchgraph.gir.gemv import Gemv, gemv_form, unrolled_columns
from benchgraph.gir.ir import Anchor, FusedOp, Graph, Stage
from benchgraph.gir.layouts import F32_BYTES
from benchgraph.gir.nest_cost import nests_ns
from benchgraph.gir.on_the_fly_packing import packing_stages
from benchgraph.gir.packed_blocks import packed_block_of, prefetches_source
from benchgraph.gir.packed_task_grid import packed_task_grid
from benchgraph.gir.parameters import Parameters, Reason
from benchgraph.gir.product import k_group, product, weights_bytes
from benchgraph.gir.row_blocks import RowBlock, ScoreBlock, live_columns, rows_per_task, score_block, wait_for_weights
from benchgraph.gir.windows import scheduled_windows
from benchgraph.machine.table import rates, table
from benchgraph.machine.target import Target
from benchgraph.ops.spec import Reduction
from benchgraph.schedule.choose import choose
from benchgraph.schedule.cost import HELD
from benchgraph.schedule.space import Tiling

TOLERANCE = 0.07  # costs that differ by less are equal, as far as they can be trusted: fewer nests are then taken
FORCED = "given by the options or the tuning file"


def schedule(g: Graph, target: Target) -> Graph:
    nodes = tuple(scheduled_nest(g, n, target) if isinstance(n, FusedOp) else n for n in g.nodes)
    return g if nodes == g.nodes else replace(g, nodes=nodes)


@memoised_within
def scheduled_nest(g: Graph, node: FusedOp, target: Target) -> FusedOp:
    """The nest with its template parameters and anchors."""
    kernels = [stage for stage in node.stages if stage.ops[0].lowering.is_contraction and not stage.reduces_rows]
    reduces_rows = any(stage.reduces_rows for stage in node.stages)
    if node.ops[0].lowering.is_window:
        return replace(node, windows=scheduled_windows(g, node, target))
    if not kernels:
        return node
    products = [stage.ops[0] for stage in kernels]
    rows = g.value(products[0].outs[0]).shape[:-1]
    works_on_rows = any(isinstance(op.lowering.form, Reduction) for op in node.ops)
    alone = product(g, products[0]) if len(kernels) == 1 and not reduces_rows else None
    forced = None if alone is None else alone.forced
    flash = flash_attention(g, node, table(target))
    scores = None if flash is None else _score_block(g, flash, rows, target)
    columns = live_columns(g, products) if scores is None else scores.live_columns
    works, waits = works_on_rows and not reduces_rows, wait_for_weights(g, products, target)
    block = rows_per_task(prod(rows[:-1]), rows[-1], columns, target, works_on_rows=works, waits=waits)
    block = _in_whole_groups(g, node, block, rows[-1]) if forced is None else RowBlock(forced.mb, FORCED)
    stages = [_with_parameters(g, node, stage, block, target) for stage in node.stages]
    if flash is not None and scores is not None:
        stages = [_in_score_blocks(s, flash, scores) if s.ops == flash.scores.ops else s for s in stages]
    if _fits_grid(stages):
        stages = [*stages[:-1], _on_grid(g, replace(node, stages=tuple(stages)), forced, target)]
    scheduled = replace(node, stages=tuple(stages))
    return scheduled if scores is not None else _prefetching(g, scheduled, kernels, rows, columns, target)


def slower_than_apart(g: Graph, one: FusedOp, apart: Sequence[FusedOp], target: Target) -> str:
    """Why these nests, each with its own schedule, take less time than one nest of all their ops; '' where they do not."""
    if weights_bytes(g, one.ops) <= HELD * target.l2_bytes:
        return ""  # tasks fetch nothing anew
    as_one, in_sequence = (nests_ns(g, [scheduled_nest(g, node, target) for node in nodes], target) for nodes in ([one], apart))
    saved = as_one - in_sequence
    if saved <= max(TOLERANCE * as_one, rates(target).overheads.fork_join_ns):  # less than threads may wait at one more border
        return ""
    return f"as one nest they would take {as_one / 1e3:.3g} us, apart they take {in_sequence / 1e3:.3g}"


# ---- rows and columns of one product ---------------------------------------------------------------------------------


def _in_whole_groups(g: Graph, node: FusedOp, block: RowBlock, m: int) -> RowBlock:
    """The rows of a task, rounded up to whole groups of k of the products that reduce over them."""
    group = lcm(*(k_group(g, stage.ops[0]) for stage in node.stages if stage.reduces_rows))
    mb = min(ceil(block.mb / group) * group, m)
    return block if mb == block.mb else RowBlock(mb, f"{block.why}; in whole groups of {group}, which reductions over rows take at a time")


def _with_parameters(g: Graph, node: FusedOp, stage: Stage, rows: RowBlock, target: Target) -> Stage:
    """A stage with parameters for its product, if it has one, and the anchors that follow."""
    op = stage.ops[0]
    if not op.lowering.is_contraction:
        return stage
    p, src, nb = product(g, op), g.value(op.ins[0]), columns_per_call(g, op, target)
    *batch, m, n = p.call.outs[0].shape
    if stage.reduces_rows:
        rows = RowBlock(m, "every task adds to all rows")
    k = p.reduced[-1]
    kb = src.layout.blocks[0][1] if src.layout.blocks else k
    anchors, anchor_why = choose_anchors(g, stage.ops, rows.mb, nb, target)
    makers = packing_stages(node, stage)
    is_prefetched = prefetches_source(g, op, makers, target)
    ks, ns = packed_block_of(g, op, makers, rows.mb, nb, kb, target, is_prefetched=is_prefetched)
    prefetch = is_prefetched if ks else _prefetches_panels(g, node, stage, nb, target)
    unrolled = unrolled_columns(m, p.call.ins[1].dtype.nbytes(k), target) if n > 1 and gemv_form(g, op, table(target)) is Gemv.dot else 0
    block_why = f"blocks of {ks} x {ns} stay in cache until they are read" if makers else f"{ks} rows at a time are prefetched best"
    why = {
        "mb": rows.why,
        "nb": FORCED if p.forced is not None else columns_reason(p, nb, target),
        "kb": "src is row-major" if kb == k else "src is stored in the column blocks of the product before",
        "anchor": anchor_why,
        "ks": block_why if ks else "",
        "prefetch": f"the {'source of the next block' if ks else 'next panel'}, since L2 does not keep all weights" if prefetch else "",
        "unrolled_columns": f"weights are stored by columns, {unrolled} of which are multiplied by {m} rows at a time" if unrolled else "",
    }
    reasons = tuple(Reason(parameter, text) for parameter, text in why.items() if text)
    sizes = prod(batch), m, n, prod(p.reduced), rows.mb, nb, kb, target.cores
    parameters = Parameters(*sizes, ks=ks, ns=ns, prefetch=prefetch, unrolled_columns=unrolled, why=reasons)
    return replace(stage, anchors=anchors, parameters=parameters)


def _prefetches_panels(g: Graph, node: FusedOp, stage: Stage, nb: int, target: Target) -> bool:
    """Whether calls prefetch the next packed panel, if they last long enough: from beyond L2. Not in init, which has just packed it."""
    wei = g.value(stage.ops[0].ins[1])
    is_packed = wei.is_constant and bool(wei.layout.blocks) and not g.value(stage.ops[0].outs[0]).is_constant
    return is_packed and wei.shape[-1] > nb and weights_bytes(g, node.ops) > target.l2_bytes


# ---- flash attention -------------------------------------------------------------------------------------------------


def _score_block(g: Graph, flash: FlashAttention, rows: Shape, target: Target) -> ScoreBlock | None:
    """The columns of scores to compute at a time, None for whole rows."""
    scores, values = (product(g, stage.ops[0]) for stage in (flash.scores, flash.values))
    heads = scores.reduced[-1] + values.columns
    block_rows, keys = min(rows[-1], table(target).rows_between_products), values.reduced[-1]
    is_masked = flash.mask is not None and 2 * rows[-1] >= keys
    return score_block(block_rows, keys, heads, columns_per_call(g, flash.scores.ops[0], target), target, is_masked=is_masked)


def _in_score_blocks(stage: Stage, flash: FlashAttention, block: ScoreBlock) -> Stage:
    """The stage of the scores with its block, and its tile ops on tiles."""
    p = stage.parameters
    assert p is not None
    anchors = (Anchor.kernel, *(Anchor.tile if op in flash.tile_ops else Anchor.rows for op in stage.ops[1:]))
    why = (*p.why, Reason("score_columns", block.why))
    return replace(stage, anchors=anchors, parameters=replace(p, score_columns=block.columns, why=why))


# ---- nests of one product --------------------------------------------------------------------------------------------


def _fits_grid(stages: list[Stage]) -> bool:
    """Whether no op but those that make src of a product, whose wei is packed on the fly, needs whole rows."""
    *before, last = stages
    if last.parameters is None or last.parameters.ks == 0:
        return not before and has_tiled_post_ops(last)
    makes_src = (not s.is_batch_invariant and all(op.lowering.is_elementwise for op in s.ops) for s in before if not s.is_packing)
    return has_tiled_post_ops(last) and all(makes_src)


def has_tiled_post_ops(stage: Stage) -> bool:
    return all(a in (Anchor.kernel, Anchor.tile) for a in stage.anchors)


def _on_grid(g: Graph, node: FusedOp, forced: Tiling | None, target: Target) -> Stage:
    """The last stage, the nest's only product, whose post-ops all run on its tiles, with the tasks of least cost."""
    stage = node.stages[-1]
    chosen = stage.parameters
    assert chosen is not None
    if forced is not None:
        return _panels_first(stage, forced.ns, FORCED) if forced.ns else _split(stage, forced.spreads, FORCED)
    on_grid = _on_packed_grid(g, node, target) if chosen.ks else _of_least_cost(g, node, target)
    if has_tiled_post_ops(on_grid):
        return on_grid
    return _split(stage, chosen.tasks < chosen.cores, "there are fewer blocks of rows than cores")


def _on_packed_grid(g: Graph, node: FusedOp, target: Target) -> Stage:
    """The last stage, which packs blocks of weights, or has them packed."""
    stage = node.stages[-1]
    chosen = stage.parameters
    assert chosen is not None
    makes_rows = any(not s.is_packing for s in node.stages[:-1])
    grid = packed_task_grid(chosen.m, chosen.n, chosen.ns, target, makes_rows=makes_rows)
    columns = "one block of weights" if grid.split_n else "all columns"
    why = f"with tasks of {grid.mb} rows and {columns} the busiest core has least work"
    on_grid = _with_parameters(g, node, stage, RowBlock(grid.mb, why), target)
    return _split(on_grid, grid.split_n, "each core then packs a part of the weights only")


def _of_least_cost(g: Graph, node: FusedOp, target: Target) -> Stage:
    """The last stage with the schedule of least cost for calls of its columns."""
    stage = node.stages[-1]
    chosen = stage.parameters
    assert chosen is not None
    best = choose(stage_nest(g, stage, target), (chosen.nb,), target, may_spread=chosen.nb < chosen.n)
    tiling = Tiling.of(best.schedule)
    on_grid = _with_parameters(g, node, stage, RowBlock(tiling.mb, best.why), target)
    if tiling.ns:
        return _panels_first(on_grid, tiling.ns, "all rows use some panels of weights while L2 holds them")
    return _split(on_grid, tiling.spreads, "each core then reads a part of the weights only")


def _panels_first(stage: Stage, ns: int, why: str) -> Stage:
    """The stage with tasks of so many columns, those of all rows with the first ones before the next."""
    p = stage.parameters
    assert p is not None
    return replace(stage, parameters=replace(p, split_n=True, panels_first=True, ns=ns, why=(*p.why, Reason("panels_first", why))))


def _split(stage: Stage, is_split: bool, why: str) -> Stage:
    p = stage.parameters
    assert p is not None
    return replace(stage, parameters=replace(p, split_n=True, why=(*p.why, Reason("split_n", why)))) if is_split else stage


# ---- prefetch of batch entries and rows ------------------------------------------------------------------------------


def _prefetching(g: Graph, node: FusedOp, kernels: list[Stage], rows: Shape, columns: int, target: Target) -> FusedOp:
    """The node with the inputs to prefetch: of those dense per batch entry, what the next entry reads as a whole and what the next task
    reads by rows.

    Microkernel calls prefetch them, a line per few steps of K, if two entries' part and a task's rows (so many f32 columns) fit into L2.
    What post-ops read by rows is prefetched where L2 does not keep it. docs/measurements/prefetch.md, The next batch entry and the next
    rows.
    """
    if len(rows) < 2 or prod(rows[:-1]) < 2 * target.cores:
        return node
    per_entry = (op for stage in node.stages if stage.is_batch_invariant for op in stage.ops)
    whole = {g.root(v) for op in per_entry for v in op.ins} | {g.root(v) for stage in kernels for v in stage.ops[0].ins[1:]}
    by_row = {stage.ops[0].ins[0] for stage in kernels}
    others = {v for stage in node.stages if not (stage.is_batch_invariant or stage.reduces_rows) for op in stage.ops for v in op.ins}
    by_row |= {v for v in others if g.value(v).type.nbytes > target.l2_bytes}
    dense = [v for v in map(g.value, g.ins) if not v.is_constant and v.shape[:-2] == rows[:-1] and v.strides == dense_strides(v.shape)]
    entry = [v for v in dense if v.id in whole]
    task_bytes = F32_BYTES * columns * node.mb
    fits = 2 * sum(v.type.nbytes for v in entry) // prod(rows[:-1]) + task_bytes <= target.l2_bytes
    next_rows = tuple(v.id for v in dense if v.id in by_row - whole and v.shape[:-1] == rows)
    return replace(node, prefetched_entries=tuple(v.id for v in entry) if fits else (), prefetched_rows=next_rows)
