"""Other op kinds (--op-kind): an op is replaced by another of its family, or removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from benchgraph import ops
from benchgraph.core.errors import InvalidArguments, within
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Graph, Op
from benchgraph.graph.override.attrs import find_op

REMOVED = "undef"  # as a kind: removes the op
UNARY, BINARY = 1, 2


def with_kinds(graph: Graph, kinds: Mapping[int, str]) -> Graph:
    """The graph with these ops replaced or removed, by op id.

    A kind can replace another of its family (`Schema.family`); inputs, outputs and attributes stay. `undef` removes an op: its output is
    replaced by its input, of two by the computed one. Raises InvalidArguments for an op that does not exist, a kind of another family, and
    an op that cannot be removed.
    """
    for id, kind in sorted(kinds.items()):
        op = find_op({op.id: op for op in graph.ops}, id)
        with within(op.label):
            graph = _without(graph, op) if kind == REMOVED else _exchanged(graph, op, kind)
    return graph


def _exchanged(graph: Graph, op: Op, kind: str) -> Graph:
    old, new = ops.spec(op.kind).schema.family, ops.spec(kind).schema.family
    if kind != op.kind and (not old or old != new):
        legal = sorted(k for k, row in ops.OPS.items() if old and row.schema.family == old)
        fix = f"choose one of {', '.join(legal)}" if legal else "only ops of the families binary and eltwise have one"
        raise InvalidArguments(f"{kind} cannot take its place", fix=fix)
    return replace(graph, ops=tuple(replace(o, kind=kind) if o.id == op.id else o for o in graph.ops))


def _without(graph: Graph, op: Op) -> Graph:
    """The graph without the op: readers of its output read its input."""
    if len(graph.ops) == 1:
        raise InvalidArguments("it is the graph's only op", fix="leave it in")
    replacement = _passed_on(graph, op)
    output = op.outputs[0]
    if (output.shape, output.dtype) != (replacement.shape, replacement.dtype):
        into, out = (f"{t.dtype.value} {t.shape}" for t in (replacement, output))
        what = f"its input {replacement.id} is {into}, its output {out}"
        raise InvalidArguments(what, fix="only an op that keeps dtype and shape can go")
    rewired = tuple(replace(o, inputs=tuple(replacement if t.id == output.id else t for t in o.inputs)) for o in graph.ops if o.id != op.id)
    used = {t.id for o in rewired for t in o.inputs}
    input_ports = graph.input_ports and tuple(id for id in graph.input_ports if id in used)
    output_ports = graph.output_ports and tuple(replacement.id if id == output.id else id for id in graph.output_ports)
    return replace(graph, ops=rewired, input_ports=input_ports, output_ports=output_ports)


def _passed_on(graph: Graph, op: Op) -> LogicalTensor:
    """The input that replaces the output."""
    if not ops.spec(op.kind).schema.family or len(op.outputs) != 1 or len(op.inputs) not in (UNARY, BINARY):
        raise InvalidArguments("it cannot be taken out", fix="only eltwise and binary ops with one output and one or two inputs can go")
    if len(op.inputs) == UNARY:
        return op.inputs[0]
    computed = [t for t in op.inputs if t.id in graph.producers]
    if len(computed) != 1:
        what = f"{len(computed)} of its inputs are computed, so none is the one to pass on"
        raise InvalidArguments(what, fix="an op with two inputs can go when exactly one of them is computed")
    return computed[0]
