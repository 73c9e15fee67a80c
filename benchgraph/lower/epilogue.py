"""Post-ops of a product, each at its anchor: on a tile right after its microkernel call, or on whole rows after all columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchgraph.gir.domain import domain_of
from benchgraph.gir.ir import Anchor, Stage
from benchgraph.gir.product import is_row_major
from benchgraph.lower.gemm_task import ColumnBody, GemmTask
from benchgraph.lower.region import Region, Span
from benchgraph.lower.storage import ZERO, Coord
from benchgraph.machine.target import LINE_BYTES
from benchgraph.tir.build import seq
from benchgraph.tir.ir import Const, Expr, Prefetch, Stmt


class Epilogue:
    """The post-ops of a nest's products. In a nest that prefetches, the first ones on whole rows prefetch the result's cache lines."""

    def __init__(self, task: GemmTask) -> None:
        self.task = task
        self.prefetches_result = bool(task.node.prefetched_entries or task.node.prefetched_rows)

    def emit(
        self,
        stage: Stage,
        multiply: ColumnBody | None = None,
        rows: tuple[Span, ...] | None = None,
        walk: Callable[[ColumnBody], Stmt] | None = None,
    ) -> Stmt:
        """A product and its post-ops. multiply: makes a block of the product's columns; None where these have been made before.

        rows: the batch entry and rows, if not the task's. walk: makes all columns in an order of its own, and runs the given statements
        after each block; instead of multiply.
        """
        task, after = self.task, list(zip(stage.ops, stage.anchors, strict=True))[1:]
        spans = task.spans if rows is None else rows
        domain = domain_of(task.g, stage.ops)
        at_tile, at_rows = ([op for op, at in after if at is anchor] for anchor in (Anchor.tile, Anchor.rows))
        n = domain.extents[-1]

        def tile(column_block: Expr, width: int) -> Stmt:
            made, columns_of_tile = seq() if multiply is None else multiply(column_block, width), Span(Const(width), column_block, stage.nb)
            return seq(made, Region(task.storage, domain, (*spans, columns_of_tile)).emit(at_tile)) if at_tile else made

        columns = walk(tile) if walk is not None else self._all_columns(n, stage, tile, is_task=rows is None)
        if not at_rows:
            return columns
        region = Region(task.storage, domain, (*spans, Span(Const(n), tile=n)), jam=stage.jam)
        region.at_row_start(self._result_prefetch(region.coords[-2]))
        return seq(columns, region.emit(at_rows))

    def _all_columns(self, n: int, stage: Stage, body: ColumnBody, *, is_task: bool) -> Stmt:
        """A loop over the panels of nb columns; within a loop over blocks of ns columns where these are larger."""
        by_columns = self.task.by_rows_and_columns if is_task else self.task.by_columns
        ns = self.task.parameters(stage.ops[0]).ns
        if ns <= stage.nb:
            return by_columns(n, stage.nb, body)
        return by_columns(n, ns, lambda so, width: self.task.by_panels(so, width, ns, stage.nb, body))

    def _result_prefetch(self, row: Coord) -> Iterator[Stmt]:
        task, is_due, self.prefetches_result = self.task, self.prefetches_result, False
        result = task.g.value(task.node.stages[-1].ops[-1].outs[0])
        is_by_row = result.shape[:-1] == task.shape and task.g.root(result.id) in task.g.outs and is_row_major(task.g, result.id)
        if is_due and is_by_row:
            where, index = task.storage.element(result.id, (*map(Coord, task.batch), row, Coord(ZERO)))
            yield Prefetch(where, index, -(-result.dtype.nbytes(result.shape[-1]) // LINE_BYTES), for_write=True)
