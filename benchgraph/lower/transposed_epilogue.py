"""Post-ops that store columns: a product's tile is transposed in registers first, so that they run along its rows.

    acc[mb, nb] = brgemm(...)                          acc[mb, nb] = brgemm(...)
    for i in mb:                                ->     t[nb, mb] = transpose(acc)
      for j in nb: dst[j, i] = ReLU(acc[i, j])         for j in nb:
                                                         for i in mb: dst[j, i] = ReLU(t[j, i])

With channels first, neighbouring columns of a product are an image apart in memory: vectors along columns would be scattered. After the
transposition, 16 x 16 at a time, all post-ops and stores are contiguous (docs/measurements/lowering.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchgraph.gir.domain import Domain
from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.views import root_index
from benchgraph.lower.gemm_task import GemmTask, transposed
from benchgraph.lower.loop_order import covers_all_axes
from benchgraph.lower.region import Region, Span
from benchgraph.lower.storage import Coords, Element
from benchgraph.ops.spec import Indices, LayoutOp
from benchgraph.tir.build import constant, seq
from benchgraph.tir.ir import Const, Expr, Pack, Slice, Stmt, Tensor
from benchgraph.tir.vector_loops import largest_store_stride


@dataclass(frozen=True)
class TransposedEpilogue:
    """buffer: for the result of op, with its last two axes exchanged."""

    task: GemmTask
    op: Op
    buffer: Tensor

    @classmethod
    def of(cls, task: GemmTask, op: Op, domain: Domain, post_ops: Iterable[Op]) -> TransposedEpilogue | None:
        """None where the post-ops store rows, or the product's result is not private to the nest."""
        if not _stores_columns(task.g, domain, post_ops, task.node.outs) or not task.has_private_result(op):
            return None
        v = task.g.value(op.outs[0])
        return cls(task, op, task.storage.temporary(v.dtype, (*v.shape[:-2], v.shape[-1], v.shape[-2])))

    def emit(self, column_block: Expr, nb: int, width: int, domain: Domain, spans: tuple[Span, ...], ops: Iterable[Op]) -> Stmt:
        """Transpose `width` columns from block no on, then run post-ops on them along the rows."""
        storage, (result,) = self.task.storage, self.op.outs
        with storage.redirect({result: self._element}):
            body = Region(storage, domain, spans, inner=len(spans) - 2).emit(ops)
        return seq(self._transpose(column_block, nb, width), body)

    def _element(self, coords: Coords) -> Element:
        *batch, row, column = (c.value for c in coords)
        return self.buffer, (*batch, column, row)

    def _transpose(self, column_block: Expr, nb: int, width: int) -> Stmt:
        start, last = self.task.start(column_block, nb), len(self.buffer.shape) - 1
        acc = self.task.result(self.op, start)
        assert acc is not None, "only a result that the microkernel writes is transposed"
        dst = Slice(*self._element(start), ((last - 1, 1), (last, 1)))
        return self.task.for_rows(lambda rows: Pack(transposed(acc), dst, width, rows))


def _stores_columns(g: Graph, domain: Domain, ops: Iterable[Op], outs: Iterable[int]) -> bool:
    """Whether post-ops store elements of one column contiguously, as with channels first, or with a stride so small that vectors of them
    are stored, as with a transposed convolution of stride two."""
    stored = last_store(g, domain, ops, outs)
    if stored is None:
        return False
    row, column = (_stride(g, domain, *stored, axis) for axis in (len(domain.extents) - 2, len(domain.extents) - 1))
    return row is not None and column is not None and 1 <= row <= largest_store_stride(g.value(stored[1]).dtype) and row < column


def last_store(g: Graph, domain: Domain, ops: Iterable[Op], outs: Iterable[int]) -> tuple[Op, int] | None:
    """The last result that leaves the nest, and its op; None if the post-ops need one particular order of rows and columns."""
    all_ops = tuple(ops)
    stored = [(op, v) for op in all_ops for v in op.outs if g.root(v) in outs]
    return stored[-1] if stored and covers_all_axes(domain, all_ops) else None


def store_index(g: Graph, domain: Domain, op: Op, id: int, at: Mapping[int, Expr]) -> Indices:
    """The index in its root's shape of a result's element. at: coordinates by axis of the domain, 0 where not given."""
    lowering, is_scattered = op.lowering.form, id in domain.scattered
    index: Indices = tuple(Const(0) if a is None else at.get(a, Const(0)) for a in domain.axes[op.ins[0] if is_scattered else id])
    if is_scattered and isinstance(lowering, LayoutOp) and lowering.target is not None:
        index = lowering.target(op.attrs, g.value(op.ins[0]).shape, g.value(id).shape, index)
    return root_index(g, id, index)


def _stride(g: Graph, domain: Domain, op: Op, id: int, axis: int) -> int | None:
    """The distance in a result's memory of its first two elements along an axis; 0 for an axis of size 1, None if unknown."""
    root = g.value(g.root(id))
    if domain.extents[axis] < 2 or root.layout.blocks:
        return None if root.layout.blocks else 0
    places = []
    for i in (0, 1):
        index = [constant(e) for e in store_index(g, domain, op, id, {axis: Const(i)})]
        if None in index:
            return None
        places.append(sum((i or 0) * stride for i, stride in zip(index, root.known_strides, strict=True)))
    return abs(places[1] - places[0])
