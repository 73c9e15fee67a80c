"""settle-borders: border tensors get their layouts, with copies where an op cannot read or write blocks.

    %0: f32[M,K] Ba64b                       %3 = Reorder(%0)                          (a reduction goes over whole rows)
    %1 = ReduceSum(%0)                ->     %1 = ReduceSum(%3)
    %2 = Reorder(%w) to be chosen            %2 = Reorder(%w)  Ba64b                   (weights that the user packs for a product)

Products read panels of weights, and write rows; pointwise and layout ops take every layout. An output of open layout is row-major, or in
panels if a layout op makes it.
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.dtypes import DType
from benchgraph.core.layout import Layout, plain
from benchgraph.gir.build import COPY
from benchgraph.gir.ir import Graph, Op, Value
from benchgraph.gir.layouts import is_packed, packed, panel_columns
from benchgraph.gir.product import operand_axes
from benchgraph.machine.target import Target


def settle_borders(g: Graph, target: Target) -> Graph:
    for id in g.ins:
        if g.value(id).layout.blocks and (id in g.viewed or not all(_reads_blocks(g, op, id, target) for op in g.readers(id))):
            g = _row_major_inside(g, id, g.value(id).layout)
    for id, prescribed in g.open_layouts:
        v, maker = g.value(id), g.maker(id)
        if prescribed is None:
            is_moved = maker is not None and maker.lowering.is_layout_op
            g = g.with_values({id: replace(v, layout=_panels(v, target) if is_moved else plain(len(v.shape)))})
        elif maker is None or maker.lowering.is_contraction:  # a microkernel writes rows, perhaps through a view
            g = _row_major_inside(g, id, prescribed)
        else:
            g = g.with_values({id: replace(v, layout=prescribed)})
    return replace(g, open_layouts=()) if g.open_layouts else g


def _reads_blocks(g: Graph, op: Op, id: int, target: Target) -> bool:
    """Whether an op reads a value in blocks as fast as row-major; of products those whose microkernel streams panels."""
    if not op.lowering.is_contraction:
        return op.lowering.is_layout_op or (op.lowering.is_elementwise and g.value(op.outs[0]).shape == g.value(id).shape)
    layout, rank = g.value(id).layout, len(g.value(id).shape)
    _, width = layout.blocks[0]
    is_streamed = is_packed(layout, rank, 1) and width % target.lanes == 0 and width <= target.panel_width
    return is_streamed and op.ins[0] != id and operand_axes(g, op, 1) is not None


def _panels(v: Value, target: Target) -> Layout:
    """The layout of f32 weights that a product streams."""
    rank = len(v.shape)
    has_panels = rank > 1 and 0 not in v.shape and v.dtype is DType.f32
    return packed(rank, panel_columns(v.shape[-1], target), 1) if has_panels else plain(rank)


def _row_major_inside(g: Graph, id: int, layout: Layout) -> Graph:
    """All ops use a row-major value instead of a border tensor of this layout; an op copies one to the other."""
    v = g.value(id)
    inside = replace(v, id=max(g.by_id) + 1, layout=plain(len(v.shape)), strides=None)

    def ids(of: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(inside.id if v == id else v for v in of)

    nodes = tuple(replace(n, ins=ids(n.ins), outs=ids(n.outs)) for n in g.nodes)
    views = {v.id: replace(v, view=replace(v.view, base=inside.id)) for v in g.values if v.view is not None and v.view.base == id}
    nodes = (Op(COPY, (id,), (inside.id,)), *nodes) if id in g.ins else (*nodes, Op(COPY, (inside.id,), (id,)))
    return replace(g, nodes=nodes).with_values({**views, id: replace(v, layout=layout), inside.id: inside})
