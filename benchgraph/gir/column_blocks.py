"""Columns of a microkernel call, which are those of a packed B panel, and of the blocks that a result is stored in."""

from __future__ import annotations

from math import ceil, prod

from benchgraph.core.formats import counted
from benchgraph.core.memoise import memoised_within
from benchgraph.gir.gemm_nest import gemm_nest
from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.layouts import panel_columns
from benchgraph.gir.product import Product, product
from benchgraph.machine.table import table
from benchgraph.machine.target import LINE_BYTES, TILE_ROWS, Target
from benchgraph.schedule.choose import choose
from benchgraph.schedule.cost import HELD

# Rows of a block of 2 x 2 acc tiles; blocks of other shapes load weights more often. docs/measurements/rows-per-task.md
ROWS_OF_2X2_TILES = 2 * TILE_ROWS


@memoised_within
def column_block(p: Product, target: Target) -> int:
    """Columns of one microkernel call, and of one packed B panel. Where a convolution has groups it divides the columns of one."""
    if p.forced is not None:
        return p.forced.nb
    n = p.columns
    block = _panel_block(p, target)
    block = min(block, table(target).narrow_panel_vectors * target.lanes) if _is_narrow(p, block, target) else block
    if n == p.call.outs[0].shape[-1]:
        return block if not p.has_constant_wei or _fits_l2(p, block, target) else _of_least_cost(p, block, target)
    if n % block == 0:
        return block
    whole_vectors = (d for d in range(block, 0, -target.lanes) if n % d == 0 and d % target.lanes == 0)
    return next(whole_vectors, n)


def _panel_block(p: Product, target: Target) -> int:
    """Columns of a panel by the register tile, or, on tile registers, by the width of wide calls."""
    return panel_columns(p.columns, target, table(target).tile_call_columns if _has_wide_calls(p, target) else 0)


def _has_wide_calls(p: Product, target: Target) -> bool:
    """Whether a microkernel call on tile registers has many columns, so that it reads src less often."""
    src = p.call.ins[0]
    if not target.in_tiles(src.dtype) or not p.is_row_wise:
        return False
    nbytes, rows, machine = src.dtype.nbytes(src.shape[-1]), prod(src.shape[:-1]), table(target)
    is_copied = nbytes > machine.tile_copied_row_bytes and nbytes % LINE_BYTES > 0
    is_read = p.has_input_src or src.dtype.bits == 8
    return is_copied or (is_read and nbytes >= machine.tile_read_row_bytes and rows >= ROWS_OF_2X2_TILES * target.cores)


def _is_narrow(p: Product, block: int, target: Target) -> bool:
    """Whether a panel of so many columns would take too much of L2 for several passes over it."""
    (*batch, m, _), (src, wei), machine = p.call.outs[0].shape, p.call.ins, table(target)
    least_rows, most_rows = machine.narrow_panel_rows
    if prod(batch) > 1 or not least_rows <= m <= most_rows or target.in_tiles(src.dtype) or not p.has_constant_wei:
        return False
    most = machine.l2_repeated_panel_share * target.l2_bytes
    return wei.nbytes > machine.large_weights_factor * target.l2_bytes and wei.dtype.nbytes(prod(p.reduced) * block) >= most


def _fits_l2(p: Product, block: int, target: Target) -> bool:
    """Whether L2 holds a panel of so many columns while rows of src pass by."""
    return p.call.ins[1].dtype.nbytes(prod(p.reduced) * block) <= HELD * target.l2_bytes


def _of_least_cost(p: Product, block: int, target: Target) -> int:
    """Columns of the cheaper schedule, of those with this panel and with half of it."""
    widths = tuple(dict.fromkeys(panel_columns(p.columns, target, most) for most in (block, block // 2) if most >= target.lanes))
    return choose(gemm_nest(p, target), widths or (block,), target, may_spread=True).schedule.sizes("n")[-1]


def columns_reason(p: Product, nb: int, target: Target) -> str:
    """The reason of `column_block`, in words."""
    vectors = counted(ceil(nb / target.lanes), "vector")
    if nb == p.columns:
        return f"all {nb} columns, in {vectors}"
    block = _panel_block(p, target)
    if nb != column_block(p, target):
        why = "the weights are packed in panels of this width"
    elif _is_narrow(p, block, target):
        why = "a wider panel would take too much of L2 for several passes over it"
    elif nb != block and not _fits_l2(p, block, target):
        why = "L2 does not hold wider panels, which cost more"
    elif nb != block:
        why = "the widest panel that divides the columns of a group"
    elif _has_wide_calls(p, target):
        why = "wide calls on tile registers read src less often"
    else:
        why = "at most the widest register tile, and panels as equal as whole vectors allow"
    return f"{vectors} of {target.lanes}: {why}"


def result_block(p: Product, target: Target) -> int:
    """Columns of the blocks in which the next product reads the result fastest; 0 where it reads whole rows faster."""
    n, block = p.call.outs[0].shape[-1], column_block(p, target)
    return block if n % block == 0 and block >= min(n, table(target).result_block_columns) else 0


def columns_per_call(g: Graph, op: Op, target: Target) -> int:
    """Columns of one microkernel call of a product in a graph whose layouts are propagated."""
    wei = g.value(op.ins[1])
    return wei.layout.blocks[0][1] if wei.layout.blocks else column_block(product(g, op), target)
