"""A product whose batch entries all go past one part of a panel of weights, which L2 holds meanwhile, then past the next part.

    parallel for no in N / nb:                             parallel for no in N / nb, and groups of entries:
      parallel for b in batch:                       ->      for b in the group: acc[b, no]  = brgemm(src[b, first part], wei[.., no])
        acc[b, no] = brgemm(src[b, :], wei[:, no])           for each other part:
        post-ops                                               for b in the group: acc[b, no] += brgemm(src[b, part], wei[.., no])
                                                             for b in the group: post-ops

3x3 convolutions of 7x7 images and 1024 channels, whose weights are 38 MB in f32, read all of them for each of 7 rows of every image before.
"""

from __future__ import annotations

from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING

from benchgraph.gir.ir import Stage
from benchgraph.gir.product import product
from benchgraph.lower.access import ZERO
from benchgraph.lower.pieces import Part
from benchgraph.tir.build import add, seq
from benchgraph.tir.ir import Const, Expr, For, LoopKind, Stmt

if TYPE_CHECKING:
    from benchgraph.lower.gemm import GemmNest


class Held:
    """The only stage of a nest, which is cut into parts (Parameters.parts)."""

    def __init__(self, nest: GemmNest, stage: Stage) -> None:
        p = stage.parameters
        assert p is not None
        self.nest, self.stage, self.parameters = nest, stage, p
        *_, self.n = nest.g.value(stage.ops[0].outs[0]).shape
        assert p.kb * p.parts == product(nest.g, stage.ops[0]).reduced[-1], "what reads windows lies row by row"
        self.axes = list(accumulate(nest.rows[:-1], mul, initial=1)).index(p.groups)  # so many axes of the batch make the groups

    def emit(self) -> Stmt:
        """All that the nest does: tasks, and the loops inside them."""
        post_ops = self._entries(self.nest.before_post_ops(self.stage)) if len(self.stage.ops) > 1 else seq()
        body = seq(self.nest.by_columns(self.n, self.stage.nb, self._sums), post_ops)
        body = self._over(slice(0, self.axes), body, LoopKind.parallel)
        assert self.nest.no is not None
        return For(self.nest.no, Const(self.parameters.npn), body, LoopKind.parallel)

    def _sums(self, no: Expr, width: int) -> Stmt:
        part = self.nest.storage.var("part")
        others = For(part, Const(self.parameters.parts - 1), self._added(no, width, add(part, 1), adds=True))
        return seq(self._added(no, width, ZERO, adds=False), others)

    def _added(self, no: Expr, width: int, part: Expr, *, adds: bool) -> Stmt:
        op, nb, size = self.stage.ops[0], self.stage.nb, self.parameters.kb
        return self._entries(self.nest.microkernel(op, no, width, nb, Part(part, size, size, adds)))

    def _entries(self, body: Stmt) -> Stmt:
        """The rows of all entries of a group, one after the other."""
        return self._over(slice(self.axes, None), For(self.nest.mo, Const(self.parameters.mpn), body), LoopKind.serial)

    def _over(self, axes: slice, body: Stmt, kind: LoopKind) -> Stmt:
        """Loops over these axes of the batch."""
        for var, extent in reversed([*zip(self.nest.batch, self.nest.rows, strict=False)][axes]):
            body = For(var, Const(extent), body, kind)
        return body
