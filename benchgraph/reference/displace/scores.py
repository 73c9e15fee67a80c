"""Queries and keys of attention in floats. A rule of our own: benchdnn leaves them to MatMul's strategy.

    s = MatMul(%q, %k); ... SoftMax(s)
    -> %q: of -2, -1, 1, 2; %k: integers in [-2, 2], four of a row

The scores of MatMul's strategy are apart by thousands in f32. Softmax then picks one of a row: its sum is that one, and a wrong sum, or a
wrong exponential, shows nowhere. These are a few units apart. Queries have no zeros: where there is one of them, the gradient of keys is 0
wherever it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchgraph.graph.ir import Graph
from benchgraph.ops.spec import Computes
from benchgraph.ops.strategies.filling import choices, integers
from benchgraph.reference.displace.rule import Displaced, computing, softmax_behind, source

QUERIES, LARGEST, PER_ROW = (-2, -1, 1, 2), 2, 4  # a variance of 4 * 2.5 * 2 = 20: scores are some 4 apart, before they are scaled down
QUERY, KEY = 0, 1


def find(graph: Graph) -> Iterator[Displaced]:
    for op in computing(graph, Computes.matmul):
        if softmax_behind(graph, op) is None:
            continue
        density = min(1.0, PER_ROW / max(*op.inputs[QUERY].known_shape[-1:], 1))
        for port, filling in ((QUERY, choices(QUERIES)), (KEY, integers(-LARGEST, LARGEST, density, starts_positive=True))):
            found = source(graph, op.inputs[port])
            if found is not None and not found.is_dequantised:
                yield Displaced(found.tensor.id, filling)
