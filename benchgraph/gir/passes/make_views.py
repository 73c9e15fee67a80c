"""make-views: data movement that a neighbour can do while it reads or writes needs no buffer and no op.

%2 = StaticTranspose(%1)              %2 = view of %1         (readers of %2 read %1 through the transposition)
%3 = MatMul(%0, %2)            ->     %3 = MatMul(%0, %2)
%4 = Reorder(%3)                      %3 = view of %4         (the MatMul writes where the Reorder would have put it)
return %4                             return %4
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.target import Target
from benchgraph.gir.ir import Graph, Node, Op, Value, View
from benchgraph.ops import spec
from benchgraph.ops.affine import unit_steps
from benchgraph.ops.spec import Movement


def make_views(g: Graph, target: Target) -> Graph:
    """First from the outputs back (producers write in place), then from the inputs on (consumers read in place)."""
    border = {*g.ins, *g.outs}
    changed: dict[int, Value] = {}
    gone: set[int] = set()
    for node in reversed(g.nodes):
        if isinstance(node, Op) and spec(node.kind).is_movement and _can_write_through(g, node, border):
            changed[node.ins[0]] = _view(g, node, of=node.outs[0])
            gone.add(id(node))
    for node in g.nodes:
        is_movement = isinstance(node, Op) and spec(node.kind).is_movement
        if is_movement and id(node) not in gone and node.outs[0] not in border and node.outs[0] not in changed:
            assert isinstance(node, Op)
            changed[node.outs[0]] = _view(g, node, of=node.ins[0])
            gone.add(id(node))
    kept: tuple[Node, ...] = tuple(node for node in g.nodes if id(node) not in gone)
    return replace(g.changed(changed), nodes=kept) if changed else g


def _view(g: Graph, op: Op, of: int) -> Value:
    inverse = of == op.outs[0]
    moved = g.value(op.ins[0] if inverse else op.outs[0])
    src, dst = g.value(op.ins[0]).shape, g.value(op.outs[0]).shape
    return replace(moved, view=View(of, op.kind, op.attrs, src, dst, inverse))


def _can_write_through(g: Graph, op: Op, border: set[int]) -> bool:
    """The producer has no other reader to serve, and a microkernel among the producers still finds rows of unit stride."""
    src, dst = g.value(op.ins[0]), g.value(op.outs[0])
    producer = g.producer.get(src.id)
    movement = spec(op.kind).lower
    if isinstance(movement, Movement) and movement.target is None:
        return False
    if src.id in border or producer is None or g.consumers[src.id] != (op,) or src.constness != dst.constness:
        return False
    if isinstance(producer, Op) and spec(producer.kind).is_contraction:
        row, col = unit_steps(op.kind, op.attrs, src.shape, dst.shape, inverse=True)[-2:]
        return row is not None and col == len(dst.shape) - 1
    return True
