"""Post-ops that store columns: a product's tile is transposed in registers first, so that they run along its rows.

    acc[mb, nb] = brgemm(...)                          acc[mb, nb] = brgemm(...)
    for i in mb:                                ->     t[nb, mb] = transpose(acc)
      for j in nb: dst[j, i] = ReLU(acc[i, j])         for j in nb:
                                                         for i in mb: dst[j, i] = ReLU(t[j, i])

With channels first, neighbouring columns of a product are an image apart in memory: vectors along columns would be scattered. After the
transposition, 16 x 16 at a time, all post-ops and stores are contiguous (docs/measurements/lowering.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchgraph.gir.domain import Domain
from benchgraph.gir.ir import Op
from benchgraph.lower.gemm_task import GemmTask, transposed
from benchgraph.lower.region import Region, Span
from benchgraph.lower.storage import Coords, Element
from benchgraph.lower.store_order import stores_columns
from benchgraph.tir.build import seq
from benchgraph.tir.ir import Expr, Pack, Slice, Stmt, Tensor


@dataclass(frozen=True)
class TransposedEpilogue:
    """buffer: for the result of op, with its last two axes exchanged."""

    task: GemmTask
    op: Op
    buffer: Tensor

    @classmethod
    def of(cls, task: GemmTask, op: Op, domain: Domain, post_ops: Iterable[Op]) -> TransposedEpilogue | None:
        """None where the post-ops store rows, or the product's result is not private to the nest."""
        if not stores_columns(task.g, domain, post_ops, task.node.outs) or not task.has_private_result(op):
            return None
        v = task.g.value(op.outs[0])
        return cls(task, op, task.storage.temporary(v.dtype, (*v.shape[:-2], v.shape[-1], v.shape[-2])))

    def emit(self, no: Expr, nb: int, width: int, domain: Domain, spans: tuple[Span, ...], ops: Iterable[Op]) -> Stmt:
        """Transpose `width` columns from block no on, then run post-ops on them along the rows."""
        storage, (result,) = self.task.storage, self.op.outs
        with storage.redirect({result: self._element}):
            body = Region(storage, domain, spans, inner=len(spans) - 2).emit(ops)
        return seq(self._transpose(no, nb, width), body)

    def _element(self, coords: Coords) -> Element:
        *batch, row, column = (c.value for c in coords)
        return self.buffer, (*batch, column, row)

    def _transpose(self, no: Expr, nb: int, width: int) -> Stmt:
        start, last = self.task.start(no, nb), len(self.buffer.shape) - 1
        acc = self.task.result(self.op, start)
        assert acc is not None, "only a result that the microkernel writes is transposed"
        dst = Slice(*self._element(start), ((last - 1, 1), (last, 1)))
        return self.task.for_rows(lambda rows: Pack(transposed(acc), dst, width, rows))
