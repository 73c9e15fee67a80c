"""Other properties of tensors (--tensor-property)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from benchgraph.core.tensor import PropertyType
from benchgraph.graph.ir import Graph


def with_properties(graph: Graph, properties: Mapping[int, PropertyType]) -> Graph:
    """The graph with these tensors variable, constant or host scalars, by id, at every occurrence.

    Raises InvalidArguments for an id that does not exist and for a host scalar that is no single number.
    """
    for id in properties:
        graph.check_has(id)
    return graph.mapped(lambda t: replace(t, property_type=properties.get(t.id, t.property_type)))
