"""defer-scaling: scaling the rows of src is scaling the rows of the product, which are shorter.

    %2: f32[64,512] = Multiply(%0, %1: f32[64,1])      %4 = MatMul(%0, %w)
    %3: f32[64,64] = MatMul(%2, %w)               ->   %3: f32[64,64] = Multiply(%4, %1)

Attention divides its exponentials by their sum; done after the product with V, the division touches the head size, not the sequence.
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.target import Target
from benchgraph.gir.build import Builder
from benchgraph.gir.ir import Graph, Node, Op
from benchgraph.gir.product import product
from benchgraph.ops import spec


def defer_scaling(g: Graph, target: Target) -> Graph:
    builder = Builder(g.values)
    moved: dict[int, tuple[Op, int]] = {}  # id of the MatMul op -> (the Multiply before it, which operand is the scale)
    for op in g.nodes:
        assert isinstance(op, Op)
        scaling = g.producer.get(op.ins[0]) if spec(op.kind).is_contraction and product(g, op).is_row_wise else None
        if isinstance(scaling, Op) and (position := _scale_operand(g, scaling, op)) is not None:
            moved[id(op)] = (scaling, position)
    if not moved:
        return g
    gone = {id(scaling) for scaling, _ in moved.values()}
    nodes: list[Node] = []
    for op in g.nodes:
        assert isinstance(op, Op)
        if id(op) in gone:
            continue
        if id(op) in moved:
            scaling, position = moved[id(op)]
            out = g.value(op.outs[0])
            unscaled = builder.new_value(out.dtype, out.shape)
            nodes.append(replace(op, ins=(scaling.ins[1 - position], op.ins[1]), outs=(unscaled,)))
            op = replace(scaling, ins=(unscaled, scaling.ins[position]), outs=op.outs)
        nodes.append(op)
    return replace(g, nodes=tuple(nodes), values=tuple(builder.values.values()))


def _scale_operand(g: Graph, scaling: Op, matmul: Op) -> int | None:
    """Which operand of `scaling` is one number per row of the product's src, if scaling later is right and cheaper."""
    src, out = g.value(scaling.outs[0]), g.value(matmul.outs[0])
    if not spec(scaling.kind).is_product or g.consumers[src.id] != (matmul,) or src.id in g.outs or matmul.ins[1] == src.id:
        return None
    if src.shape[-1] <= out.shape[-1] or src.shape[:-1] != out.shape[:-1]:
        return None
    for position, v in enumerate(scaling.ins):
        scale, scaled = g.value(v), g.value(scaling.ins[1 - position])
        per_row = len(scale.shape) == len(src.shape) and scale.shape[-1] == 1
        if per_row and scaled.type == src.type and scale.dtype is src.dtype:
            return position
    return None
