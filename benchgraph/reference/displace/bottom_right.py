"""A causal mask aligned at the end of both sequences, whose lengths are inputs.

GreaterEqual(Subtract(Add(rows, %kv), %q), columns), all s32 -> %kv: the number of columns, %q: the number of rows
"""

from __future__ import annotations

from collections.abc import Iterator

from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Graph, Op
from benchgraph.ops import spec
from benchgraph.ops.fill_rules.filling import constant
from benchgraph.ops.spec import Computes
from benchgraph.reference.displace.rule import Displaced, computing


def find(graph: Graph) -> Iterator[Displaced]:
    for op in computing(graph, Computes.comparison):
        shape = op.outputs[0].known_shape
        minus = _made(graph, op.inputs[0], Computes.difference)
        plus = minus and _made(graph, minus.inputs[0], Computes.sum)
        if len(shape) < 2 or minus is None or plus is None:
            continue
        for t, length, name in ((_given(graph, plus), shape[-1], "columns"), (_given(graph, minus), shape[-2], "rows")):
            if t is not None and t.dtype.is_integer:
                filling = constant(length)
                yield Displaced(t.id, type(filling)(f"{length}, the number of {name}", filling.make))


def _made(graph: Graph, t: LogicalTensor, what: Computes) -> Op | None:
    op = graph.producers.get(t.id)
    return op if op is not None and spec(op.kind).semantics.computes is what else None


def _given(graph: Graph, op: Op) -> LogicalTensor | None:
    return next((t for t in op.inputs if t.id not in graph.producers), None)
