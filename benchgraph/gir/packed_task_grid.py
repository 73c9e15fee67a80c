"""Rows and columns of the only product of a nest as tasks, where each task packs the blocks of weights that it reads."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from benchgraph.core.divisors import block_sizes
from benchgraph.gir.load_balance import most_panels_per_core
from benchgraph.machine.table import table
from benchgraph.machine.target import Target


@dataclass(frozen=True)
class TaskGrid:
    """mb: rows of a task. split_n: each block of columns is a task. cost: of the busiest core, in rows times vectors of columns."""

    mb: int
    split_n: bool
    cost: int


def packed_task_grid(m: int, n: int, ns: int, target: Target, *, makes_rows: bool = False) -> TaskGrid:
    """The grid with the least work for the busiest core, with blocks of ns columns.

    makes_rows: a task computes its rows of src too, before its first block; blocks are tasks then only where all rows are one block.
    """
    vectors, width = (ceil(columns / target.lanes) for columns in (n, ns))
    packing, most = table(target).rows_per_packed_block, table(target).packed_task_rows
    grids = (
        TaskGrid(mb, split, (mb + packing) * most_panels_per_core(ceil(m / mb), vectors, width if split else vectors, target.cores))
        for mb in block_sizes(m)
        if mb <= most
        for split in ((False,) if makes_rows and mb < m else (False, True))
    )
    return min(grids, key=lambda g: g.cost)
