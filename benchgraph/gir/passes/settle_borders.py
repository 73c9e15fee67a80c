"""settle-borders: border tensors get their layouts, with copies where an op cannot read or write them in blocks.

    %0: f32[M,K] Ba64b                       %5 = Reorder(%0)                          (a reduction goes over whole rows)
    %1 = ReduceSum(%0)                ->     %1 = ReduceSum(%5)
    %2 = MatMul(%1, %w) to be chosen         %2 = MatMul(%1, %w)  Ba64b                (the next product reads it as a batch of blocks)

An output of open layout takes the one that its producer writes at no cost: column blocks of a product, the blocks of an input of pointwise
ops, panels for a product from a layout op. A layout that the user prescribes and a product cannot write costs one more op.
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.dtypes import DType
from benchgraph.core.layout import Layout, plain
from benchgraph.gir.build import COPY
from benchgraph.gir.column_blocks import result_block
from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.layouts import column_blocked, is_packed, panel_columns
from benchgraph.gir.product import operand_axes, product
from benchgraph.machine.target import Target


def settle_borders(g: Graph, target: Target) -> Graph:
    for id in g.ins:
        if g.value(id).layout.blocks and (id in g.viewed or not all(_reads_blocks(g, op, id, target) for op in g.readers(id))):
            g = _row_major_inside(g, id, g.value(id).layout)
    for id, prescribed in g.open_layouts:
        preferred = _preferred(g, id, target)
        maker = g.maker(id)
        writes_rows = maker is None or maker.lowering.is_contraction  # a microkernel, or through a view
        if prescribed is None or prescribed == preferred or not writes_rows:
            layout = prescribed or preferred or plain(len(g.value(id).shape))
            g = g.with_values({id: replace(g.value(id), layout=layout)})
        else:
            g = _row_major_inside(g, id, prescribed)
    return replace(g, open_layouts=()) if g.open_layouts else g


def _reads_blocks(g: Graph, op: Op, id: int, target: Target) -> bool:
    """Whether an op reads the value in blocks as fast as row-major."""
    if op.lowering.is_contraction:
        return all(_streams(g, op, port, target) for port, v in enumerate(op.ins) if v == id)
    return op.lowering.is_layout_op or (op.lowering.is_elementwise and g.value(op.outs[0]).shape == g.value(id).shape)


def _streams(g: Graph, op: Op, port: int, target: Target) -> bool:
    """Whether the microkernel streams the blocks of an operand: whole blocks along K of src, panels of wei."""
    value = g.value(op.ins[port])
    ((_, size),) = value.layout.blocks
    if operand_axes(g, op, port) is None:
        return False
    rank = len(value.shape)
    return (
        value.shape[-1] % size == 0
        if port == 0
        else is_packed(value.layout, rank, 1) and size % target.lanes == 0 and size <= target.panel_width
    )


def _preferred(g: Graph, id: int, target: Target) -> Layout | None:
    """The blocked layout in which the value is written at no cost, None when there is none; pointwise ops keep that of an operand."""
    work, seen = [id], set[int]()
    while work:
        if (at := work.pop()) in seen:
            continue
        seen.add(at)
        v, node = g.value(at), g.maker(at)
        if v.layout.blocks:
            return v.layout
        if len(v.shape) < 2 or 0 in v.shape or node is None:
            continue
        if node.lowering.is_contraction and (block := result_block(product(g, node), target)):
            return column_blocked(len(v.shape), block)
        if node.lowering.is_layout_op and v.dtype is DType.f32:
            return column_blocked(len(v.shape), panel_columns(v.shape[-1], target))
        if node.lowering.is_elementwise:
            work += (s for s in reversed(node.ins) if g.value(s).shape == v.shape)  # the first one is the next
    return None


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
