"""What a graph computes: every op by its row's float64 reference, in topological order."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from benchgraph.core.errors import InvalidArguments
from benchgraph.graph.ir import Graph, Op
from benchgraph.ops import spec, with_defaults
from benchgraph.ops.spec import Array, Call


def call_of(op: Op) -> Call:
    """An op of a shape-inferred graph as its row's functions want it."""
    return Call(op.kind, with_defaults(op.kind, op.attrs), tuple(t.type for t in op.inputs), tuple(t.type for t in op.outputs))


def evaluate(graph: Graph, inputs: Mapping[int, Array], keep: Collection[int] = ()) -> dict[int, Array]:
    """The graph's outputs, and the tensors that `keep` names, by tensor id.

    graph: shape-inferred. inputs: an array per graph input, in the tensor's dtype or float64. Floats come back as float64 whatever the
    tensor's dtype, not rounded to it; integers and booleans in their own type. Everything else is freed after its last use, for one
    attention score matrix can be a gigabyte. Raises InvalidArguments for a missing input or one of the wrong shape, Unimplemented for an
    op whose meaning is not known.
    """
    wanted = {t.id for t in graph.outputs} | set(keep)
    values = {t.id: _exact(inputs, t.id, t.known_shape) for t in graph.inputs}
    last_use = {t.id: n for n, op in enumerate(graph.order) for t in (*op.outputs, *op.inputs)}
    for n, op in enumerate(graph.order):
        results = spec(op.kind).reference(call_of(op), tuple(values[t.id] for t in op.inputs))
        values |= {t.id: result for t, result in zip(op.outputs, results, strict=True)}
        for id in {t.id for t in (*op.inputs, *op.outputs)}:
            if last_use[id] == n and id not in wanted:
                del values[id]
    return {id: values[id] for id in sorted(wanted & values.keys())}


def _exact(inputs: Mapping[int, Array], id: int, shape: tuple[int, ...]) -> Array:
    """An input without loss: floats of any width as float64, the rest as it is."""
    if id not in inputs:
        raise InvalidArguments(f"no data for graph input {id}", fix="give an array for every tensor that no op produces")
    array = np.asarray(inputs[id])
    if array.shape != shape:
        raise InvalidArguments(f"graph input {id} has shape {shape}, its data {array.shape}", fix="give data of the tensor's shape")
    return array if array.dtype.kind in "biu" else array.astype(np.float64, copy=False)
