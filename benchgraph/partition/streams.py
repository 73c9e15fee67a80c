"""Which tensors between partitions are for products alone, so that they may lie in blocks."""

from __future__ import annotations

from benchgraph.graph.ir import Graph, Op
from benchgraph.ops import spec, with_defaults
from benchgraph.ops.spec import Role


def is_streamed(graph: Graph, id: int) -> bool:
    """Whether products read the tensor, at once or after pointwise ops, and nobody else does.

    A tensor that nobody reads is for somebody unknown; if data movement makes it, the user is preparing an operand.
    """
    if not graph.consumers.get(id):
        return spec(graph.producers[id].kind).role is Role.movement
    return _reaches_products_only(graph, id)


def _reaches_products_only(graph: Graph, id: int) -> bool:
    seen, left = {id}, [id]
    while left:
        id = left.pop()
        readers = graph.consumers.get(id, ())
        if not readers or id in (graph.output_ports or ()):
            return False
        for op in readers:
            if spec(op.kind).role is Role.pointwise:
                left += [t.id for t in op.outputs if t.id not in seen]
                seen.update(t.id for t in op.outputs)
            elif not _streams(op, id):
                return False
    return True


def _streams(op: Op, id: int) -> bool:
    ports = spec(op.kind).streamed(with_defaults(op.kind, op.attrs))
    return all(port in ports for port, t in enumerate(op.inputs) if t.id == id)
