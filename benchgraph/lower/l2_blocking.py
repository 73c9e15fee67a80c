"""L2 blocking: all batch entries of a task are multiplied by one part of a weight panel, which stays in L2, then by the next part.

    parallel for no in N / nb:                             parallel for no in N / nb, and groups of entries:
      parallel for b in batch:                       ->      for b in the group: acc[b, no]  = brgemm(src[b, part 0], wei[.., no])
        acc[b, no] = brgemm(src[b, :], wei[:, no])           for each other part:
        post-ops                                               for b in the group: acc[b, no] += brgemm(src[b, part], wei[.., no])
                                                             for b in the group: post-ops

Batch entries are, for example, the rows of images in a 3x3 convolution of 1024 channels, which would each read 38 MB of f32 weights.
"""

from __future__ import annotations

from itertools import accumulate
from operator import mul

from benchgraph.gir.ir import Stage
from benchgraph.gir.product import product
from benchgraph.lower.epilogue import Epilogue
from benchgraph.lower.microkernel import KRange, Microkernel
from benchgraph.lower.storage import ZERO
from benchgraph.tir.build import add, nest, seq
from benchgraph.tir.ir import Const, Expr, For, LoopKind, Stmt


class L2Blocking:
    """The only stage of a nest whose weight panels are cut into parts (Parameters.l2_parts)."""

    def __init__(self, kernel: Microkernel, epilogue: Epilogue, stage: Stage) -> None:
        p = stage.parameters
        assert p is not None
        self.kernel, self.task, self.epilogue, self.stage, self.parameters = kernel, kernel.task, epilogue, stage, p
        *_, self.n = self.task.g.value(stage.ops[0].outs[0]).shape
        assert p.kb * p.l2_parts == product(self.task.g, stage.ops[0]).reduced[-1], "a part does not end within a row of a window"
        axes = list(accumulate(self.task.shape[:-1], mul, initial=1)).index(p.entry_groups)  # the outer batch axes number the groups
        loops = [(var, Const(extent)) for var, extent in zip(self.task.batch, self.task.shape, strict=False)]
        self.groups, self.entries = loops[:axes], loops[axes:]

    def emit(self) -> Stmt:
        """The nest: its parallel loops over column blocks and groups of entries, and the loops inside of them."""
        assert self.task.column_block is not None
        post_ops = self._for_rows(self.epilogue.emit(self.stage)) if len(self.stage.ops) > 1 else seq()
        body = seq(self.task.by_columns(self.n, self.stage.nb, self._sums), post_ops)
        return nest([(self.task.column_block, Const(self.parameters.npn)), *self.groups], body, LoopKind.parallel)

    def _sums(self, column_block: Expr, width: int) -> Stmt:
        part = self.task.storage.var("part")
        others = For(part, Const(self.parameters.l2_parts - 1), self._multiply(column_block, width, add(part, 1), accumulate=True))
        return seq(self._multiply(column_block, width, ZERO, accumulate=False), others)

    def _multiply(self, column_block: Expr, width: int, part: Expr, *, accumulate: bool) -> Stmt:
        size = self.parameters.kb
        return self._for_rows(
            self.kernel.block(self.stage.ops[0], column_block, width, self.stage.nb, KRange(part, size, size, accumulate))
        )

    def _for_rows(self, body: Stmt) -> Stmt:
        """Loops over the rows of all entries of a group."""
        return nest([*self.entries, (self.task.row_block, Const(self.parameters.mpn))], body)
