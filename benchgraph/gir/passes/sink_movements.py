"""sink-movements: a pointwise op on one moved tensor and scalars runs before the movement.

%2 = StaticTranspose(%1)              %4 = Divide(%1, 0.1)
%3 = Divide(%2, 0.1)           ->     %3 = StaticTranspose(%4)

The op then joins the nest that makes %1, and the movement, now behind it, is done by whoever writes (make-views).
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.target import Target
from benchgraph.gir.build import Builder
from benchgraph.gir.ir import Graph, Node, Op
from benchgraph.ops import spec
from benchgraph.ops.spec import Elementwise


def sink_movements(g: Graph, target: Target) -> Graph:
    """Until no movement is left in front of such an op: several may follow each other."""
    while (sunk := _sink_once(g)) is not g:
        g = sunk
    return g


def _sink_once(g: Graph) -> Graph:
    builder = Builder(g.values)
    moved_by: dict[int, Op] = {}  # value -> the movement that makes it
    nodes: list[Node] = []
    for op in g.nodes:
        assert isinstance(op, Op)
        position = _moved_operand(g, op, moved_by, builder)
        if position is not None:
            move = moved_by.pop(op.ins[position])
            nodes.remove(move)
            src, dst = builder.values[move.ins[0]], builder.values[op.outs[0]]
            early = builder.new_value(dst.dtype, src.shape)
            nodes.append(replace(op, ins=tuple(src.id if i == position else v for i, v in enumerate(op.ins)), outs=(early,)))
            op = replace(move, ins=(early,), outs=op.outs)
        if spec(op.kind).is_movement and len(op.ins) == 1 and op.ins[0] not in g.ins:
            moved_by[op.outs[0]] = op
        nodes.append(op)
    return g if tuple(nodes) == g.nodes else replace(g, values=tuple(builder.values.values()), nodes=tuple(nodes))


def _moved_operand(g: Graph, op: Op, moved_by: dict[int, Op], builder: Builder) -> int | None:
    """The operand that a movement makes for this op alone, if all others are scalars."""
    how = spec(op.kind).lower
    if not isinstance(how, Elementwise) or how.place is not None or len(op.outs) != 1:
        return None
    large = [i for i, v in enumerate(op.ins) if g.value(v).type.elements != 1]
    if len(large) != 1 or op.ins[large[0]] not in moved_by:
        return None
    v = g.value(op.ins[large[0]])
    src = builder.values[moved_by[v.id].ins[0]]
    fits = all(len(g.value(i).shape) <= min(len(v.shape), len(src.shape)) for i in op.ins if i != v.id)  # scalars may have dims of 1
    is_alone = g.consumers[v.id] == (op,) and v.id not in g.outs and op.ins.count(v.id) == 1
    return large[0] if is_alone and fits and v.shape == g.value(op.outs[0]).shape else None
