"""Post-ops that interleave a product's columns in memory: the phases of a transposed convolution with channels first.

    acc[mb, N] = brgemm(...)                           for o, for nb columns of each phase:
    for n in N:                                          for phase in P: rows[phase:mb*P:P, nb] = brgemm(..., this phase's columns)
      for i in mb:                               ->      t[nb, mb*P] = transpose(rows)
        dst[n % C, o, i*P + n // C % P] = acc[i, n]      for n in nb:
                                                           for i in mb*P: dst[n, o, i] = t[n, i]

All phases of a row of dst are computed together, and the row is stored contiguously. Otherwise each phase would store every P-th element by
itself, without vectors (docs/measurements/lowering.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from benchgraph.gir.domain import Domain, trace
from benchgraph.gir.ir import Stage
from benchgraph.lower.microkernel import Microkernel
from benchgraph.lower.region import Region
from benchgraph.lower.storage import Coord
from benchgraph.lower.store_order import Interleaving, interleaving
from benchgraph.lower.taps import branch_by_taps
from benchgraph.tir.build import add, floordiv, mod, mul, nest, seq
from benchgraph.tir.ir import Const, Expr, Pack, Slice, Stmt


@dataclass(frozen=True)
class InterleavedEpilogue:
    """width: columns of each phase that are computed at a time, a divisor of the distance between phases."""

    kernel: Microkernel
    stage: Stage
    domain: Domain
    phases: Interleaving
    width: int

    @classmethod
    def of(cls, kernel: Microkernel, stage: Stage) -> InterleavedEpilogue | None:
        """None where the post-ops do not interleave columns."""
        task, (op, *after) = kernel.task, stage.ops
        domain = trace(task.g, stage.ops)
        assert domain is not None
        if task.no is not None or task.node.split_n or not task.has_private_result(op):
            return None
        phases = interleaving(task.g, domain, after, task.node.outs)
        if phases is None or (width := gcd(stage.nb, phases.distance)) < min(stage.nb, phases.distance):
            return None
        return cls(kernel, stage, domain, phases, width)

    def emit(self) -> Stmt:
        """The product on the task's rows, and its post-ops."""
        task, blocks = self.kernel.task, self.phases.distance // self.width
        *_, n = self.domain.extents
        o, block = task.storage.var("po"), task.storage.var("no")
        body = task.for_rows(lambda rows: self._block(rows, o, block))
        return nest(((o, Const(n // (self.phases.count * self.phases.distance))), (block, Const(blocks))), body)

    def _block(self, rows: int, o: Expr, block: Expr) -> Stmt:
        """One block of columns of each phase. o: the digit above the phase in the number of a column."""
        task, width, count = self.kernel.task, self.width, self.phases.count
        storage, (op, *after) = task.storage, self.stage.ops
        v = task.g.value(op.outs[0])
        *batch, m, n = v.shape
        made = storage.temporary(v.dtype, (*batch, m * count, n // count))
        transposed = storage.temporary(v.dtype, (*batch, n // count, m * count))
        rank, begin = len(v.shape), mul(task.mo, task.mb * count)
        column = mul(add(mul(o, self.phases.distance // width), block), width)
        last, last_but_one = (rank - 1, 1), (rank - 2, 1)

        def phase(number: int) -> Stmt:
            no = self._column_block(o, Const(number), block)
            acc = Slice(made, (*task.batch, add(begin, number), column), ((rank - 2, count), last))
            return branch_by_taps(task, op, no, width, width, lambda taps: self.kernel.call(op, no, width, width, rows, acc, taps=taps))

        src = Slice(made, (*task.batch, begin, column), (last, last_but_one))
        dst = Slice(transposed, (*task.batch, column, begin), (last_but_one, last))
        i, j = storage.var("i"), storage.var("j")
        at = (*task.row(floordiv(i, count)), Coord(j, self._column_block(o, mod(i, count), block), width))
        with storage.redirect({v.id: lambda _: (transposed, (*task.batch, add(column, j), add(begin, i)))}):
            region = Region.point(storage, self.domain, at).emit(after)
        post_ops = nest(((j, Const(width)), (i, Const(rows * count))), region)
        return seq(*map(phase, range(count)), Pack(src, dst, width, rows * count), post_ops)

    def _column_block(self, o: Expr, phase: Expr, block: Expr) -> Expr:
        """The number of a block of the product's columns."""
        return add(mul(add(mul(o, self.phases.count), phase), self.phases.distance // self.width), block)
