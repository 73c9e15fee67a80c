"""Rows and columns of a lone product as tasks: the grid that has the cores fetch least, MPN x NPN in the Graph Compiler paper's words.

With tasks of whole rows every core reads all weights; with tasks of single panels each reads its own, but all rows of src. Cores take
tasks in order, panel by panel, so that one with fewer panels than a row of blocks has holds its rows and streams its panels past them.

Measured on two Cascade Lake cores of a busy machine, minima, one block of rows with its panels spread against half the rows each:
32 x 1024 x 512 1.08 times as fast, 32 x 1024 x 1024 1.04; 32 x 479 x 1024 was not clear.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from benchgraph.core.target import Target
from benchgraph.gir.anchors import L3_COST, level_cost
from benchgraph.gir.load_balance import IDLE, idle, idle_of_groups, most_of_groups
from benchgraph.gir.packed_blocks import MOST_ROWS_OF_PIECES
from benchgraph.gir.product import Product
from benchgraph.gir.schedule import F32_BYTES, SQUARE_ROWS, Rows
from benchgraph.gir.search_space import row_blocks

ALIKE = 0.05  # grids whose costs differ by less are alike: of these, that with the most rows per microkernel call
# Sums of so many terms, all of k, are soon over: rows of dst are then stored so fast that whoever writes a tall block has the rows below it
# fetched ahead, from the core that writes those. Two Zen 5 cores on chiplets of their own, 13 terms, 512 columns, 64 rows, f32, minima in
# us by rows of a task: 8 4.2, 16 4.3, 32 6.7, 64 6.4; on one chiplet 2.3 with any. 32 terms and more: alike within 4 % on either.
# 17 terms, 4 x 197 rows by 2048 columns, 16 over 50, one core (two), bf16 0.37 (0.33), u8 0.95 (0.64), f32 1.05 (0.83); 197 and 512 columns
# 0.80 to 1.03.
SHORT_SUM, ROWS_OF_SHORT_SUMS = 31, 16
# Rows that are multiplied by a piece of weights in the time that making it takes. Two Zen 5 cores, weights that change, times over those of
# the most rows for which panels, counted as equal, come out even (100 columns are two panels, 64 and 36), minima:
#
#     m x k x n, by columns    12x1000x400    77x700x200    128x1000x80    256x1500x100    128x1500x100    128x512x224
#     bf16                     0.72           0.88          0.85           0.88            0.79            0.92
#     u8, by rows              0.76           0.88          0.91           0.91            0.93            0.96
#     f32                                     0.87          0.87           1.00            0.95            0.94
#
# With 20, most of those gain as much, and 64x256x448, 96x256x448, 77x1000x320, 128x64x576, which go by panels then, lose 0.03 to 0.10.
ROWS_PER_PIECE = 10


@dataclass(frozen=True)
class Grid:
    """mb: rows of a task. split_n: each panel is a task. cost: of one core, in whatever decided."""

    mb: int
    split_n: bool
    cost: float


def cut_if_short(p: Product, found: Rows) -> Rows:
    """Rows of a task of a lone product: those of short sums are cut, evenly."""
    if not p.is_row_wise or prod(p.reduced) > SHORT_SUM or found.mb <= ROWS_OF_SHORT_SUMS:
        return found
    return Rows(ceil(found.mb / ceil(found.mb / ROWS_OF_SHORT_SUMS)), f"{found.why}; cut since sums of {prod(p.reduced)} are soon over")


def grid(p: Product, nb: int, usual: int, target: Target) -> Grid | None:
    """The cheapest grid, of a product with one matrix of weights, that leaves no core idle for long; None when `usual` will do.

    usual: rows of a task, by the heuristic for whole rows; they stay unless they leave cores idle, or have them fetch more.
    """
    *batch, m, n = p.call.outs[0].shape
    entries = prod(batch)
    in_squares = target.in_tiles(p.call.ins[0].dtype) and m >= SQUARE_ROWS
    found = [
        Grid(mb, split, _cost(p, mb, nb, target))
        for mb in row_blocks(m)
        if not (in_squares and mb % SQUARE_ROWS and mb < m)
        if (split := _split(entries * ceil(m / mb), n, nb, target)) is not None
    ]
    least = min((g.cost for g in found), default=0.0)
    is_apt = not (in_squares and usual < SQUARE_ROWS and found)
    if is_apt and idle(entries * ceil(m / usual), target.cores) <= IDLE and _cost(p, usual, nb, target) <= (1 + ALIKE) * least:
        return None
    return max((g for g in found if g.cost <= (1 + ALIKE) * least), key=lambda g: g.mb, default=None)


def grid_of_pieces(m: int, n: int, ns: int, target: Target, *, makes_rows: bool = False) -> Grid:
    """Where weights are made in pieces of ns columns, each by every task that reads it: the rows, and whether pieces are tasks, with which
    the core that has most to do has least.

    makes_rows: a task makes its rows of src too, before its first piece; pieces are tasks then where all rows are one block. Cost is rows
    times vectors of columns.
    """
    vectors, width = (ceil(columns / target.lanes) for columns in (n, ns))
    found = (
        Grid(mb, split, (mb + ROWS_PER_PIECE) * most_of_groups(ceil(m / mb), vectors, width if split else vectors, target.cores))
        for mb in row_blocks(m)
        if mb <= MOST_ROWS_OF_PIECES
        for split in ((False,) if makes_rows and mb < m else (False, True))
    )
    return min(found, key=lambda g: g.cost)


def _split(blocks: int, n: int, nb: int, target: Target) -> bool | None:
    """Whether panels of nb columns have to be tasks of their own to keep the cores busy; None when that does not do it either."""
    if idle(blocks, target.cores) <= IDLE:
        return False
    vectors, width = (ceil(columns / target.lanes) for columns in (n, nb))
    return True if idle_of_groups(blocks, vectors, width, target.cores) <= IDLE else None


def _cost(p: Product, mb: int, nb: int, target: Target) -> float:
    """What one core moves: the weights and rows that its L2 does not keep from one execution to the next, and results for post-ops."""
    *batch, m, n = p.call.outs[0].shape
    src, wei = p.call.ins
    k, panels, entries = p.reduced[-1], ceil(n / nb), prod(batch)
    rounds = entries * ceil(m / mb) / target.cores  # how many times a core goes through all panels
    block, weights = src.dtype.nbytes(mb * k), wei.dtype.nbytes(k * n) * min(rounds, 1.0)
    rows, half = block * max(rounds, 1.0), target.l2_bytes // 2
    results = 2 * F32_BYTES * entries * m * n / target.cores * level_cost(F32_BYTES * mb * nb, target)
    if weights + rows <= half:
        return results
    again = 1.0 if weights <= half else max(rounds, 1.0)  # weights that stay are there for its next rows
    passes = 1.0 if block <= half else panels * min(rounds, 1.0)  # rows that do not stay come anew for every panel
    return (weights * again + rows * passes) * L3_COST + results
