"""Attention whose scores are computed some columns at a time, whatever that costs."""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.options import Forced, Options
from benchgraph.gir.nest_cost import kernel_stages, product_nest
from benchgraph.gir.product_space import nest_text, product_schedules
from benchgraph.machine.target import Target
from benchgraph.partition.ir import Partition
from tests.support.graph_ir import nests, scheduled


def in_score_blocks(partition: Partition, target: Target, columns: int = 64) -> Partition:
    """Its only attention in tasks of up to 50 rows, and so many columns of scores at a time; 0 for all."""
    g = scheduled(partition, target)
    (node,) = (n for n in nests(g) if len(kernel_stages(n)) == 2)
    nest = product_nest(g, node, target)
    assert nest.is_flash
    schedules = product_schedules(g, node, target)  # those with the most rows first
    schedule = next(s for s in schedules if s.sizes("m")[0] <= 50 and s.sizes("n") == ((columns,) if columns else ()))
    return replace(partition, options=Options(forced=(Forced(nest_text(g, node, target), str(schedule)),)))
