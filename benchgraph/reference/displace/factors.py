"""Factors and divisors of computed values.

Divide(s, %d), Multiply(s, %f)   -> %d: 2, 4, 8; %f: 1/4, 1/2, 1
"""

from __future__ import annotations

from collections.abc import Iterator

from benchgraph.graph.ir import Graph
from benchgraph.ops import spec
from benchgraph.ops.fill_rules.filling import choices
from benchgraph.reference.displace.rule import Displaced, source


def find(graph: Graph) -> Iterator[Displaced]:
    for op in graph.order:
        numbers = spec(op.kind).testing.factors
        sources = [source(graph, t) for t in op.inputs] if numbers else []
        for origin in sources:
            if origin is not None and None in sources and not origin.is_dequantised:
                yield Displaced(origin.tensor.id, choices(numbers))
