"""How the microkernel would see a value: as rows and columns of a buffer, or not at all."""

from __future__ import annotations

from dataclasses import dataclass

from benchgraph.core.tensor import dense_strides
from benchgraph.gir.ir import Graph
from benchgraph.ops.affine import unit_steps


@dataclass(frozen=True)
class MatrixDims:
    """The dims of the root value's buffer that the last two axes step along, by one element of that dim each."""

    row: int
    col: int


def matrix_dims(g: Graph, id: int) -> MatrixDims | None:
    """Where the last two axes of a value lie in its root, through all views; None when columns are not unit stride there."""
    value = g.value(id)
    rank = len(value.shape)
    axes: list[int | None] = [rank - 2, rank - 1]
    while value.view is not None:
        view = value.view
        steps = unit_steps(view.kind, view.attrs, view.src_shape, view.dst_shape, inverse=view.inverse)
        axes = [None if axis is None else steps[axis] for axis in axes]
        value = g.value(view.base)
    row, col = axes
    if row is None or col is None:
        return None
    if value.layout.blocks:
        return None if value.id != id else _blocked(value.layout.order, value.layout.blocks, row, col)
    strides = value.strides if value.strides is not None else dense_strides(value.shape)
    return MatrixDims(row, col) if strides[col] == 1 or value.shape[col] == 1 else None


def _blocked(order: tuple[int, ...], blocks: tuple[tuple[int, int], ...], row: int, col: int) -> MatrixDims | None:
    """A column-blocked buffer [..., N/nb, M, nb]: rows are an outer dim, columns the inner block."""
    if len(blocks) != 1 or blocks[0][0] != col:
        return None
    return MatrixDims(order.index(row), len(order))
