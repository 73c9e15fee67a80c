"""Products that sum over the rows of their nest: acc[all rows, N] of a batch entry, to which every task adds its part.

    acc = 0
    for mo in M / mb:
      ...
      acc += brgemm(src[:, mo*mb:+mb], wei[mo*mb:+mb, :])
    post-ops on acc

The gradients of keys and values are such: sums over the queries, a task's rows of which are in cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchgraph.core.dtypes import DType
from benchgraph.gir.ir import Stage
from benchgraph.gir.product import acc_dtype, product
from benchgraph.lower.access import ZERO, Coord
from benchgraph.lower.region import Span
from benchgraph.tir.build import f32, seq
from benchgraph.tir.ir import Brgemm, Const, Expr, For, Load, Slice, Stmt, Store, Tensor

if TYPE_CHECKING:
    from benchgraph.lower.gemm import GemmNest


class Sum:
    """One such stage of a nest. It sums in its result's own memory, or in a temporary where the microkernel cannot write there."""

    def __init__(self, nest: GemmNest, stage: Stage) -> None:
        self.nest, self.stage, self.op = nest, stage, stage.ops[0]
        assert acc_dtype(nest.g, self.op) is DType.f32, "fuse-coarse cuts k where sums are f32"
        result = nest.g.value(self.op.outs[0])
        self.m, self.n = result.shape[-2:]
        self.acc: Tensor | None = None if nest.result(self.op, self._at(ZERO, ZERO, 1)) else nest.storage.scratch(result, DType.f32)

    def _at(self, i: Expr, no: Expr, nb: int, j: Expr = ZERO) -> tuple[Coord, ...]:
        return (*(Coord(var) for var in self.nest.batch), Coord(i), Coord(j, no, nb))

    def _place(self, at: tuple[Coord, ...]) -> tuple[Tensor, tuple[Expr, ...]]:
        if self.acc is not None:
            return self.acc, tuple(c.value for c in at)
        return self.nest.storage.place(self.op.outs[0], at)

    def cleared(self) -> Stmt:
        i, j, nb = self.nest.storage.var("i"), self.nest.storage.var("j"), self.stage.nb

        def columns(no: Expr, width: int) -> Stmt:
            return For(j, Const(width), Store(*self._place(self._at(i, no, nb, j)), f32(0.0)))

        return For(i, Const(self.m), self.nest.by_columns(self.n, nb, columns))

    def added(self) -> Stmt:
        """The part of the task's rows."""
        nest, nb, p = self.nest, self.stage.nb, product(self.nest.g, self.op)
        rows, held = Coord(ZERO, nest.mo, nest.mb), nest.packed.get(self.op)

        def columns(no: Expr, width: int) -> Stmt:
            start = self._at(ZERO, no, nb)
            acc = nest.result(self.op, start)
            if self.acc is not None:
                acc = Slice(self.acc, tuple(c.value for c in start), ((len(start) - 2, 1), (len(start) - 1, 1)))
            assert acc is not None
            wei = nest.operand(self.op, p, 1, start, rows)
            if held is not None:
                return nest.for_rows(lambda k: held.reduce(wei, acc, start, self.m, width, rows, k, adds=True))
            src = nest.operand(self.op, p, 0, start, rows)
            return nest.for_rows(lambda k: Brgemm(src, wei, acc, self.m, width, k, accumulate=True))

        added = nest.by_columns(self.n, nb, columns)
        return added if held is None else seq(nest.for_rows(lambda k: held.pack(self._at(ZERO, ZERO, nb), self.m, rows, k)), added)

    def finished(self) -> Stmt:
        """The post-ops, on all rows; first of all a sum that was made elsewhere goes where it belongs."""
        return self.nest.before_post_ops(self.stage, self._copied, (*self.nest.batch_point(), Span(Const(self.m), tile=max(self.m, 1))))

    def _copied(self, no: Expr, width: int) -> Stmt:
        if self.acc is None:
            return seq()
        i, j = self.nest.storage.var("i"), self.nest.storage.var("j")
        at = self._at(i, no, self.stage.nb, j)
        copy = self.nest.storage.store(self.op.outs[0], at, Load(self.acc, tuple(c.value for c in at)))
        return For(i, Const(self.m), For(j, Const(width), copy))
