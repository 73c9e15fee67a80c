"""Packing on the fly: a product whose weights are converted or packed block by block, right before the calls that read the block
(gir/on_the_fly_packing.py); or read block by block in place, each by one call that is as wide as the block:

for so in N / ns:
  for ko in K / ks:
    [panel anchor: make wei[ko*ks:+ks, so*ns:+ns]]
    for no in ns / nb:
      acc[mo, no] += brgemm(src[mo, ko*ks:+ks], wei[ko*ks:+ks, no])       the first block of k overwrites acc
                     [prefetching a part of what the next block is packed from]
      [tile anchor]                                                       of the last block, where no loop over blocks has it
  for no in ns / nb:
    [tile anchor]                                                         otherwise
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import TypeAlias

from benchgraph.gir.domain import domain_of
from benchgraph.gir.ir import Cut, Stage
from benchgraph.gir.product import product
from benchgraph.lower.gemm_task import Accumulator, ColumnBody
from benchgraph.lower.microkernel import KRange, Microkernel
from benchgraph.lower.panel_packing import PanelPacking
from benchgraph.lower.region import Region, Span
from benchgraph.lower.storage import ZERO, Coord
from benchgraph.tir.build import add, in_blocks, mul, seq, sub
from benchgraph.tir.groups import SIDE_BY_SIDE
from benchgraph.tir.ir import Const, Expr, For, Prefetch, Stmt

At: TypeAlias = tuple[Expr, Expr]  # (ko, so) of a block of weights


class PackOnTheFly:
    """One product of a nest. makers: the stages that make its blocks of weights, in order, each with its packing if it only packs."""

    def __init__(self, kernel: Microkernel, stage: Stage, makers: tuple[Stage, ...]) -> None:
        self.kernel, self.task, self.op = kernel, kernel.task, stage.ops[0]
        self.makers = tuple((maker, PanelPacking.of(self.task.storage, maker.ops)) for maker in makers)
        parameters = self.task.parameters(self.op)
        self.acc = Accumulator.of(self.task, self.op)
        self.nb, self.ks, self.ns = stage.nb, parameters.ks, parameters.ns
        *_, self.n = self.task.g.value(self.op.outs[0]).shape
        self.k = product(self.task.g, self.op).reduced[-1]
        self.prefetched = self.makers[0][1] if parameters.prefetch else None

    def columns(self, then: ColumnBody) -> Stmt:
        """The product, one block of columns after the other; `then` is emitted after each panel of it."""
        return self.task.by_rows_and_columns(self.n, self.ns, lambda so, width: self._columns(so, width, then))

    def _columns(self, so: Expr, width: int, then: ColumnBody) -> Stmt:
        last, next_columns = ceil(self.k / self.ks) - 1, (ZERO, add(so, 1))
        rest = self.k - last * self.ks
        is_last_apart = last > 0 and (rest < self.ks or self.prefetched is not None)  # the block after the last is of other columns

        def finish(column_block: Expr, columns: int) -> Stmt:
            def copied(rows: int) -> Stmt:
                return self.acc.copy(self.task.row, Const(rows), column_block, self.nb, columns)

            return seq(self.task.for_rows(copied), then(column_block, columns))

        then_last = finish if self.makers and (is_last_apart or not last) else None  # calls in place have all columns of a block
        blocks = [self._block((ZERO, so), self.ks, width, (Const(1), so) if last else next_columns, None if last else then_last)]
        if last > is_last_apart:
            ko = self.task.storage.var("ko")
            block = self._block((add(ko, 1), so), self.ks, width, (add(ko, 2), so), accumulate=True)
            blocks.append(For(ko, Const(last - is_last_apart), block))
        if is_last_apart:
            blocks.append(self._block((Const(last), so), rest, width, next_columns, then_last, accumulate=True))
        return seq(*blocks, *(() if then_last else (self._by_panels(so, width, finish),)))

    def _by_panels(self, so: Expr, width: int, body: ColumnBody) -> Stmt:
        return self.task.by_panels(so, width, self.ns, self.nb, body)

    def _block(self, at: At, size: int, width: int, following: At, then: ColumnBody | None = None, *, accumulate: bool = False) -> Stmt:
        """Make a block of `size` rows and `width` columns, and multiply by it; following: the block that comes after it. then: emitted
        after each panel of a block that is made."""
        task, ks, (ko, so) = self.task, self.ks, at

        def multiply(column_block: Expr, columns: int, nb: int) -> Stmt:
            acc = self.acc.slice(task.start(column_block, nb))
            k_range = KRange(ko, ks, size, accumulate, tuple(self._prefetches(following, sub(column_block, mul(so, self.ns // nb)))))
            return task.for_rows(lambda rows: self.kernel.call(self.op, column_block, columns, nb, rows, acc, k_range))

        def panel(column_block: Expr, columns: int) -> Stmt:
            call = multiply(column_block, columns, self.nb)
            return call if then is None else seq(call, then(column_block, columns))

        if not self.makers:
            return multiply(so, width, self.ns)
        made = (self._make(maker, packing, ko, size, so, width) for maker, packing in self.makers)
        return seq(*made, self._by_panels(so, width, panel))

    def _prefetches(self, following: At, call: Expr) -> Iterator[Prefetch]:
        """A call's part of what the following block is packed from; all calls of a block prefetch all of it."""
        ko, so = following
        if self.prefetched is None:
            return
        if self.prefetched.reads_rows:
            rows = ceil(self.ks * self.nb / self.ns)
            yield self.prefetched.prefetch(Coord(mul(call, rows), ko, self.ks), Coord(ZERO, so, self.ns), rows, self.ns)
        else:
            yield self.prefetched.prefetch(Coord(ZERO, ko, self.ks), Coord(mul(call, self.nb), so, self.ns), self.ks, self.nb)

    def _make(self, maker: Stage, packing: PanelPacking | None, ko: Expr, size: int, so: Expr, width: int) -> Stmt:
        """A stage on the rows and columns of a block."""
        storage = self.task.storage
        if packing is not None:
            return self._pack(packing, ko, size, so, width)
        domain = domain_of(storage.g, maker.ops)
        spans = [Span(Const(extent), tile=max(extent, 1)) for extent in domain.extents]
        for cut, outer, count, tile in zip(maker.cuts, (ko, so), (size, width), (self.ks, self.ns), strict=True):
            if cut is not None:
                spans[cut.axis] = _span(cut, outer, count, tile)
        return Region(storage, domain, tuple(spans)).emit(maker.ops)

    def _pack(self, packing: PanelPacking, ko: Expr, size: int, so: Expr, width: int) -> Stmt:
        """Pack the panels of a block; from rows, if there are several, a few rows of all panels at a time, which reads memory in order."""
        batch, k = (Coord(ZERO),) * (len(packing.dst.shape) - 2), Coord(ZERO, ko, self.ks)
        if self.ns == self.nb:
            return packing.panel(batch, so, width, k, size)
        if not packing.reads_rows:
            return self._by_panels(so, width, lambda column_block, columns: packing.panel(batch, column_block, columns, k, size))

        def rows(r: Expr, count: int) -> Stmt:
            k = Coord(mul(r, SIDE_BY_SIDE), ko, self.ks)
            return self._by_panels(so, width, lambda column_block, columns: packing.panel(batch, column_block, columns, k, count))

        return in_blocks(size, SIDE_BY_SIDE, self.task.storage.var("r"), rows)


def _span(cut: Cut, outer: Expr, count: int, tile: int) -> Span:
    """`count` indices of a loop from outer * tile on, as indices of the axis that it cuts."""
    return Span(Const(count // cut.unit), outer, tile // cut.unit)
