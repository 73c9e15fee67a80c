"""The schedule of a nest, as parameters of its products, anchors of its ops, or data.

A nest is made (nest_cost.py, elements.py, windows.py), its schedule chosen, and what that says given to the fused op.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from benchgraph.core.memoise import memoised_within
from benchgraph.core.options import Forced
from benchgraph.gir.anchors import choose_anchors
from benchgraph.gir.column_blocks import columns_per_call, columns_reason
from benchgraph.gir.elements import instructions_of, rows_nest, scheduled_elements
from benchgraph.gir.flash_attention import FlashAttention, flash_attention
from benchgraph.gir.gemm_nest import gemm_nest
from benchgraph.gir.gemv import Gemv, dot_nest, gemv_form
from benchgraph.gir.ir import Anchor, FusedOp, Graph, Stage
from benchgraph.gir.nest_cost import next_rows, prefetches_panels, product_nest, whole_entries
from benchgraph.gir.on_the_fly_packing import packing_stages
from benchgraph.gir.packed_blocks import stage_nest
from benchgraph.gir.padding import saves_taps_by_rows
from benchgraph.gir.parameters import Parameters, Reason
from benchgraph.gir.product import product
from benchgraph.gir.product_space import product_space, scheduled_columns
from benchgraph.gir.windows import scheduled_windows
from benchgraph.machine.target import Target
from benchgraph.schedule.choose import choose
from benchgraph.schedule.cost import Costs, is_short, sequence_ns
from benchgraph.schedule.elements_cost import rows_together
from benchgraph.schedule.limits import stream_bytes
from benchgraph.schedule.microkernel import wei_ahead
from benchgraph.schedule.primitives import NO_JAM, Order, Parallel, Schedule, UnrollJam
from benchgraph.schedule.run import Run
from benchgraph.schedule.space import Tiling
from benchgraph.schedule.steps import alone
from benchgraph.schedule.tuning import forced_or_chosen


@memoised_within
def scheduled_nest(g: Graph, node: FusedOp, target: Target) -> FusedOp:
    """The nest with its template parameters and anchors."""
    if node.ops[0].lowering.is_window:
        return replace(node, schedule=scheduled_windows(g, node, target))
    if not any(op.lowering.is_contraction for op in node.ops):
        return scheduled_elements(g, node, target)
    if not node.row_products:
        return node
    chosen = _chosen(g, node, target)
    stages = tuple(_with_parameters(g, node, stage, chosen, target) for stage in node.stages)
    flash = flash_attention(g, node) if chosen.score_columns else None
    if flash is not None:
        stages = tuple(_in_score_blocks(s, flash, chosen) if s.ops == flash.scores.ops else s for s in stages)
    return replace(node, stages=stages)


def executed_nest(g: Graph, node: FusedOp, target: Target) -> FusedOp:
    """The scheduled nest, with the threads that run it, rows that go together and what is prefetched, by which sequences of nests do not
    differ."""
    scheduled = scheduled_nest(g, node, target)
    if (p := scheduled.parameters) is None:
        return scheduled
    nest, instructions = product_nest(g, node, target), sum(instructions_of(g, op) for op in node.ops if not op.lowering.is_contraction)
    stages = tuple(replace(stage, jam=_rows_together(g, scheduled, stage, target)) for stage in scheduled.stages)
    is_serial = is_short(nest, product_schedule(g, node, target), instructions, target)
    scheduled = replace(scheduled, stages=stages, is_serial=is_serial)
    if p.score_columns:
        return scheduled
    entries = whole_entries(g, node, target) if nest.prefetches(p.mb, target) else ()
    return replace(scheduled, prefetched_entries=entries, prefetched_rows=next_rows(g, node, target))


def product_schedule(g: Graph, node: FusedOp, target: Target) -> Schedule:
    """What a nest of products has, forced or of least cost."""
    return _chosen(g, node, target).schedule


def nests_ns(g: Graph, nodes: Sequence[FusedOp], target: Target) -> float:
    """Nanoseconds of these nests in order, each with its schedule of least cost."""
    return sequence_ns([_run(g.untuned, node, target) for node in nodes], target)


@memoised_within
def _run(g: Graph, node: FusedOp, target: Target) -> Run:
    nest = product_nest(g, node, target)
    if not nest.steps:
        return Costs(nest, target).run(Schedule((Order(("m",)), Parallel(("m",)))))
    chosen = _chosen(g, node, target)
    if chosen.tiling is not None and chosen.tiling.panels_first:
        nest = replace(nest, steps=tuple(replace(step, waits=False) for step in nest.steps))
    return Costs(nest, target).run(chosen.schedule)


# ---- the schedule of a nest ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Chosen:
    """The schedule of a nest of products, and why. tiling: of the only product, all that it says. forced: what tuning prescribes."""

    schedule: Schedule
    why: str
    tiling: Tiling | None
    forced: Forced | None

    @property
    def mb(self) -> int:
        """Rows of a task."""
        return self.schedule.sizes("m")[0]

    @property
    def score_columns(self) -> int:
        """Of scores at a time, 0 for all."""
        return next(iter(self.schedule.sizes("n")), 0) if self.tiling is None else 0


@memoised_within
def _chosen(g: Graph, node: FusedOp, target: Target) -> _Chosen:
    found = product_space(g, node, target)
    is_one = len(found.nest.steps) == 1
    least = partial(choose, found.nest, (_columns(g, node, target),) if is_one else (), target, may_spread=found.may_spread)
    schedule, why = forced_or_chosen(g.forced_by_nest, found.text, found.schedules(target), least)
    return _Chosen(schedule, why, Tiling.of(schedule) if is_one else None, g.forced_by_nest.get(found.text))


def _columns(g: Graph, node: FusedOp, target: Target) -> int:
    """Of a call of the only product."""
    op = node.row_products[0].ops[0]
    is_packed = bool(g.value(op.ins[1]).layout.blocks)
    return columns_per_call(g, op, target) if is_packed else scheduled_columns(g, node, target)


# ---- parameters ------------------------------------------------------------------------------------------------------


def _with_parameters(g: Graph, node: FusedOp, stage: Stage, chosen: _Chosen, target: Target) -> Stage:
    """A stage with parameters for its product, if it has one, and the anchors that follow."""
    if not stage.is_product:
        return stage
    op = stage.ops[0]
    p, tiling, has_makers = product(g, op), _tiling(g, node, stage, chosen, target), bool(packing_stages(node, stage))
    (*batch, m, n), k = p.call.outs[0].shape, p.reduced[-1]
    mb, nb, ks, is_first = tiling.mb, tiling.nb, tiling.ks, tiling.panels_first
    anchors, anchor_why = choose_anchors(g, stage.ops, mb, target)
    prefetch = tiling.fetches if ks else prefetches_panels(g, node, stage, nb, target)
    unrolled = stage_nest(g, node, stage, target).kernel.dots if n > 1 and gemv_form(g, op) is Gemv.dot else 0
    kernel = replace(gemm_nest(p, target).kernel, k=ks or (chosen.mb if stage.reduces_rows else k))
    ahead = wei_ahead(kernel, p.call.ins[1].dtype, nb, target) if gemv_form(g, op) is None else 0
    skips = mb == m and saves_taps_by_rows(g, op, nb, target)
    is_spread = tiling.spreads and not is_first
    why = {
        "mb": "every task adds to all rows" if stage.reduces_rows else chosen.why,
        "nb": chosen.forced.why if chosen.forced else columns_reason(p, nb, target),
        "anchor": anchor_why,
        "ks": f"blocks of {ks} x {tiling.ns} are {'made' if has_makers else 'read'} at a time" if ks else "",
        "prefetch": f"the {'source of the next block' if ks else 'next panel'}, since L2 does not keep all weights" if prefetch else "",
        "wei_ahead": "L1 does not keep weights from one tile of rows to the next" if ahead else "",
        "skips_padding": "the first and last rows skip taps, which saves more than sums that are read again" if skips else "",
        "unrolled_columns": f"weights are stored by columns, {unrolled} of which are multiplied by {m} rows at a time" if unrolled else "",
        "panels_first": "all rows use some panels of weights while L2 holds them" if is_first else "",
        "split_n": f"each core then {'packs' if has_makers else 'reads'} a part of the weights only" if is_spread else "",
    }
    reasons = tuple(Reason(parameter, text) for parameter, text in why.items() if text)
    parameters = Parameters(
        prod(batch),
        m,
        n,
        prod(p.reduced),
        mb,
        nb,
        target.cores,
        split_n=tiling.spreads or is_first,
        panels_first=is_first,
        ks=ks,
        ns=tiling.ns,
        prefetch=prefetch,
        skips_padding=skips,
        unrolled_columns=unrolled,
        stream_bytes=stream_bytes(target) if unrolled else 0,
        wei_ahead=ahead,
        why=reasons,
    )
    return replace(stage, anchors=anchors, parameters=parameters)


def _tiling(g: Graph, node: FusedOp, stage: Stage, chosen: _Chosen, target: Target) -> Tiling:
    """Of the only product what the nest's schedule says; of others the rows of a task, with calls as wide as the panels of their weights,
    and blocks of least cost if they read their weights in such."""
    nb = columns_per_call(g, stage.ops[0], target)
    if stage.reduces_rows:
        return Tiling(g.value(stage.ops[0].outs[0]).shape[-2], nb)
    if (given := chosen.tiling) is not None:
        is_in_place = given.ks > 0 and not packing_stages(node, stage)  # whose calls have all columns of a block, and post-ops fewer
        return replace(given, nb=nb) if is_in_place and given.ns % nb == 0 else given
    gemm = stage_nest(g, node, stage, target)
    if gemm.blocks is None:
        return Tiling(chosen.mb, nb)
    return replace(Tiling.of(choose(alone(gemm), (nb,), target, may_spread=False, rows=(chosen.mb,)).schedule), nb=nb)


def _rows_together(g: Graph, node: FusedOp, stage: Stage, target: Target) -> UnrollJam:
    """How many rows of a scheduled nest a stage reduces together."""
    nest = rows_nest(g, node, stage) or dot_nest(g, stage.ops[0])
    return NO_JAM if nest is None else rows_together(nest, target)


def _in_score_blocks(stage: Stage, flash: FlashAttention, chosen: _Chosen) -> Stage:
    """The stage of the scores with its block, and its tile ops on tiles."""
    p = stage.parameters
    assert p is not None
    anchors = (Anchor.kernel, *(Anchor.tile if op in flash.tile_ops else Anchor.rows for op in stage.ops[1:]))
    why = (*p.why, Reason("score_columns", chosen.why))
    return replace(stage, anchors=anchors, parameters=replace(p, score_columns=chosen.score_columns, why=why))
