"""On-the-fly packing: the size of a packed block of weights, and how often it may be made.

A block is converted or packed by the product that reads it (gir/on_the_fly_packing.py), or read as it is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, lcm, prod

from benchgraph.core.dtypes import DType
from benchgraph.gir.column_blocks import column_block
from benchgraph.gir.gemv import is_input_for_few_rows
from benchgraph.gir.ir import Graph, Op, Stage
from benchgraph.gir.load_balance import MOST_IDLE
from benchgraph.gir.product import Product, is_row_major, k_group, operand_axes, product
from benchgraph.machine.table import table
from benchgraph.machine.target import Target
from benchgraph.schedule.nest import F32_BYTES
from benchgraph.tir.groups import PACKED_FROM, SIDE_BY_SIDE


def conversions(m: int, target: Target) -> int:
    """How often a nest of several products converts its weights: once for each block of its m rows."""
    return max(ceil(m / table(target).packed_task_rows), min(target.cores, m))


def is_one_large_matrix(p: Product, target: Target) -> bool:
    """Whether all rows of a product share one matrix of several columns, which in f32 does not fit the cores' L2 caches."""
    *batch, _, n = p.call.outs[0].shape
    is_plain = prod(batch) == 1 and p.is_matrix_product and p.columns == n > 1
    return is_plain and p.call.ins[1].elements * F32_BYTES > target.cores * target.l2_bytes


def block_size(k: int, n: int, nb: int, unit: int, most: tuple[int, int], cores: int) -> tuple[int, int]:
    """Rows and columns of a block of wei, at most so many; unit: its rows are a multiple of it, if they are not all of k. cores: those that
    share one matrix."""
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
    most = table(target).unpacked_rows_from_memory if target.is_far(nbytes) else table(target).unpacked_rows
    return is_input_for_few_rows(g, op, op.ins[1], most) and operand_axes(g, op, 1) is not None


def unpacked_block_limit(rows: int, n: int, wei: DType, cores: int, target: Target) -> tuple[int, int]:
    """Most rows and columns of a block of weights read as they are, rows of n, for so many rows of src; cores: those that share them. One
    row of dst that L1 holds is summed there where weights are narrow and no other core's too: they are read from end to end."""
    machine = table(target)
    is_summed_in_l1 = rows == cores == 1 and wei is not DType.f32 and F32_BYTES * n <= machine.working_set(target.l1_bytes)
    return 1 if is_summed_in_l1 else SIDE_BY_SIDE, machine.unpacked_columns


def packed_block_of(
    g: Graph, op: Op, makers: Sequence[Stage], rows: int, nb: int, target: Target, *, is_prefetched: bool
) -> tuple[int, int]:
    """Rows and columns of a block of wei, in whole groups of its makers; 0, 0 where wei is not blocked. makers: the stages that make
    blocks; is_prefetched: see `prefetches_source`."""
    if not makers and not reads_rows_together(g, op, target):
        return 0, 0
    p, wei = product(g, op), g.value(op.ins[1])
    k, n, machine = p.reduced[-1], p.columns, table(target)
    units = (cut.unit for maker in makers if (cut := maker.cuts[0]) is not None)
    unit = lcm(k_group(g, op), *units)
    sharing = ceil(target.cores / prod(p.call.outs[0].shape[:-2]))
    if not makers:
        most = unpacked_block_limit(rows, n, wei.dtype, sharing, target)
    elif not wei.layout.blocks:
        most = machine.converted_block_of_few_rows if rows <= machine.converted_few_rows else machine.converted_block
    else:
        is_large = wei.type.nbytes > machine.large_weights_factor * target.l2_bytes
        by_rows = machine.prefetched_block if is_prefetched else machine.packed_block
        from_rows = all(_packs(g, maker) and is_row_major(g, maker.ops[0].ins[0]) for maker in makers)
        most = by_rows if is_large and from_rows else (machine.packed_panel_rows, nb)
    return block_size(k, n, nb, unit, most, sharing)


def prefetches_source(g: Graph, op: Op, makers: Sequence[Stage], target: Target) -> bool:
    """Whether calls prefetch what the next block is packed from: an input from beyond L2. Tile registers multiply too fast for that."""
    if len(makers) != 1 or not _packs(g, makers[0]) or target.in_tiles(g.value(op.ins[0]).dtype):
        return False
    src = g.value(makers[0].ops[0].ins[0])
    return g.root(src.id) in g.ins and src.type.nbytes > target.l2_bytes


def _packs(g: Graph, maker: Stage) -> bool:
    """Whether a stage only packs."""
    src, dst = g.value(maker.ops[0].ins[0]), g.value(maker.ops[-1].outs[0])
    is_packing = len(maker.ops) == 1 and bool(dst.layout.blocks) and src.dtype in PACKED_FROM.get(dst.dtype, ())
    return is_packing and not g.value(g.root(src.id)).layout.blocks
