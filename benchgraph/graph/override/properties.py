"""Other properties of tensors (--tensor-property)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from benchgraph.core.errors import InvalidArguments
from benchgraph.core.tensor import LogicalTensor, PropertyType
from benchgraph.graph.ir import Graph


def with_properties(graph: Graph, properties: Mapping[int, PropertyType]) -> Graph:
    """The graph with these tensors variable, constant or host scalars, by id, at every occurrence.

    Raises InvalidArguments for an id that does not exist and for a host scalar that is no single number.
    """
    for id in properties:
        if id not in graph.tensors:
            known = ", ".join(map(str, sorted(graph.tensors)))
            raise InvalidArguments("there is no such tensor", where=f"tensor {id}", fix=f"the graph has {known}")

    def swap(ts: tuple[LogicalTensor, ...]) -> tuple[LogicalTensor, ...]:
        return tuple(replace(t, property_type=properties.get(t.id, t.property_type)) for t in ts)

    return replace(graph, ops=tuple(replace(op, inputs=swap(op.inputs), outputs=swap(op.outputs)) for op in graph.ops))
