"""The result of a rule, and helpers to traverse a graph: back to an operand's origin, and along first consumers of first outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Graph, Op
from benchgraph.ops import spec
from benchgraph.ops.spec import Array, Computes, Filling, Role


@dataclass(frozen=True)
class Displaced:
    """An input of the graph and its data.

    derive, of: the elements are computed by derive from the reference's value of tensor `of`; filling is then only the description.
    """

    tensor: int
    filling: Filling
    of: int = -1
    derive: Callable[[Array], Array] | None = None


@dataclass(frozen=True)
class Source:
    """An input of the graph that reaches an operand through ops that only move or convert it: `path`, nearest first."""

    tensor: LogicalTensor
    path: tuple[Op, ...]

    @property
    def is_dequantised(self) -> bool:
        return any(dequantises(op) for op in self.path)

    @property
    def is_moved(self) -> bool:
        return any(spec(op.kind).lowering.role is Role.layout_op for op in self.path)


def is_wide_float(t: LogicalTensor) -> bool:
    """Whether it is a float type for computation; 8-bit floats are quantised types."""
    return t.dtype.is_float and t.dtype.bits > 8


def dequantises(op: Op) -> bool:
    return spec(op.kind).semantics.is_conversion and not is_wide_float(op.inputs[0]) and is_wide_float(op.outputs[0])


def is_transparent(op: Op) -> bool:
    """Whether the op keeps the numbers of its one input: a layout op, a cast, a (de)quantisation with constant scales."""
    row = spec(op.kind)
    return (row.lowering.role is Role.layout_op or row.semantics.is_conversion) and len(op.inputs) == 1


def source(graph: Graph, t: LogicalTensor) -> Source | None:
    """The graph input that an operand comes from; None if an op computes in between."""
    path = list[Op]()
    while (made := graph.producers.get(t.id)) is not None:
        if not is_transparent(made):
            return None
        path.append(made)
        t = made.inputs[0]
    return Source(t, tuple(path))


def computing(graph: Graph, what: Computes) -> Iterator[Op]:
    """The ops that compute this, in topological order."""
    return (op for op in graph.order if spec(op.kind).semantics.computes is what)


def first_consumer(graph: Graph, op: Op) -> Op | None:
    """The first computing reader of the first output, in topological order; None if there is none."""
    return graph.first_reader(op.outputs[0].id, lambda reader: reader.is_computed) if op.outputs else None


def downstream(graph: Graph, op: Op) -> Iterator[Op]:
    following = first_consumer(graph, op)
    while following is not None:
        yield following
        following = first_consumer(graph, following)


def next_computing(graph: Graph, op: Op) -> Op | None:
    """The next op downstream that does more than move or convert."""
    return next((o for o in downstream(graph, op) if not is_transparent(o)), None)


def softmax_behind(graph: Graph, op: Op) -> Op | None:
    """The softmax that op's result reaches through pointwise and layout ops: SoftMax itself, or the Exp of a difference."""
    before = op
    for o in downstream(graph, op):
        row = spec(o.kind)
        if row.semantics.computes is Computes.softmax or (
            row.semantics.computes is Computes.exp and spec(before.kind).semantics.computes is Computes.difference
        ):
            return o
        if row.lowering.role not in (Role.pointwise, Role.layout_op):
            return None
        if not is_transparent(o):
            before = o
    return None
