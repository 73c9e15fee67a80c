"""Gated MLPs: the activation read by both products.

a = MatMul(%x, w1); b = MatMul(%x, w2); g = Multiply(act(a), b); [TypeCast]; dst = MatMul(g, w3)

    -> %x: 2^-12, 2^-13, 2^-14, three per row: a and b are so small that sums of their products are exact in few digits
"""

from __future__ import annotations

from collections.abc import Iterator

from benchgraph.graph.ir import Graph, Op
from benchgraph.ops import spec
from benchgraph.ops.fill_rules.filling import choices
from benchgraph.ops.spec import Computes, Role
from benchgraph.reference.displace.rule import Displaced, downstream, source

VALUES, PER_ROW = (2.0**-12, 2.0**-13, 2.0**-14), 3


def find(graph: Graph) -> Iterator[Displaced]:
    for gate in graph.order:
        if not spec(gate.kind).semantics.is_product or not _goes_into_matmul(graph, gate):
            continue
        products = [_matmul_above(graph, t.id) for t in gate.inputs]
        first, second = products
        if first is None or second is None or first.id == second.id or first.inputs[0].id != second.inputs[0].id:
            continue
        activation = source(graph, first.inputs[0])
        if activation is not None and not activation.is_dequantised:
            k = max(first.inputs[0].known_shape[-1:], default=1)
            yield Displaced(activation.tensor.id, choices(VALUES, min(1.0, PER_ROW / max(k, 1))))


def _matmul_above(graph: Graph, id: int) -> Op | None:
    """The MatMul that a value comes from through pointwise ops only, along their first computed operands."""
    made = graph.producers.get(id)
    while made is not None and spec(made.kind).semantics.computes is not Computes.matmul:
        if spec(made.kind).lowering.role is not Role.pointwise:
            return None
        made = next((graph.producers[t.id] for t in made.inputs if t.id in graph.producers), None)
    return made


def _goes_into_matmul(graph: Graph, gate: Op) -> bool:
    for op in downstream(graph, gate):
        row = spec(op.kind)
        if row.semantics.computes is Computes.matmul:
            return True
        if not (row.semantics.is_conversion or row.semantics.is_product):
            return False
    return False
