"""schedule: every nest with a tunable op gets its template parameters, every op its anchor.

nest0 { MatMul rows, Add rows }   ->   nest0 mb=64 { MatMul kernel nb=64, Add tile }
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from benchgraph.core.memoise import memoised_within
from benchgraph.gir.anchors import choose_anchors
from benchgraph.gir.column_blocks import columns_per_call, columns_reason, forced_tiling
from benchgraph.gir.elements import scheduled_elements
from benchgraph.gir.flash_attention import FlashAttention
from benchgraph.gir.forced import FORCED
from benchgraph.gir.gemm_nest import stage_nest
from benchgraph.gir.gemv import Gemv, gemv_form, unrolled_columns
from benchgraph.gir.ir import Anchor, FusedOp, Graph, Stage
from benchgraph.gir.nest_cost import (
    flash_of,
    forced_rows,
    kernel_stages,
    next_rows,
    prefetches_panels,
    product_nest,
    schedule_of,
    whole_entries,
)
from benchgraph.gir.on_the_fly_packing import packing_stages
from benchgraph.gir.packed_blocks import packed_block_of, prefetches_source
from benchgraph.gir.packed_task_grid import packed_task_grid
from benchgraph.gir.padding import saves_taps_by_rows
from benchgraph.gir.parameters import Parameters, Reason
from benchgraph.gir.product import product
from benchgraph.gir.windows import scheduled_windows
from benchgraph.machine.table import table
from benchgraph.machine.target import Target
from benchgraph.ops.spec import Reduction
from benchgraph.schedule.choose import choose
from benchgraph.schedule.cost import is_short
from benchgraph.schedule.space import Tiling
from benchgraph.schedule.steps import alone


@dataclass(frozen=True)
class RowBlock:
    """How the rows of a nest become tasks: mb rows each, and why."""

    mb: int
    why: str


def schedule(g: Graph, target: Target) -> Graph:
    nodes = tuple(scheduled_nest(g, n, target) if isinstance(n, FusedOp) else n for n in g.nodes)
    return g if nodes == g.nodes else replace(g, nodes=nodes)


@memoised_within
def scheduled_nest(g: Graph, node: FusedOp, target: Target) -> FusedOp:
    """The nest with its template parameters and anchors."""
    if node.ops[0].lowering.is_window:
        return replace(node, schedules=scheduled_windows(g, node, target))
    if not any(op.lowering.is_contraction for op in node.ops):
        return replace(node, schedules=scheduled_elements(g, node, target))
    kernels = kernel_stages(node)
    if not kernels:
        return node
    stages, columns = _on_grid(g, node, target), 0
    if not stages:
        block, columns = _rows_of_least_cost(g, node, target)
        stages = tuple(_with_parameters(g, node, stage, block, target) for stage in node.stages)
        flash = flash_of(g, node, target)
        if flash is not None and columns:
            stages = tuple(_in_score_blocks(s, flash, columns, block.why) if s.ops == flash.scores.ops else s for s in stages)
    scheduled = replace(node, stages=stages)
    nest = product_nest(g, node, target)
    scheduled = replace(scheduled, is_serial=is_short(nest, schedule_of(nest, scheduled), target))
    if columns:
        return scheduled
    entries = whole_entries(g, node, target) if nest.prefetches(scheduled.mb, target.l2_bytes) else ()
    return replace(scheduled, prefetched_entries=entries, prefetched_rows=next_rows(g, node, target))


def _rows_of_least_cost(g: Graph, node: FusedOp, target: Target) -> tuple[RowBlock, int]:
    """Rows of a task, and columns of scores at a time, 0 for all."""
    nest = product_nest(g, node, target)
    if (forced := forced_rows(g, node, nest, target)) is not None:
        return RowBlock(forced.mb, FORCED), forced.columns
    best = choose(nest, tuple(step.nb for step in nest.steps), target, may_spread=False)
    columns = best.schedule.sizes("n") if len(nest.steps) > 1 else ()
    return RowBlock(best.schedule.sizes("m")[0], best.why), columns[0] if columns else 0


# ---- rows and columns of one product ---------------------------------------------------------------------------------


def _with_parameters(g: Graph, node: FusedOp, stage: Stage, rows: RowBlock, target: Target) -> Stage:
    """A stage with parameters for its product, if it has one, and the anchors that follow."""
    op = stage.ops[0]
    if not op.lowering.is_contraction:
        return stage
    p, nb = product(g, op), columns_per_call(g, op, target)
    *batch, m, n = p.call.outs[0].shape
    if stage.reduces_rows:
        rows = RowBlock(m, "every task adds to all rows")
    k = p.reduced[-1]
    anchors, anchor_why = choose_anchors(g, stage.ops, rows.mb, nb, target)
    makers = packing_stages(node, stage)
    is_prefetched = prefetches_source(g, op, makers, target)
    ks, ns = packed_block_of(g, op, makers, rows.mb, nb, target, is_prefetched=is_prefetched)
    prefetch = is_prefetched if ks else prefetches_panels(g, node, stage, nb, target)
    unrolled = unrolled_columns(m, p.call.ins[1].dtype.nbytes(k), target) if n > 1 and gemv_form(g, op, table(target)) is Gemv.dot else 0
    skips = rows.mb == m and saves_taps_by_rows(g, op, nb, target)
    block_why = f"blocks of {ks} x {ns} stay in cache until they are read" if makers else f"{ks} rows at a time are prefetched best"
    why = {
        "mb": rows.why,
        "nb": FORCED if p.forced is not None else columns_reason(p, nb, target),
        "anchor": anchor_why,
        "ks": block_why if ks else "",
        "prefetch": f"the {'source of the next block' if ks else 'next panel'}, since L2 does not keep all weights" if prefetch else "",
        "skips_padding": "the first and last rows skip taps, which saves more than sums that are read again" if skips else "",
        "unrolled_columns": f"weights are stored by columns, {unrolled} of which are multiplied by {m} rows at a time" if unrolled else "",
    }
    reasons = tuple(Reason(parameter, text) for parameter, text in why.items() if text)
    sizes = prod(batch), m, n, prod(p.reduced), rows.mb, nb, target.cores
    parameters = Parameters(*sizes, ks=ks, ns=ns, prefetch=prefetch, skips_padding=skips, unrolled_columns=unrolled, why=reasons)
    return replace(stage, anchors=anchors, parameters=parameters)


# ---- flash attention -------------------------------------------------------------------------------------------------


def _in_score_blocks(stage: Stage, flash: FlashAttention, columns: int, reason: str) -> Stage:
    """The stage of the scores with its block, and its tile ops on tiles."""
    p = stage.parameters
    assert p is not None
    anchors = (Anchor.kernel, *(Anchor.tile if op in flash.tile_ops else Anchor.rows for op in stage.ops[1:]))
    why = (*p.why, Reason("score_columns", reason))
    return replace(stage, anchors=anchors, parameters=replace(p, score_columns=columns, why=why))


# ---- nests of one product --------------------------------------------------------------------------------------------


def _on_grid(g: Graph, node: FusedOp, target: Target) -> tuple[Stage, ...]:
    """The stages of a nest of one product, whose post-ops all run on its tiles, with the tasks of least cost; none for other nests.

    Other ops may only make src of a product whose wei is packed on the fly.
    """
    *before, last = node.stages
    products = [stage for stage in node.stages if stage.ops[0].lowering.is_contraction]
    if products != [last] or last.reduces_rows or any(isinstance(op.lowering.form, Reduction) for op in node.ops):
        return ()
    p = product(g, last.ops[0])
    forced = forced_tiling(p, target)
    rows = RowBlock(p.call.outs[0].shape[-2], "all") if forced is None else RowBlock(forced.mb, FORCED)
    stages = tuple(_with_parameters(g, node, stage, rows, target) for stage in node.stages)
    stage = stages[-1]
    is_packed = stage.parameters is not None and stage.parameters.ks > 0
    makes_src = all(not s.is_batch_invariant and all(op.lowering.is_elementwise for op in s.ops) for s in before if not s.is_packing)
    if not has_tiled_post_ops(stage) or (before and not (is_packed and makes_src)):
        return ()
    whole = replace(node, stages=stages)
    if forced is not None:
        on_grid = _panels_first(stage, forced.ns, FORCED) if forced.ns else _split(stage, forced.spreads, FORCED)
    else:
        on_grid = _on_packed_grid(g, whole, target) if is_packed else _of_least_cost(g, whole, target)
    return (*stages[:-1], on_grid)


def has_tiled_post_ops(stage: Stage) -> bool:
    return all(a in (Anchor.kernel, Anchor.tile) for a in stage.anchors)


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
    best = choose(alone(stage_nest(g, stage, target)), (chosen.nb,), target, may_spread=chosen.nb < chosen.n)
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
