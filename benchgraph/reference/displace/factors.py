"""Factors and divisors of what was computed.

Divide(s, %d), Multiply(s, %f)   -> %d: of 2, 4, 8; %f: of 1/4, 1/2, 1
"""

from __future__ import annotations

from collections.abc import Iterator

from benchgraph.graph.ir import Graph
from benchgraph.ops import spec
from benchgraph.ops.strategies.filling import choices
from benchgraph.reference.displace.rule import Displaced, source


def find(graph: Graph) -> Iterator[Displaced]:
    for op in graph.order:
        numbers = spec(op.kind).testing.factors
        sources = [source(graph, t) for t in op.inputs] if numbers else []
        for found in sources:
            if found is not None and None in sources and not found.is_dequantised:
                yield Displaced(found.tensor.id, choices(numbers))
