"""Small graphs."""

from __future__ import annotations

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.check import validate
from benchgraph.graph.ir import Graph, Op

F32 = DType.f32


def line(*kinds: str, shape: tuple[int, ...] = (4, 8), **attrs: object) -> Graph:
    """Unary ops one after another, tensors 0 to n, the attributes given to all."""
    tensors = [LogicalTensor(i, F32, shape) for i in range(len(kinds) + 1)]
    ops = tuple(Op(10 + i, kind, Attrs(attrs), (tensors[i],), (tensors[i + 1],), kind) for i, kind in enumerate(kinds))
    return validate(Graph(ops))


def one(kind: str, inputs: list[LogicalTensor], outputs: list[LogicalTensor], **attrs: object) -> Graph:
    return validate(Graph((Op(1, kind, Attrs(attrs), tuple(inputs), tuple(outputs), kind),)))
