"""Microkernel calls of a GEMM task: the operands' slices, the range of k, and what a call prefetches.

Calls prefetch the next batch entry, the next task's rows, or the next panel of weights, spread over the steps of their K loops. A panel is
prefetched by one call; of an entry or of rows each call prefetches its share, and all calls of a task together all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

from benchgraph.gir.ir import Op, Stage
from benchgraph.gir.product import product
from benchgraph.lower.gemm_task import Accumulator, GemmTask
from benchgraph.lower.src_packing import PackedSrc
from benchgraph.lower.storage import ZERO, Coord
from benchgraph.lower.taps import branch_by_taps, split_by_rows
from benchgraph.machine.target import LINE_BYTES
from benchgraph.ops.spec import Box
from benchgraph.tir.build import add, minimum, mul, seq
from benchgraph.tir.ir import Brgemm, Const, Expr, Prefetch, Slice, Stmt


@dataclass(frozen=True)
class KRange:
    """`size` indices of k from outer * step on. accumulate: add to the sum over the indices before them."""

    outer: Expr
    step: int
    size: int
    accumulate: bool
    prefetches: tuple[Prefetch, ...] = ()

    @property
    def start(self) -> Coord:
        return Coord(ZERO, self.outer, self.step)


class Microkernel:
    """The calls of a task's products. packed: the products whose src is packed first."""

    def __init__(self, task: GemmTask) -> None:
        self.task = task
        self.packed = {op: packed for op in task.products if (packed := PackedSrc.of(task, op)) is not None}

    def pack_rows(self, stage: Stage) -> Stmt:
        """Pack the task's rows of src once, for use by all column blocks, if this product needs that."""
        op, packed = stage.ops[0], self.packed.get(stage.ops[0])
        if packed is None:
            return seq()
        k = product(self.task.g, op).reduced[-1]
        return self.task.for_rows(lambda rows: packed.pack(self.task.start(ZERO, stage.nb), rows, Coord(ZERO), k))

    def block(self, op: Op, column_block: Expr, width: int, nb: int, k_range: KRange | None = None) -> Stmt:
        """The product's block of columns, for the task's rows: one call, or several in branches by rows and taps."""
        task = self.task

        def calls(rows: int, taps: Box) -> Stmt:
            acc, k = Accumulator.of(task, op), product(task.g, op).reduced[-1]

            def call(rows: int, taps: Box, accumulate: bool) -> Stmt:
                added = replace(k_range or KRange(ZERO, 0, k, accumulate=True), accumulate=True)
                return self.call(
                    op, column_block, width, nb, rows, acc.slice(task.start(column_block, nb)), added if accumulate else k_range, taps
                )

            return seq(split_by_rows(task, op, rows, taps, call), acc.copy(task.row, Const(rows), column_block, nb, width))

        return task.for_rows(lambda rows: branch_by_taps(task, op, column_block, width, nb, lambda taps: calls(rows, taps)))

    def call(
        self, op: Op, column_block: Expr, width: int, nb: int, rows: int, acc: Slice, k_range: KRange | None = None, taps: Box | None = None
    ) -> Stmt:
        """One call: `width` columns of a column block, summed over all of k or a range. taps: of the other reduced axes, if not all."""
        task, p = self.task, product(self.task.g, op)
        taps = taps or p.full_box
        if k_range is None:
            k_range = KRange(ZERO, 0, p.reduced[-1], accumulate=False, prefetches=tuple(_prefetches(task, op, column_block, nb)))
        size, start, k = k_range.size, task.start(column_block, nb), k_range.start
        if (packed := self.packed.get(op)) is not None:
            wei = task.operand(op, 1, start, k)
            return packed.multiply(wei, acc, start, rows, width, k, size, accumulate=k_range.accumulate, prefetches=k_range.prefetches)
        first_taps = tuple(Const(begin) for begin, _ in taps)
        a, b = (task.operand(op, port, start, k, first_taps) for port in (0, 1))
        batch = tuple(end - begin for (begin, end), extent in zip(taps, p.reduced, strict=False) if extent != 1)
        ahead = task.parameters(op).wei_ahead
        return Brgemm(a, b, acc, rows, width, size, batch, k_range.accumulate, k_range.prefetches, wei_ahead=ahead)


def _prefetches(task: GemmTask, op: Op, column_block: Expr, nb: int) -> Iterator[Prefetch]:
    """What the call of a product for a block of nb columns prefetches."""
    blocks = ceil(task.g.value(op.outs[0]).shape[-1] / nb)
    call, calls = add(mul(task.row_block, blocks), column_block), ceil(task.m / task.mb) * blocks
    for id in _operands_of(task, task.node.prefetched_entries, op):
        v, begin = task.g.value(id), (*task.batch[:-1], add(task.batch[-1], 1), ZERO)
        yield _share(task, id, v.shape[-1] * v.shape[-2], begin, call, calls)
    next_row = minimum(add(mul(task.row_block, task.mb), task.mb), Const(task.m))  # after the last task, the next entry's first row
    begin = (*task.batch, next_row)
    for id in _operands_of(task, task.node.prefetched_rows, op):
        yield _share(task, id, task.mb * task.g.value(id).shape[-1], begin, column_block, blocks)
    if task.parameters(op).prefetch:
        panel = task.operand(op, 1, task.start(add(column_block, 1), nb), Coord(ZERO))
        size = panel.tensor.dtype.nbytes(product(task.g, op).reduced[-1] * nb)
        yield Prefetch(panel.tensor, panel.index, ceil(size / LINE_BYTES))


def _operands_of(task: GemmTask, ids: tuple[int, ...], op: Op) -> tuple[int, ...]:
    """The operands that this product's calls prefetch: the nest's products share them out."""
    products = [stage.ops[0] for stage in task.node.row_products]
    return ids[products.index(op) :: len(products)]


def _share(task: GemmTask, id: int, elements: int, begin: tuple[Expr, ...], call: Expr, calls: int) -> Prefetch:
    """The part of so many contiguous elements that one of `calls` calls prefetches."""
    dtype = task.g.value(id).dtype
    lines = ceil(dtype.nbytes(elements) / (LINE_BYTES * calls))
    return Prefetch(task.storage.tensor(id), (*begin, mul(call, lines * LINE_BYTES * 8 // dtype.bits)), lines)
