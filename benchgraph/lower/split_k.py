"""Products that reduce over the rows of their nest, as in split-K: every task adds its rows' part to acc[M, N] of its batch entry.

    acc = 0
    for mo in M / mb:
      ...
      acc += brgemm(src[:, mo*mb:+mb], wei[mo*mb:+mb, :])
    post-ops on acc

The gradients of keys and values are such products: they reduce over queries, and a task has its queries' scores in cache.
"""

from __future__ import annotations

from benchgraph.core.dtypes import DType
from benchgraph.gir.ir import Stage
from benchgraph.gir.product import acc_dtype
from benchgraph.lower.epilogue import Epilogue
from benchgraph.lower.gemm_task import Accumulator
from benchgraph.lower.microkernel import Microkernel
from benchgraph.lower.region import Span
from benchgraph.lower.storage import ZERO, Coord, Coords
from benchgraph.tir.build import f32, seq
from benchgraph.tir.ir import Brgemm, Const, Expr, Stmt


class SplitKProduct:
    """One such stage of a nest."""

    def __init__(self, kernel: Microkernel, epilogue: Epilogue, stage: Stage) -> None:
        self.task, self.packed, self.epilogue = kernel.task, kernel.packed.get(stage.ops[0]), epilogue
        self.stage, self.op = stage, stage.ops[0]
        assert acc_dtype(self.task.g, self.op) is DType.f32, "fuse-coarse cuts k only where sums are f32"
        self.m, self.n = self.task.g.value(self.op.outs[0]).shape[-2:]
        self.acc = Accumulator.of(self.task, self.op)

    def _row(self, i: Expr) -> Coords:
        return (*map(Coord, self.task.batch), Coord(i))

    def clear(self) -> Stmt:
        return self.acc.update(self._row, Const(self.m), self.stage.nb, lambda *_: f32(0.0))

    def add_task(self) -> Stmt:
        """Add the part of the task's rows."""
        task, nb, packed = self.task, self.stage.nb, self.packed
        rows = Coord(ZERO, task.row_block, task.mb)

        def columns(column_block: Expr, width: int) -> Stmt:
            start = (*self._row(ZERO), Coord(ZERO, column_block, nb))
            acc, wei = self.acc.slice(start), task.operand(self.op, 1, start, rows)
            if packed is not None:
                return task.for_rows(lambda k: packed.multiply(wei, acc, start, self.m, width, rows, k, accumulate=True))
            src, ahead = task.operand(self.op, 0, start, rows), task.parameters(self.op).wei_ahead
            return task.for_rows(lambda k: Brgemm(src, wei, acc, self.m, width, k, accumulate=True, wei_ahead=ahead))

        added = task.by_columns(self.n, nb, columns)
        if packed is None:
            return added
        start = (*self._row(ZERO), Coord(ZERO, ZERO, nb))
        return seq(task.for_rows(lambda k: packed.pack(start, self.m, rows, k)), added)

    def finish(self) -> Stmt:
        """The post-ops, on all rows of the batch entry."""
        spans = (*self.task.batch_spans, Span(Const(self.m), tile=max(self.m, 1)))
        nb = self.stage.nb
        return self.epilogue.emit(
            self.stage, lambda column_block, width: self.acc.copy(self._row, Const(self.m), column_block, nb, width), spans
        )
