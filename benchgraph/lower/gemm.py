"""The GEMM template: a nest of parallel tasks, each mb rows of one batch entry, through all stages of a fused op.

    parallel for b in batch:
      [batch anchor: pack weights that are not constant]
      [reductions over all rows begin: split_k.py]
      parallel for mo in M / mb:
        for each stage:
          for no in N / nb:
            [panel anchor: make wei[:, no], k block by k block: pack_on_the_fly.py]
            acc[mo, no] = brgemm(src[mo, :], wei[:, no])
            [tile anchor: pointwise ops on acc[mb, nb]]
          [rows anchor: everything else, on acc[mb, N]]
      [reductions over all rows end; a nest that has any runs the loop over mo serially]

Every temporary is declared at its full logical shape; shrink-tensors cuts it down to the slice one task uses.
"""

from __future__ import annotations

from benchgraph.gir.domain import domain_of
from benchgraph.gir.ir import FusedOp, Stage
from benchgraph.gir.layouts import layout_block
from benchgraph.gir.on_the_fly_packing import packing_stages
from benchgraph.lower.epilogue import Epilogue
from benchgraph.lower.gemm_task import GemmTask
from benchgraph.lower.gemv import gemv
from benchgraph.lower.microkernel import Microkernel
from benchgraph.lower.pack_on_the_fly import PackOnTheFly
from benchgraph.lower.panel_packing import PanelPacking
from benchgraph.lower.region import Region, Span
from benchgraph.lower.split_k import SplitKProduct
from benchgraph.lower.storage import ZERO, Coord, Storage
from benchgraph.tir.build import in_blocks, nest, seq
from benchgraph.tir.ir import Const, Expr, For, LoopKind, Stmt


class GemmNest:
    """Lowers one FusedOp node that holds at least one tunable op."""

    def __init__(self, storage: Storage, node: FusedOp) -> None:
        self.storage, self.node, self.g = storage, node, storage.g
        self.task = GemmTask.of(storage, node)
        self.kernel = Microkernel(self.task)
        self.epilogue = Epilogue(self.task)

    def lower(self) -> Stmt:
        task, stages, parameters = self.task, self.node.stages, self.node.parameters
        reductions = [SplitKProduct(self.kernel, self.epilogue, stage) for stage in stages if stage.reduces_rows]
        tasks = self.task.kind
        kind = LoopKind.serial if reductions else tasks
        body: Stmt = For(task.row_block, Const(-(-task.m // task.mb)), seq(self._task(), *(r.add_task() for r in reductions)), kind)
        body = seq(*(r.clear() for r in reductions), body, *(r.finish() for r in reductions))
        for depth in range(len(task.batch), -1, -1):
            body = seq(*(self._batch_stage(stage) for stage in stages if stage.is_batch_invariant and len(stage.along) == depth), body)
            if depth:
                body = For(task.batch[depth - 1], Const(task.shape[depth - 1]), body, tasks)
        if task.column_block is not None and parameters is not None:
            body = For(task.column_block, Const(parameters.npn), body, tasks)
        return body

    def _task(self) -> Stmt:
        """The stages of one task."""
        stages = (s for s in self.node.stages if s.is_per_task and not s.is_packing)
        return seq(*map(self._stage, stages))

    def _stage(self, stage: Stage) -> Stmt:
        return self._product(stage) if stage.is_product else self._columns(stage, self.task.spans)

    def _batch_stage(self, stage: Stage) -> Stmt:
        """A stage at the batch anchor: a point along the batch loops, all of its other axes."""
        domain = domain_of(self.g, stage.ops)
        loops = {axis: var for axis, var in zip(stage.along, self.task.batch, strict=False) if axis is not None}
        spans = tuple(
            Span(Const(1), outer=loops[i]) if i in loops else Span(Const(n), tile=max(n, 1)) for i, n in enumerate(domain.extents)
        )
        return self._columns(stage, spans[:-1]) if spans else Region(self.storage, domain, ()).emit(stage.ops)

    def _columns(self, stage: Stage, spans: tuple[Span, ...]) -> Stmt:
        """Ops without a product over the spans and all axes after them; blocked values in a loop over their column blocks."""
        domain = domain_of(self.g, stage.ops)
        packing = PanelPacking.of(self.storage, stage.ops)
        if packing is not None and len(spans) == len(domain.extents) - 1 and spans[-1].extent == Const(domain.extents[-2]):
            return self._pack(packing, spans[:-1])
        spans += tuple(Span(Const(extent), tile=extent) for extent in domain.extents[len(spans) : -1])
        n = domain.extents[-1]
        block = layout_block(self.g, (v for op in stage.ops for v in (*op.ins, *op.outs))) or max(n, 1)

        def body(column_block: Expr, width: int) -> Stmt:
            columns = Span(Const(width), column_block, block)
            return Region(self.storage, domain, (*spans, columns), jam=stage.jam).emit(stage.ops)

        if self.task.column_block is not None:  # a task is some columns of the product, whose operand all of these columns are
            return in_blocks(n, block, self.storage.var("no"), body)
        return self.task.by_columns(n, block, body)

    def _pack(self, packing: PanelPacking, spans: tuple[Span, ...]) -> Stmt:
        """The panels of the matrices at these spans of the batch axes."""
        variables = [None if span.extent == Const(1) else self.storage.var("i") for span in spans]
        at = tuple(Coord(ZERO if var is None else var, span.outer, span.tile) for var, span in zip(variables, spans, strict=True))
        loops = ((var, span.extent) for var, span in zip(variables, spans, strict=True) if var is not None)
        return nest(loops, packing.panels(LoopKind.serial, at))

    def _product(self, stage: Stage) -> Stmt:
        op, makers, pack = stage.ops[0], packing_stages(self.node, stage), self.kernel.pack_rows(stage)
        if makers or self.task.parameters(op).ks:
            return seq(pack, self.epilogue.emit(stage, walk=PackOnTheFly(self.kernel, stage, makers).columns))
        if (column_body := gemv(self.task, stage)) is not None:
            return self.epilogue.emit(stage, column_body)
        before, inside = (seq(), pack) if self.node.split_n else (pack, seq())  # each task packs for itself
        return seq(
            before, self.epilogue.emit(stage, lambda column_block, width: seq(inside, self.kernel.block(op, column_block, width, stage.nb)))
        )
