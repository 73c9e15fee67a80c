"""sink-transpositions: a pointwise op on a transposed result works on the result itself, and the transposition comes after it.

    %2 = Convolution(%0, %1)                             %2 = Convolution(%0, %1)
    %3 = StaticTranspose(%2) {order=[0,3,1,2]}      ->   %6 = StaticTranspose(%b) {order=[0,2,3,1]}
    %4 = Add(%3, %b: f32[1,8,1,1])                       %7 = Add(%2, %6: f32[1,1,1,8])
                                                         %4 = StaticTranspose(%7) {order=[0,3,1,2]}

Channels-first graphs have a transposition after every product, which computes with the channels last. Behind the last pointwise op, it
is a way of storing; before the first, it would keep all of them out of the product's nest.
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.attrs import Attrs
from benchgraph.core.target import Target
from benchgraph.core.tensor import Shape
from benchgraph.gir.build import RESHAPE, TRANSPOSE, Builder
from benchgraph.gir.ir import Graph, Node, Op
from benchgraph.ops import spec
from benchgraph.ops.movement import permutation
from benchgraph.ops.spec import Elementwise

SMALLER = 8  # how many times fewer elements another operand must have for transposing it to be next to nothing


def sink_transpositions(g: Graph, target: Target) -> Graph:
    builder = Builder(g.values)
    nodes: list[Node] = []
    transposed: dict[int, Op] = {}  # result -> the transposition that only one op reads
    for op in g.nodes:
        assert isinstance(op, Op)
        found = [v for v in op.ins if v in transposed] if _looks_at_elements_only(op) else []
        if found and _is_cheap(builder, op, transposed):
            order = _order(builder, transposed[found[0]])
            gone = [transposed.pop(v) for v in found]
            nodes = [n for n in nodes if n not in gone]
            ins = tuple(next((t.ins[0] for t in gone if t.outs[0] == v), None) or _back(builder, v, order) for v in op.ins)
            nodes += builder.nodes
            builder.nodes = []
            out = builder.values[op.outs[0]]
            plain = builder.new_value(out.dtype, tuple(out.shape[order.index(axis)] for axis in range(len(order))))
            nodes.append(replace(op, ins=ins, outs=(plain,)))
            op = Op(TRANSPOSE, (plain,), op.outs, Attrs(order=order))
        if op.kind == TRANSPOSE and len(g.consumers[op.outs[0]]) == 1 and op.outs[0] not in g.outs and _is_made_here(g, builder, op):
            transposed[op.outs[0]] = op
        nodes.append(op)
    return g if tuple(nodes) == g.nodes else replace(g, nodes=tuple(nodes), values=tuple(builder.values.values()))


def _looks_at_elements_only(op: Op) -> bool:
    how = spec(op.kind).lower
    return isinstance(how, Elementwise) and how.place is None


def _is_made_here(g: Graph, builder: Builder, op: Op) -> bool:
    return op.ins[0] not in g.ins and not builder.values[op.ins[0]].is_constant


def _order(builder: Builder, op: Op) -> Shape:
    return permutation(op.attrs, len(builder.values[op.outs[0]].shape))


def _is_cheap(builder: Builder, op: Op, transposed: dict[int, Op]) -> bool:
    """Every operand is transposed in the same way, or small."""
    orders = {_order(builder, transposed[v]) for v in op.ins if v in transposed}
    out = builder.values[op.outs[0]]
    if len(orders) != 1 or any(builder.values[v].shape != out.shape for v in op.ins if v in transposed):
        return False
    return all(v in transposed or builder.values[v].type.elements * SMALLER <= out.type.elements for v in op.ins)


def _back(builder: Builder, v: int, order: Shape) -> int:
    """A small operand as it broadcasts against what was not transposed."""
    value, rank = builder.values[v], len(order)
    if value.type.elements == 1:
        return v
    full = (1,) * (rank - len(value.shape)) + value.shape
    if full != value.shape:
        v = builder.op(RESHAPE, v, attrs=Attrs(shape=full, special_zero=False))
    return builder.op(TRANSPOSE, v, attrs=Attrs(order=tuple(order.index(axis) for axis in range(rank))))
