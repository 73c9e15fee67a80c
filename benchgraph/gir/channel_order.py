"""Along which axis of a value its maker writes, and its readers read, elements one after the other.

Both follow the axis through layout ops, pointwise ops, reductions over other axes and windows, up to products: these write and read rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from benchgraph.core.memoise import memoised
from benchgraph.gir.closure import closure
from benchgraph.gir.domain import reduction_axes
from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.views import layout_form, result_dims, source_dims

Place: TypeAlias = tuple[int, int | None]  # a value, and the axis of it that is followed; None where a layout op has split or merged it


def product_writes_along(g: Graph, v: int, axis: int) -> bool:
    """Whether a product writes rows along this axis of a value, through the ops since then."""
    return product_axis(g, v, axis) == -1


def product_axis(g: Graph, v: int, axis: int | None) -> int | None:
    """The axis of a product's result, from its end, that this axis of a value is, through the ops since then; None where there is none."""
    axes = _product_axes(g).get(v)
    return None if axis is None or axes is None else axes[axis]


@memoised
def _product_axes(g: Graph) -> Mapping[int, tuple[int | None, ...]]:
    """By value, that of each of its axes."""
    found = dict[int, tuple[int | None, ...]]()
    for op in g.ops:
        out, is_moved = op.outs[0], layout_form(op) is not None
        src = op.ins[0] if is_moved else _like_result(g, op)
        if op.lowering.is_contraction:
            found[out] = tuple(range(-len(g.value(out).shape), 0))
        elif src is not None and (axes := found.get(src)) is not None:
            found[out] = tuple(None if dim is None else axes[dim] for dim in source_dims(g, op)) if is_moved else axes
    return found


def _like_result(g: Graph, op: Op) -> int | None:
    """The operand whose axes are those of the result, of a pointwise op or a window."""
    if op.lowering.is_window:
        return op.ins[0] if len(g.value(op.ins[0]).shape) == len(g.value(op.outs[0]).shape) else None
    shape = g.value(op.outs[0]).shape
    return next((v for v in op.ins if g.value(v).shape == shape), None) if op.lowering.is_pointwise else None


def products_read_along(g: Graph, v: int, axis: int) -> bool:
    """Whether products read rows along this axis of a value, through the ops up to them, and nothing reads it in another order."""
    start: Place = v, axis
    ends = [end for place in closure(start, lambda place: _read_on(g, place)) for end in _ends(g, place)]
    return bool(ends) and all(ends)


def _read_on(g: Graph, place: Place) -> Iterator[Place]:
    """The results of the readers that go on with the axis."""
    v, axis = place
    if axis is None:
        return
    shape = g.value(v).shape
    for op in g.readers(v):
        if layout_form(op) is not None:
            yield op.outs[0], result_dims(g, op)[axis]
        elif _like_result(g, op) == v or (op.lowering.is_pointwise and shape == g.value(op.outs[0]).shape):
            yield from ((out, axis) for out in op.outs)


def _ends(g: Graph, place: Place) -> Iterator[bool]:
    """For each reader at which the axis ends, and for the graph's border, whether it reads along it. Means over other axes do not ask."""
    v, axis = place
    rank = len(g.value(v).shape)
    if axis is None or v in g.outs:
        yield axis == rank - 1
        return
    for op in g.readers(v):
        if op.lowering.is_contraction:
            yield op.ins[0] == v and axis == rank - 1
        elif op.lowering.is_reduction:
            if axis in reduction_axes(op, rank):
                yield False
        elif layout_form(op) is None and not any(out for out, _ in _read_on(g, place) if out in op.outs):
            yield False
