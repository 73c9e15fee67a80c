"""On-the-fly packing: the size of a packed block of weights, and how often it may be made.

A block is converted or packed by the product that reads it (gir/on_the_fly_packing.py), or read as it is stored. Measurements of all
constants here: docs/measurements/on-the-fly-packing.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, lcm, prod

from benchgraph.core.dtypes import DType
from benchgraph.gir.column_blocks import column_block
from benchgraph.gir.gemv import is_input_for_few_rows
from benchgraph.gir.ir import Graph, Op, Stage
from benchgraph.gir.layouts import F32_BYTES
from benchgraph.gir.load_balance import MOST_IDLE
from benchgraph.gir.product import is_row_major, k_group, operand_axes, product
from benchgraph.gir.row_blocks import MOST_ROWS
from benchgraph.machine.target import Target
from benchgraph.tir.groups import PACKED_FROM, SIDE_BY_SIDE

FEW_ROWS, CONVERTED = 6, ((16, 2048), (128, 512))  # rows and columns of a converted block, for few rows of dst and for more
MOST_COLUMNS_READ = 16384  # of weights stored by rows and read as they are: long rows are prefetched best
ROWS_FOR_UNPACKED = 2, 8  # rows of dst up to which they are read so: for weights beyond L2, and beyond all caches
PACKED_BY_ROWS, LARGE_WEIGHTS = (256, 2048), 4  # a block packed from rows, of weights so many times L2: hardware prefetches its rows
PREFETCHED_BY_ROWS = 512, 256  # the same where calls fetch the source of the next block: both fit into L2
ROWS_OF_ONE_PANEL = 512  # of a block of one panel, as a transposition makes it
MOST_ROWS_PACKED = 256  # rows of a task that packs each block for itself
MOST_CONVERSIONS = 4  # of the same weights, once by each block of rows: still cheaper than an f32 more in memory and back


def conversions(m: int, target: Target) -> int:
    """How often a nest of several products converts its weights: once for each block of its m rows."""
    return max(ceil(m / MOST_ROWS), min(target.cores, m))


def block_size(k: int, n: int, nb: int, unit: int, most: tuple[int, int], cores: int) -> tuple[int, int]:
    """Rows and columns of a block of wei, at most so many; unit: its rows are a multiple of it, if they are not all of k.

    cores: those that share one matrix.
    """
    longest, widest = most
    ks = min(k, max(longest // unit, 1) * unit)
    panels = ceil(n / nb)
    widths = range(max(min(widest // nb, panels), 1), 0, -1)
    even = (w for w in widths if panels >= (1 - MOST_IDLE) * cores * ceil(ceil(panels / w) / cores) * w)
    return ks, nb * ceil(panels / ceil(panels / next(even, 1)))  # no wider than as many blocks need, so that they are even


def reads_rows_together(g: Graph, op: Op, target: Target) -> bool:
    """Whether a product reads weights stored by rows, of several panels, as they are: few rows of src, and weights from beyond L2."""
    nbytes, p = g.value(op.ins[1]).type.nbytes, product(g, op)
    if nbytes <= target.cores * target.l2_bytes or p.columns <= column_block(p, target):
        return False
    return is_input_for_few_rows(g, op, op.ins[1], ROWS_FOR_UNPACKED[target.is_far(nbytes)]) and operand_axes(g, op, 1) is not None


def unpacked_block_limit(rows: int, n: int, wei: DType, cores: int, target: Target) -> tuple[int, int]:
    """Most rows and columns of a block of weights read as they are, rows of n, for so many rows of src; cores: those that share them.

    One row of dst that takes half of L1 is summed there where weights are narrow and no other core's too: they are read from end to end.
    """
    is_summed_in_l1 = rows == cores == 1 and wei is not DType.f32 and F32_BYTES * n <= target.l1_bytes // 2
    return 1 if is_summed_in_l1 else SIDE_BY_SIDE, MOST_COLUMNS_READ


def packed_block_of(
    g: Graph, op: Op, makers: Sequence[Stage], rows: int, nb: int, kb: int, target: Target, *, is_prefetched: bool
) -> tuple[int, int]:
    """Rows and columns of a block of wei, in whole blocks of src and whole groups of its makers; 0, 0 where wei is not blocked.

    makers: the stages that make blocks; is_prefetched: see `prefetches_source`.
    """
    if not makers and not reads_rows_together(g, op, target):
        return 0, 0
    p, wei = product(g, op), g.value(op.ins[1])
    k, n = p.reduced[-1], p.columns
    units = (cut.unit for maker in makers if (cut := maker.cuts[0]) is not None)
    unit = lcm(kb if kb < k else 1, k_group(g, op), *units)
    sharing = ceil(target.cores / prod(p.call.outs[0].shape[:-2]))
    if not makers:
        most = unpacked_block_limit(rows, n, wei.dtype, sharing, target)
    elif not wei.layout.blocks:
        most = CONVERTED[rows > FEW_ROWS]
    else:
        is_large = wei.type.nbytes > LARGE_WEIGHTS * target.l2_bytes
        by_rows = PREFETCHED_BY_ROWS if is_prefetched else PACKED_BY_ROWS
        most = by_rows if is_large and all(_packs_rows(g, maker) for maker in makers) else (ROWS_OF_ONE_PANEL, nb)
    return block_size(k, n, nb, unit, most, sharing)


def prefetches_source(g: Graph, op: Op, makers: Sequence[Stage], target: Target) -> bool:
    """Whether calls prefetch what the next block is packed from: an input from beyond L2. Tile registers multiply too fast for that."""
    if len(makers) != 1 or not _packs(g, makers[0]) or target.in_tiles(g.value(op.ins[0]).dtype):
        return False
    src = g.value(makers[0].ops[0].ins[0])
    return g.root(src.id) in g.ins and src.type.nbytes > target.l2_bytes


def _packs_rows(g: Graph, maker: Stage) -> bool:
    """Whether a stage only packs, from rows."""
    return _packs(g, maker) and is_row_major(g, maker.ops[0].ins[0])


def _packs(g: Graph, maker: Stage) -> bool:
    """Whether a stage only packs."""
    src, dst = g.value(maker.ops[0].ins[0]), g.value(maker.ops[-1].outs[0])
    is_packing = len(maker.ops) == 1 and bool(dst.layout.blocks) and src.dtype in PACKED_FROM.get(dst.dtype, ())
    return is_packing and not g.value(g.root(src.id)).layout.blocks
