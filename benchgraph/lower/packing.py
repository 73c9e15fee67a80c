"""Weights that are copied or converted into panels: one Pack per panel instead of loops over its elements."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from benchgraph.core.dtypes import DType
from benchgraph.core.target import LINE_BYTES
from benchgraph.gir.build import CONVERT
from benchgraph.gir.ir import Graph, Op, Value
from benchgraph.gir.layouts import packed
from benchgraph.gir.product import Axis, buffer_axes, has_unit_stride
from benchgraph.lower.access import ZERO, Coord, Storage
from benchgraph.ops import spec
from benchgraph.ops.quantisation.quantised_product import RECENTRE
from benchgraph.ops.spec import DataMovement
from benchgraph.tir.build import in_blocks, nest
from benchgraph.tir.groups import PACKED_FROM, WEI_GROUPS
from benchgraph.tir.ir import Const, Expr, LoopKind, Pack, Prefetch, Slice, Stmt, Tensor, Var

ROW, COLUMN = Var("$row"), Var("$column")
FIRST = Coord(ZERO)


@dataclass(frozen=True)
class Packing:
    """An op that does nothing else than pack a matrix, or several. axes: of rows and columns in the buffer that it reads."""

    storage: Storage
    op: Op
    axes: tuple[Axis, ...]

    @property
    def dst(self) -> Value:
        return self.storage.g.value(self.op.outs[0])

    def panel(self, batch: tuple[Coord, ...], no: Expr, columns: int, k: Coord = FIRST, size: int | None = None) -> Pack:
        """The no-th panel, of so many columns, of the matrix at these coordinates. k, size: of its rows, those that are wanted; all."""
        rank, (_, block) = len(self.dst.shape), self.dst.layout.blocks[0]
        at = (*batch, k, Coord(ZERO, no, block))
        src, index = self._read(at)
        dst, place = self.storage.place(self.dst.id, at)
        return Pack(Slice(src, index, self.axes), Slice(dst, place, ((rank - 1, 1), (rank, 1))), size or self.dst.shape[-2], columns)

    @property
    def reads_rows(self) -> bool:
        """Whether elements of one row of the matrix lie side by side where they are read."""
        return has_unit_stride(self.storage.g, self.op.ins[0], self.axes[1])

    def ahead(self, k: Coord, column: Coord, rows: int, columns: int) -> Prefetch:
        """What is read of so many rows and columns of the only matrix, from these on, to be fetched ahead."""
        src, index = self._read((*(FIRST for _ in self.dst.shape[:-2]), k, column))
        by_row, by_column = (src.strides[dim] * step for dim, step in self.axes)
        length, runs, pitch = (columns, rows, by_row) if self.reads_rows else (rows, columns, by_column)
        return Prefetch(src, index, ceil(src.dtype.nbytes(length) / LINE_BYTES), count=runs, stride=pitch)

    def _read(self, at: tuple[Coord, ...]) -> tuple[Tensor, tuple[Expr, ...]]:
        """Where the element at these coordinates is packed from."""
        away = _source(self.storage.g, self.op, tuple(c.value for c in at))
        return self.storage.place(self.op.ins[0], tuple(map(Coord, away)))

    def nest(self, kind: LoopKind, batch: tuple[Coord, ...] | None = None) -> Stmt:
        """All panels of the matrix at these coordinates; of every matrix, in loops of this kind, when there are none."""
        *outer, _, n = self.dst.shape
        loops = () if batch is not None else tuple((self.storage.var("o"), extent) for extent in outer)
        at = batch if batch is not None else tuple(Coord(var) for var, _ in loops)
        _, block = self.dst.layout.blocks[0]
        body = in_blocks(n, block, self.storage.var("no"), lambda no, columns: self.panel(at, no, columns), kind)
        return nest(((var, Const(extent)) for var, extent in loops), body, kind)


def packing(storage: Storage, ops: tuple[Op, ...]) -> Packing | None:
    """The ops as a packing; None when they are more, or no microkernel reads what they make, or it has to be gathered."""
    g = storage.g
    if len(ops) != 1 or len(ops[0].ins) != 1:
        return None
    op, src, dst = ops[0], g.value(ops[0].ins[0]), g.value(ops[0].outs[0])
    rank, blocks = len(dst.shape), dst.layout.blocks
    if rank < 2 or dst.view is not None or not blocks or 0 in dst.shape or dst.dtype not in WEI_GROUPS:
        return None
    if src.dtype not in PACKED_FROM[dst.dtype]:
        return None
    if dst.layout != packed(rank, blocks[0][1], WEI_GROUPS[dst.dtype]) or g.value(g.root(src.id)).layout.blocks:
        return None
    if not (spec(op.kind).lowering.is_data_movement or op.kind == (RECENTRE if dst.dtype is DType.s8 else CONVERT)):
        return None
    batch = tuple(Var(f"$batch{i}") for i in range(rank - 2))
    axes = buffer_axes(g, src.id, _source(g, op, (*batch, ROW, COLUMN)), (ROW, COLUMN))
    if axes is None or (0, 0) in axes or not any(has_unit_stride(g, src.id, axis) for axis in axes):
        return None
    return Packing(storage, op, axes)


def _source(g: Graph, op: Op, at: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The index of src that dst's element at this index comes from."""
    how = spec(op.kind).lowering.form
    if not isinstance(how, DataMovement):
        return at
    return how.source(op.attrs, g.value(op.ins[0]).shape, g.value(op.outs[0]).shape, at)
