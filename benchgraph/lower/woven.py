"""Columns that lie side by side in memory but apart in the product: the phases of a transposed convolution where channels come first.

    acc[mb, N] = brgemm(...)                           for o, for nb columns of each phase:
    for n in N:                                          for phase in P: rows[phase:mb*P:P, nb] = brgemm(..., the columns of this phase)
      for i in mb:                               ->      turned[nb, mb*P] = rows
        dst[n % C, o, i*P + n // C % P] = acc[i, n]      for n in nb:
                                                           for i in mb*P: dst[n, o, i] = turned[n, i]

A row of dst is written at a time, from end to end, where every P-th of its elements was by a phase of its own: no vector is stored so fast,
and one of 8 or 16 bits not at all. One thread of a Granite Rapids, times over those without: 1x32x28x28 into 1x128x56x56 by 3x3 bf16 0.31,
f32 0.83; into 1x128x16x16 0.55, 0.77.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchgraph.gir.domain import Domain
from benchgraph.gir.ir import Stage
from benchgraph.lower.access import Coord
from benchgraph.lower.along_rows import Weave
from benchgraph.lower.region import Region, Span
from benchgraph.lower.taps import by_taps
from benchgraph.tir.build import add, floordiv, mod, mul, nest, seq
from benchgraph.tir.ir import Const, Expr, Pack, Slice, Stmt

if TYPE_CHECKING:
    from benchgraph.lower.gemm import GemmNest


@dataclass(frozen=True)
class Woven:
    """width: columns of each phase that are made at a time; it divides how far the phases lie apart."""

    nest: GemmNest
    stage: Stage
    domain: Domain
    how: Weave
    width: int

    def emit(self) -> Stmt:
        """All columns of the task's rows, and what is done with them."""
        storage, blocks = self.nest.storage, self.how.apart // self.width
        *_, n = self.domain.extents
        o, block = storage.var("o"), storage.var("no")
        body = self.nest.for_rows(lambda rows: self._block(rows, o, block))
        return nest(((o, Const(n // (self.how.count * self.how.apart))), (block, Const(blocks))), body)

    def _block(self, rows: int, o: Expr, block: Expr) -> Stmt:
        """So many rows of one block of columns of each phase; o: what is above the phases in a column's number."""
        task, width, count = self.nest, self.width, self.how.count
        storage, g, (op, *after) = task.storage, task.g, self.stage.ops
        v = g.value(op.outs[0])
        made = storage.extra(v.dtype, (*v.shape[:-2], v.shape[-2] * count, v.shape[-1] // count))
        turned = storage.extra(v.dtype, (*v.shape[:-2], v.shape[-1] // count, v.shape[-2] * count))
        rank, begin = len(v.shape), mul(task.mo, task.mb * count)
        column = mul(add(mul(o, self.how.apart // width), block), width)
        along, across = (rank - 2, 1), (rank - 1, 1)

        def phase(number: int) -> Stmt:
            no = self._number(o, Const(number), block)
            acc = Slice(made, (*task.batch, add(begin, number), column), ((rank - 2, count), across))
            return by_taps(task, op, no, width, width, lambda taps: task.call(op, no, width, width, rows, acc, taps=taps))

        src = Slice(made, (*task.batch, begin, column), (across, along))
        dst = Slice(turned, (*task.batch, column, begin), (along, across))
        i, j = storage.var("i"), storage.var("j")
        at = (
            *map(Coord, task.batch),
            Coord(floordiv(i, count), task.mo, task.mb),
            Coord(j, self._number(o, mod(i, count), block), width),
        )
        with storage.elsewhere({v.id: lambda _: (turned, (*task.batch, add(column, j), add(begin, i)))}):
            region = Region(storage, self.domain, (Span(Const(1)),) * rank, at).emit(after)
        done = nest(((j, Const(width)), (i, Const(rows * count))), region)
        return seq(*map(phase, range(count)), Pack(src, dst, width, rows * count), done)

    def _number(self, o: Expr, phase: Expr, block: Expr) -> Expr:
        """Of a block of columns of the product."""
        return add(mul(add(mul(o, self.how.count), phase), self.how.apart // self.width), block)
