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
from benchgraph.lower.storage import ZERO, Coord
from benchgraph.tir.build import f32, seq
from benchgraph.tir.ir import Brgemm, Const, Expr, For, Stmt, Store


class RowReduction:
    """One such stage of a nest."""

    def __init__(self, kernel: Microkernel, epilogue: Epilogue, stage: Stage) -> None:
        self.task, self.packed, self.epilogue = kernel.task, kernel.packed.get(stage.ops[0]), epilogue
        self.stage, self.op = stage, stage.ops[0]
        assert acc_dtype(self.task.g, self.op) is DType.f32, "fuse-coarse cuts k only where sums are f32"
        self.m, self.n = self.task.g.value(self.op.outs[0]).shape[-2:]
        self.acc = Accumulator.of(self.task, self.op)

    def _at(self, i: Expr, no: Expr, nb: int, j: Expr = ZERO) -> tuple[Coord, ...]:
        return (*map(Coord, self.task.batch), Coord(i), Coord(j, no, nb))

    def clear(self) -> Stmt:
        i, j, nb = self.task.storage.var("i"), self.task.storage.var("j"), self.stage.nb

        def columns(no: Expr, width: int) -> Stmt:
            return For(j, Const(width), Store(*self.acc.element(self._at(i, no, nb, j)), f32(0.0)))

        return For(i, Const(self.m), self.task.by_columns(self.n, nb, columns))

    def add_task(self) -> Stmt:
        """Add the part of the task's rows."""
        task, nb, packed = self.task, self.stage.nb, self.packed
        rows = Coord(ZERO, task.mo, task.mb)

        def columns(no: Expr, width: int) -> Stmt:
            start = self._at(ZERO, no, nb)
            acc, wei = self.acc.slice(start), task.operand(self.op, 1, start, rows)
            if packed is not None:
                return task.for_rows(lambda k: packed.multiply(wei, acc, start, self.m, width, rows, k, accumulate=True))
            src = task.operand(self.op, 0, start, rows)
            return task.for_rows(lambda k: Brgemm(src, wei, acc, self.m, width, k, accumulate=True))

        added = task.by_columns(self.n, nb, columns)
        if packed is None:
            return added
        return seq(task.for_rows(lambda k: packed.pack(self._at(ZERO, ZERO, nb), self.m, rows, k)), added)

    def finish(self) -> Stmt:
        """The post-ops, on all rows of the batch entry."""
        spans = (*self.task.batch_spans, Span(Const(self.m), tile=max(self.m, 1)))
        return self.epilogue.emit(self.stage, self._copy, spans)

    def _copy(self, no: Expr, width: int) -> Stmt:
        return self.acc.copy(lambda i, j: self._at(i, no, self.stage.nb, j), Const(self.m), width)
