"""Which tensors between partitions may be stored in column blocks: those that only products read."""

from __future__ import annotations

from collections.abc import Container

from benchgraph.graph.ir import Graph, Op
from benchgraph.ops import spec, with_defaults
from benchgraph.ops.spec import Role


def blocked_tensors(graph: Graph) -> frozenset[int]:
    """The tensors whose readers are all products, directly or after pointwise ops, and which the graph does not name as outputs.

    A tensor without readers has unknown ones; if a layout op makes it, the user is preparing an operand of a product.
    """
    graph_outputs = frozenset(graph.output_ports or ())
    ids = set[int]()
    for op in reversed(graph.order):
        for t in op.outputs:
            readers = graph.consumers.get(t.id)
            if readers and t.id not in graph_outputs and all(_reads_blocks(reader, t.id, ids) for reader in readers):
                ids.add(t.id)
    unread = (id for id in graph.producers if not graph.consumers.get(id))
    return frozenset(ids.union(id for id in unread if spec(graph.producers[id].kind).lowering.role is Role.layout_op))


def _reads_blocks(op: Op, id: int, blocked: Container[int]) -> bool:
    """Whether a reader of a tensor is a product that can read it in column blocks, or a pointwise op whose results may all be blocked."""
    row = spec(op.kind)
    if row.lowering.role is Role.pointwise:
        return all(t.id in blocked for t in op.outputs)
    ports = row.lowering.column_block_ports(with_defaults(op.kind, op.attrs))
    return all(port in ports for port, t in enumerate(op.inputs) if t.id == id)
