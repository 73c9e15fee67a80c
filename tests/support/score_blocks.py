"""Attention whose scores are computed some columns at a time, whatever that costs."""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.options import Forced, Options
from benchgraph.gir.product_space import product_space
from benchgraph.machine.target import Target
from benchgraph.partition.ir import Partition
from tests.support.graph_ir import nests, scheduled


def in_score_blocks(partition: Partition, target: Target, columns: int = 64) -> Partition:
    """Its only attention in tasks of up to 50 rows, and so many columns of scores at a time; 0 for all."""
    g = scheduled(partition, target)
    (node,) = (n for n in nests(g) if len(n.row_products) == 2)
    space = product_space(g, node, target)
    assert space.nest.is_flash
    schedules = space.schedules(target)  # those with the most rows first
    schedule = next(s for s in schedules if s.sizes("m")[0] <= 50 and s.sizes("n") == ((columns,) if columns else ()))
    return replace(partition, options=Options(forced=(Forced(space.text, str(schedule)),)))
