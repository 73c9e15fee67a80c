"""share-operands: products that read the same value in the same other dtype read one conversion of it.

%2: f32 = TypeCast(%0: f16)                 %2: f32 = TypeCast(%0)
%3 = MatMul(%2, %1)                  ->     %3 = MatMul(%2, %1)
%4: f32 = TypeCast(%0)                      %5 = MatMul(%2, %6)
%5 = MatMul(%4, %6)

The input of a gated perceptron is such a value. Conversions that pointwise ops read are left alone: those convert as they load.
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.dtypes import DType
from benchgraph.core.target import Target
from benchgraph.gir.ir import Graph, Node, Op
from benchgraph.ops import spec


def share_operands(g: Graph, target: Target) -> Graph:
    made: dict[tuple[int, DType], int] = {}
    instead: dict[int, int] = {}
    nodes: list[Node] = []
    for op in g.nodes:
        assert isinstance(op, Op)
        if _is_operand(g, op):
            first = made.setdefault((op.ins[0], g.value(op.outs[0]).dtype), op.outs[0])
            if first != op.outs[0]:
                instead[op.outs[0]] = first
                continue
        nodes.append(replace(op, ins=tuple(instead.get(v, v) for v in op.ins)))
    return replace(g, nodes=tuple(nodes), values=tuple(v for v in g.values if v.id not in instead)) if instead else g


def _is_operand(g: Graph, op: Op) -> bool:
    """A conversion that products alone read."""
    row, out = spec(op.kind), op.outs[0]
    readers = g.consumers[out]
    if not (row.converts and row.is_elementwise and len(op.ins) == 1) or out in g.outs or not readers:
        return False
    return all(isinstance(reader, Op) and spec(reader.kind).is_contraction for reader in readers)
