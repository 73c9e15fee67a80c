"""Which tensors between partitions are for products alone, so that they may lie in blocks."""

from __future__ import annotations

from collections.abc import Container

from benchgraph.graph.ir import Graph, Op
from benchgraph.ops import spec, with_defaults
from benchgraph.ops.spec import Role


def streamed(graph: Graph) -> frozenset[int]:
    """The tensors that ops make for products: these read them, at once or after pointwise ops, and nobody else does.

    A tensor that nobody reads is for somebody unknown; if data movement makes it, the user is preparing an operand.
    """
    named = frozenset(graph.output_ports or ())
    found = set[int]()
    for op in reversed(graph.order):
        for t in op.outputs:
            readers = graph.consumers.get(t.id)
            if readers and t.id not in named and all(_streams(reader, t.id, found) for reader in readers):
                found.add(t.id)
    return frozenset(found | {id for id in graph.producers if _is_prepared(graph, id)})


def _streams(op: Op, id: int, found: Container[int]) -> bool:
    """Whether a reader of a tensor is a product that goes through it, or passes it on to such. found: what its results may be."""
    row = spec(op.kind)
    if row.lowering.role is Role.pointwise:
        return all(t.id in found for t in op.outputs)
    ports = row.lowering.column_block_ports(with_defaults(op.kind, op.attrs))
    return all(port in ports for port, t in enumerate(op.inputs) if t.id == id)


def _is_prepared(graph: Graph, id: int) -> bool:
    return not graph.consumers.get(id) and spec(graph.producers[id].kind).lowering.role is Role.data_movement
