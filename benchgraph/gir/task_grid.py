"""Rows and columns of the only product of a nest as tasks: the grid with the least data movement, MPN x NPN in the Graph Compiler paper's
words.

With tasks of whole rows every core reads all weights; with tasks of single panels each reads a part of them, but all rows of src. Tasks are
ordered by blocks of rows, and by panels within them; a core whose share is less than all panels of a block of rows reads that block of src
once, and each of its panels once. Measurements: docs/measurements/task-grid.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from benchgraph.gir.anchors import byte_cost
from benchgraph.gir.column_blocks import ROWS_OF_2X2_TILES
from benchgraph.gir.layouts import F32_BYTES
from benchgraph.gir.load_balance import MOST_IDLE, idle_share, idle_share_of_groups, most_panels_per_core
from benchgraph.gir.product import Product
from benchgraph.gir.row_blocks import RowBlock
from benchgraph.gir.search_space import row_blocks
from benchgraph.machine.table import table
from benchgraph.machine.target import Target

TOLERANCE = 0.05  # costs that differ by less are equal: the grid with the most rows per microkernel call is then taken


@dataclass(frozen=True)
class TaskGrid:
    """mb: rows of a task. split_n: each panel is a task. cost: of one core, in weighted bytes (anchors.py) or rows times vectors."""

    mb: int
    split_n: bool
    cost: float


def split_rows_of_short_sums(p: Product, block: RowBlock, target: Target) -> RowBlock:
    """The rows of a task of a product that is alone in its nest, split evenly if its sums have few terms: the prefetcher of a core that
    writes a tall block fetches the rows below from the core that writes those (docs/measurements/task-grid.md)."""
    most = table(target).rows_of_short_sums
    if not p.is_row_wise or prod(p.reduced) > table(target).short_sum_terms or block.mb <= most:
        return block
    return RowBlock(ceil(block.mb / ceil(block.mb / most)), f"{block.why}; cut since sums have {prod(p.reduced)} terms only")


def task_grid(p: Product, nb: int, usual: int, target: Target) -> TaskGrid | None:
    """The cheapest balanced grid of a product with one matrix of weights; None when whole rows in blocks of `usual` are as good."""
    *batch, m, n = p.call.outs[0].shape
    entries = prod(batch)
    in_2x2_tiles = target.in_tiles(p.call.ins[0].dtype) and m >= ROWS_OF_2X2_TILES
    grids = [
        TaskGrid(mb, split, _cost(p, mb, nb, target))
        for mb in row_blocks(m)
        if not (in_2x2_tiles and mb % ROWS_OF_2X2_TILES and mb < m)
        if (split := _split(entries * ceil(m / mb), n, nb, target)) is not None
    ]
    least = min((g.cost for g in grids), default=0.0)
    fits_2x2_tiles = not (in_2x2_tiles and usual < ROWS_OF_2X2_TILES and grids)
    is_balanced = idle_share(entries * ceil(m / usual), target.cores) <= MOST_IDLE
    if fits_2x2_tiles and is_balanced and _cost(p, usual, nb, target) <= (1 + TOLERANCE) * least:
        return None
    return max((g for g in grids if g.cost <= (1 + TOLERANCE) * least), key=lambda g: g.mb, default=None)


def packed_task_grid(m: int, n: int, ns: int, target: Target, *, makes_rows: bool = False) -> TaskGrid:
    """The grid with the least work for the busiest core, where each task packs the blocks of weights, of ns columns, that it reads.

    makes_rows: a task computes its rows of src too, before its first block; blocks are tasks then only where all rows are one block. Cost
    is rows times vectors of columns.
    """
    vectors, width = (ceil(columns / target.lanes) for columns in (n, ns))
    packing, most = table(target).rows_per_packed_block, table(target).packed_task_rows
    grids = (
        TaskGrid(mb, split, (mb + packing) * most_panels_per_core(ceil(m / mb), vectors, width if split else vectors, target.cores))
        for mb in row_blocks(m)
        if mb <= most
        for split in ((False,) if makes_rows and mb < m else (False, True))
    )
    return min(grids, key=lambda g: g.cost)


def _split(blocks: int, n: int, nb: int, target: Target) -> bool | None:
    """Whether panels of nb columns must be tasks of their own to keep the cores busy; None when even that does not keep them busy."""
    if idle_share(blocks, target.cores) <= MOST_IDLE:
        return False
    vectors, width = (ceil(columns / target.lanes) for columns in (n, nb))
    return True if idle_share_of_groups(blocks, vectors, width, target.cores) <= MOST_IDLE else None


def _cost(p: Product, mb: int, nb: int, target: Target) -> float:
    """Weighted bytes that one core moves: weights and rows that its L2 does not keep between executions, and results for post-ops."""
    *batch, m, n = p.call.outs[0].shape
    src, wei = p.call.ins
    k, panels, entries = p.reduced[-1], ceil(n / nb), prod(batch)
    rounds = entries * ceil(m / mb) / target.cores  # how many times a core iterates over all panels
    block, weights = src.dtype.nbytes(mb * k), wei.dtype.nbytes(k * n) * min(rounds, 1.0)
    rows, fits = block * max(rounds, 1.0), table(target).working_set(target.l2_bytes)
    results = 2 * F32_BYTES * entries * m * n / target.cores * byte_cost(F32_BYTES * mb * nb, target)
    if weights + rows <= fits:
        return results
    weight_reads = 1.0 if weights <= fits else max(rounds, 1.0)  # weights that fit are still there for the next rows
    row_reads = 1.0 if block <= fits else panels * min(rounds, 1.0)  # rows that do not fit are read again for every panel
    return (weights * weight_reads + rows * row_reads) * table(target).l3_byte_cost + results
