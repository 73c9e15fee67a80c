"""Rows of a task, and columns of a block of scores in flash attention.

Rows are the parallel axis: a task is mb rows of one batch entry, and all columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.layouts import BF16_BYTES, F32_BYTES
from benchgraph.gir.product import weights_bytes
from benchgraph.machine.table import table
from benchgraph.machine.target import Target

# A task may have a quarter more or fewer rows if their number then divides all rows, and is best a multiple of four.
# docs/measurements/rows-per-task.md, Even tasks.
SPREAD, ROW_MULTIPLE = 0.25, 4


@dataclass(frozen=True)
class RowBlock:
    """How the rows of a nest become tasks: mb rows each, and why."""

    mb: int
    why: str


def rows_per_task(batch: int, m: int, columns: int, target: Target, *, works_on_rows: bool, waits: bool = False) -> RowBlock:
    """As many rows as keep a task's live data within their share of L2, evenly over the cores, but no more than pays.

    batch: batch entries, which are separate tasks. columns: f32 columns of one row that are live together. works_on_rows: ops between the
    products read whole rows. waits: the products wait for their weights.
    """
    machine = table(target)
    nbytes, enough = (BF16_BYTES, machine.tile_rows_per_task) if waits else (F32_BYTES, machine.rows_per_task)
    if works_on_rows:
        nbytes, enough = F32_BYTES, machine.rows_between_products
    fits = max(1, machine.working_set(target.l2_bytes) // (nbytes * columns))
    most = min(m, enough, fits)
    filled = f"{most} rows fill {machine.working_set_share:.0%} of L2"
    why = f"all {m} rows" if most == m else f"more than {enough} rows are no faster" if most == enough else filled
    tasks = ceil(m / most)
    if batch * tasks < 4 * target.cores:
        per_batch = ceil(target.cores / batch)
        even = ceil(tasks / per_batch) * per_batch
        why += f"; cut so that {target.cores} cores get equal shares" if even > tasks else ""
        return RowBlock(ceil(m / min(even, m)), why)
    mb = ceil(m / tasks)
    close = range(ceil(mb * (1 - SPREAD)), min(int(mb * (1 + SPREAD)), fits) + 1)
    best = max((rows for rows in close if m % rows == 0), key=lambda rows: (rows % ROW_MULTIPLE == 0, -abs(rows - mb)), default=mb)
    return RowBlock(best, why + f"; {best} divide {m}" * (best != mb))


@dataclass(frozen=True)
class ScoreBlock:
    """Columns of scores at a time in flash attention, and the f32 columns of a task's row that are live with them."""

    columns: int
    live_columns: int
    why: str


def score_block(rows: int, n: int, heads: int, nb: int, target: Target, *, is_masked: bool) -> ScoreBlock | None:
    """The block of scores that a task of so many rows computes at a time; None when whole rows are as fast.

    n: columns of a row of scores. heads: the sizes of a query and of a value, together. nb: columns of one microkernel call. is_masked: a
    causal mask may hide about half of the scores, in whole blocks, which short blocks leave out. Otherwise rows stay whole as long as a
    task's share of L2 holds them; beyond, it holds a block of scores, the keys and values of its columns, the queries and the results.
    """
    machine = table(target)
    fits = machine.working_set(target.l2_bytes) // F32_BYTES
    if is_masked and n >= machine.masked_blocks * nb:
        columns = nb * (2 if n >= machine.masked_blocks_of_two * nb else 1)
        return ScoreBlock(columns, columns + heads, f"masked blocks are left out, {columns} columns at a time")
    if rows * (n + heads) <= fits:
        return None
    most = max((fits - rows * heads) // (rows + heads) // nb, 1) * nb
    columns = min(ceil(n / ceil(n / most) / nb) * nb, n)
    if columns == n:
        return None
    why = f"{rows} rows of {n} scores do not fit {machine.working_set_share:.0%} of L2; {columns} of them with their keys and values do"
    return ScoreBlock(columns, columns + heads, why)


def wait_for_weights(g: Graph, products: Sequence[Op], target: Target) -> bool:
    """Whether all of these products use tile registers, and L2 does not keep their weights."""
    use_tiles = all(target.in_tiles(g.value(op.ins[0]).dtype) for op in products)
    return use_tiles and weights_bytes(g, products) > target.l2_bytes


def live_columns(g: Graph, products: Sequence[Op]) -> int:
    """Columns that one row of a task keeps in cache at a time: src and dst of its widest product."""
    return max(g.value(op.ins[0]).shape[-1] + g.value(op.outs[0]).shape[-1] for op in products)


def has_one_matrix(g: Graph, op: Op) -> bool:
    """Whether all batch entries of a product have the same weights, of several columns."""
    wei = g.value(op.ins[1])
    return wei.shape[-1] > 1 and prod(wei.shape[:-2]) == 1
