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

from collections.abc import Iterable
from dataclasses import dataclass
from math import gcd

from benchgraph.gir.domain import Domain, domain_of
from benchgraph.gir.ir import Graph, Op, Stage
from benchgraph.lower.microkernel import Microkernel
from benchgraph.lower.region import Region
from benchgraph.lower.storage import Coord
from benchgraph.lower.taps import branch_by_taps
from benchgraph.lower.transposed_epilogue import last_store, store_index
from benchgraph.tir.affine import linear
from benchgraph.tir.build import add, floordiv, mod, mul, nest, seq
from benchgraph.tir.ir import Binary, BinOp, Const, Expr, Pack, Slice, Stmt, Var
from benchgraph.tir.visit import variables


@dataclass(frozen=True)
class Interleaving:
    """Columns n, n + distance, ... , `count` of them, are stored side by side, and after them those of the next row: the phases of a
    transposed convolution with channels first, where row i, column n goes to place i * count + n // distance % count of a row of dst."""

    count: int
    distance: int


def _interleaving(g: Graph, domain: Domain, ops: Iterable[Op], outs: Iterable[int]) -> Interleaving | None:
    """How post-ops interleave a product's columns; None where they do not."""
    stored = last_store(g, domain, ops, outs)
    if stored is None or g.value(g.root(stored[1])).layout.blocks:
        return None
    root, last = g.value(g.root(stored[1])), len(domain.extents) - 1
    row, column = Var("$row"), Var("$column")
    index = store_index(g, domain, *stored, {last - 1: row, last: column})
    moving = [(e, stride) for e, stride in zip(index, root.known_strides, strict=True) if row.name in variables(e)]
    if len(moving) != 1 or moving[0][1] != 1:
        return None
    match sorted(linear(moving[0][0]).terms.items(), key=lambda term: term[0] == row):
        case [(Binary() as digit, 1), (_, count)]:
            distance = _divisor(digit, column)
            return Interleaving(count, distance) if distance and domain.extents[last] % (count * distance) == 0 else None
    return None


def _divisor(digit: Expr, column: Var) -> int:
    """c of `column // c` or `column // c % d`, as 3 for column // 3 % 2; 0 for another expression."""
    match digit:
        case Binary(BinOp.mod, Binary(BinOp.floordiv, x, Const(value=c)), Const()) | Binary(BinOp.floordiv, x, Const(value=c)):
            return int(c) if x == column else 0
    return 0


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
        domain = domain_of(task.g, stage.ops)
        if task.column_block is not None or task.node.split_n or not task.has_private_result(op):
            return None
        phases = _interleaving(task.g, domain, after, task.node.outs)
        nb = min(stage.nb, domain.extents[-1])  # the only panel may be padded
        if phases is None or (width := gcd(nb, phases.distance)) < min(nb, phases.distance):
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
        rank, begin = len(v.shape), mul(task.row_block, task.mb * count)
        column = mul(add(mul(o, self.phases.distance // width), block), width)
        last, last_but_one = (rank - 1, 1), (rank - 2, 1)

        def phase(number: int) -> Stmt:
            column_block = self._column_block(o, Const(number), block)
            acc = Slice(made, (*task.batch, add(begin, number), column), ((rank - 2, count), last))
            return branch_by_taps(
                task, op, column_block, width, width, lambda taps: self.kernel.call(op, column_block, width, width, rows, acc, taps=taps)
            )

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
