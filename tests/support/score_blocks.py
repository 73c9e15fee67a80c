"""Attention whose scores are computed some columns at a time, whatever that costs."""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.options import Forced, Options
from benchgraph.gir.nest_cost import kernel_stages, nest_text, product_nest
from benchgraph.machine.target import Target
from benchgraph.partition.ir import Partition
from benchgraph.schedule.space import RowTiling
from tests.support.graph_ir import nests, scheduled


def in_score_blocks(partition: Partition, target: Target, columns: int = 64) -> Partition:
    """Its only attention in tasks of up to 50 rows, and so many columns of scores at a time; 0 for all."""
    g = scheduled(partition, target)
    (node,) = (n for n in nests(g) if len(kernel_stages(n)) == 2)
    nest = product_nest(g, node, target)
    assert nest.is_flash
    schedule = RowTiling(min(50, nest.first.m), columns).schedule(nest)
    return replace(partition, options=Options(forced=(Forced(nest_text(g, node), str(schedule)),)))
