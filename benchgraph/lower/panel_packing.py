"""Ops that only copy or convert weights into panels: one Pack statement per panel instead of loops over its elements."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from benchgraph.core.dtypes import DType
from benchgraph.gir.build import CONVERT
from benchgraph.gir.ir import Graph, Op, Value
from benchgraph.gir.layouts import is_packed
from benchgraph.gir.product import Axis, buffer_axes, has_unit_stride
from benchgraph.lower.storage import ZERO, Coord, Coords, Element, Storage
from benchgraph.machine.target import LINE_BYTES
from benchgraph.ops.quantisation.quantised_product import RECENTRE
from benchgraph.ops.spec import LayoutOp
from benchgraph.tir.build import in_blocks, nest
from benchgraph.tir.groups import PACKED_FROM, WEI_GROUPS
from benchgraph.tir.ir import Const, Expr, LoopKind, Pack, Prefetch, Slice, Stmt, Var

ROW, COLUMN = Var("$row"), Var("$column")
FIRST = Coord(ZERO)


@dataclass(frozen=True)
class PanelPacking:
    """An op that packs a matrix, or one matrix per batch entry. axes: of rows and columns in the buffer that it reads."""

    storage: Storage
    op: Op
    axes: tuple[Axis, ...]

    @classmethod
    def of(cls, storage: Storage, ops: tuple[Op, ...]) -> PanelPacking | None:
        """None where the ops do more than to pack, no microkernel reads the result, or src would have to be gathered."""
        g = storage.g
        if len(ops) != 1 or len(ops[0].ins) != 1:
            return None
        op, src, dst = ops[0], g.value(ops[0].ins[0]), g.value(ops[0].outs[0])
        rank = len(dst.shape)
        if rank < 2 or dst.view is not None or 0 in dst.shape or dst.dtype not in WEI_GROUPS:
            return None
        is_converted = src.dtype in PACKED_FROM[dst.dtype] and not g.value(g.root(src.id)).layout.blocks
        if not is_converted or not is_packed(dst.layout, rank, WEI_GROUPS[dst.dtype]):
            return None
        if not (op.lowering.is_layout_op or op.kind == (RECENTRE if dst.dtype is DType.s8 else CONVERT)):
            return None
        batch = tuple(Var(f"$batch{i}") for i in range(rank - 2))
        axes = buffer_axes(g, src.id, _source(g, op, (*batch, ROW, COLUMN)), (ROW, COLUMN))
        if axes is None or (0, 0) in axes or not any(has_unit_stride(g, src.id, axis) for axis in axes):
            return None
        return cls(storage, op, axes)

    @property
    def dst(self) -> Value:
        return self.storage.g.value(self.op.outs[0])

    @property
    def reads_rows(self) -> bool:
        """Whether the rows of the matrix are contiguous in memory."""
        return has_unit_stride(self.storage.g, self.op.ins[0], self.axes[1])

    def panel(self, batch: Coords, panel_index: Expr, columns: int, k: Coord = FIRST, rows: int | None = None) -> Pack:
        """The panel with this number, `columns` wide, of one batch entry's matrix; with `rows`, only so many of its rows from k on."""
        rank, (_, block) = len(self.dst.shape), self.dst.layout.blocks[0]
        at = (*batch, k, Coord(ZERO, panel_index, block))
        dst = Slice(*self.storage.element(self.dst.id, at), ((rank - 1, 1), (rank, 1)))
        return Pack(Slice(*self._source_element(at), self.axes), dst, rows or self.dst.shape[-2], columns)

    def panels(self, kind: LoopKind, batch: Coords | None = None) -> Stmt:
        """A loop over the panels of the matrix of a batch entry; without one, loops over all matrices and panels."""
        *outer, _, n = self.dst.shape
        loops = [] if batch is not None else [(self.storage.var("u"), Const(extent)) for extent in outer]
        at = tuple(Coord(var) for var, _ in loops) if batch is None else batch
        _, block = self.dst.layout.blocks[0]
        panels = in_blocks(n, block, self.storage.var("no"), lambda panel_index, columns: self.panel(at, panel_index, columns), kind)
        return nest(loops, panels, kind)

    def prefetch(self, k: Coord, column: Coord, rows: int, columns: int) -> Prefetch:
        """A prefetch of what is read for so many rows and columns, from these on, for weights without batch dims above 1."""
        src, index = self._source_element((*(FIRST for _ in self.dst.shape[:-2]), k, column))
        row_pitch, column_pitch = (src.strides[dim] * step for dim, step in self.axes)
        length, count, stride = (columns, rows, row_pitch) if self.reads_rows else (rows, columns, column_pitch)
        return Prefetch(src, index, ceil(src.dtype.nbytes(length) / LINE_BYTES), count=count, stride=stride)

    def _source_element(self, at: Coords) -> Element:
        source = _source(self.storage.g, self.op, tuple(c.value for c in at))
        return self.storage.element(self.op.ins[0], tuple(map(Coord, source)))


def _source(g: Graph, op: Op, at: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The index of src that dst's element at this index is copied from."""
    lowering = op.lowering.form
    if not isinstance(lowering, LayoutOp):
        return at
    return lowering.source(op.attrs, g.value(op.ins[0]).shape, g.value(op.outs[0]).shape, at)
