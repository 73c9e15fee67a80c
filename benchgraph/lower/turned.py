"""Post-ops along rows: a product's result is turned, from rows of columns to columns of rows, before they read it.

    acc[mb, nb] = brgemm(...)                          acc[mb, nb] = brgemm(...)
    for i in mb:                                ->     turned[nb, mb] = acc
      for j in nb: dst[j, i] = ReLU(acc[i, j])         for j in nb:
                                                         for i in mb: dst[j, i] = ReLU(turned[j, i])

Where channels come first in memory, elements of one row lie an image apart, and were computed and stored one by one: no vector is stored to
16 places. Turned by shuffles in registers, 16 rows by 16 columns at a time, all that follows runs in vectors. One thread of a Zen 4, times
with it over those without, both minima: int8 2x32x112x112 by 1x1 with GELU 0.14, 50x64x56x56 by 1x1 0.62, with an Add 0.43; f32 with a
chain of post-ops 0.49, with Swish 0.92, with Add, Swish and ReLU 0.84, with a bias alone 0.90 to 1.00. Rows that step by two, as of one
phase of a transposed convolution, are stored so as well: f32 1x32x28x28 into 1x128x16x16 by 3x3 0.28 (one thread of a Zen 5).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchgraph.gir.domain import Domain
from benchgraph.gir.ir import Op
from benchgraph.lower.access import Coord, Place
from benchgraph.lower.region import Region, Span
from benchgraph.tir.build import seq
from benchgraph.tir.ir import Expr, Pack, Slice, Stmt, Tensor

if TYPE_CHECKING:
    from benchgraph.lower.gemm import GemmNest


@dataclass(frozen=True)
class Turned:
    """buffer: for the result of op, with its last two axes exchanged."""

    nest: GemmNest
    op: Op
    buffer: Tensor

    def emit(self, no: Expr, nb: int, width: int, domain: Domain, spans: tuple[Span, ...], ops: Iterable[Op]) -> Stmt:
        """Post-ops on the columns from block no on, which are so many, once these have been made."""
        storage, (result,) = self.nest.storage, self.op.outs
        with storage.elsewhere({result: self._place}):
            body = Region(storage, domain, spans, inner=len(spans) - 2).emit(ops)
        return seq(self._turn(no, nb, width), body)

    def _place(self, coords: tuple[Coord, ...]) -> Place:
        *batch, row, column = (c.value for c in coords)
        return self.buffer, (*batch, column, row)

    def _turn(self, no: Expr, nb: int, width: int) -> Stmt:
        start, last = self.nest.start(no, nb), len(self.buffer.shape) - 1
        acc = self.nest.result(self.op, start)
        assert acc is not None, "only a result that the microkernel writes is turned"
        *batch, row, column = (c.value for c in start)
        src = replace(acc, axes=(acc.axes[1], acc.axes[0]))
        dst = Slice(self.buffer, (*batch, column, row), ((last - 1, 1), (last, 1)))
        return self.nest.for_rows(lambda rows: Pack(src, dst, width, rows))
