"""What must hold for a graph before anything else looks at it: ids, producers, order, one dtype per tensor, every op legal."""

from __future__ import annotations

from benchgraph import ops
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidDataType, within
from benchgraph.graph.infer import infer_shapes
from benchgraph.graph.ir import Graph, Op


def check(graph: Graph) -> None:
    """Raise for a duplicate op id, a tensor with two producers or two dtypes, a cycle, and an op that its row does not allow.

    Shapes may still be unknown, and are not compared.
    """
    graph.check_ids()
    _ = graph.producers, graph.order  # each raises when it cannot be made
    _check_dtypes(graph)
    for op in graph.ops:
        check_one(op)


def validate(graph: Graph) -> Graph:
    """`check`, then infer every shape. The result is what partitioning and compilation take."""
    check(graph)
    return infer_shapes(graph)


def _check_dtypes(graph: Graph) -> None:
    first: dict[int, tuple[DType, Op]] = {}
    for op in graph.ops:
        for t in (*op.inputs, *op.outputs):
            dtype, where = first.setdefault(t.id, (t.dtype, op))
            if dtype is not t.dtype:
                what = f"tensor {t.id} is {t.dtype.value} here but {dtype.value} in {where.label}"
                raise InvalidDataType(what, where=op.label, fix="describe a tensor with the same dtype at every use")


def check_one(op: Op) -> None:
    """Raise what the op's row has against it, naming the op."""
    with within(op.label):
        ops.check_op(op.kind, op.attrs, tuple((t.dtype, t.shape) for t in op.inputs), tuple(t.dtype for t in op.outputs))
