"""Queries and keys of attention in floats. A rule of our own: benchdnn leaves them to MatMul's strategy.

    s = MatMul(%q, %k); ... SoftMax(s)
    -> %q: integers in [-2, 2], four of a row; %k: integers in [-2, 2]

The scores of MatMul's strategy are apart by thousands in f32. Softmax then picks one of a row: its sum is that one, and a wrong sum, or a
wrong exponential, shows nowhere. These are a few units apart.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchgraph.graph.ir import Graph
from benchgraph.ops.spec import Computes
from benchgraph.ops.strategies.filling import integers
from benchgraph.reference.displace.rule import Displaced, computing, softmax_behind, source

LARGEST, PER_ROW = 2, 4  # a variance of 4 * 2 * 2 = 16: scores are about 4 apart, before they are scaled down
QUERY, KEY = 0, 1


def find(graph: Graph) -> Iterator[Displaced]:
    for op in computing(graph, Computes.matmul):
        if softmax_behind(graph, op) is None:
            continue
        density = min(1.0, PER_ROW / max(*op.inputs[QUERY].known_shape[-1:], 1))
        for port in (QUERY, KEY):
            found = source(graph, op.inputs[port])
            if found is not None and not found.is_dequantised:
                yield Displaced(found.tensor.id, integers(-LARGEST, LARGEST, density if port == QUERY else 1.0, starts_positive=True))
