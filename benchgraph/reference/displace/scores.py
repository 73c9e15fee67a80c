"""Queries and keys of attention in floats. Our own rule: benchdnn uses MatMul's strategy.

    s = MatMul(%q, %k); ... SoftMax(s)
    -> %q: -2, -1, 1, 2; %k: integers in [-2, 2], four per row

With MatMul's strategy scores in f32 differ by thousands. Softmax then selects one of a row, which hides wrong sums and exponentials. These
scores differ by a few units. Queries have no zeros, since the gradient of keys is 0 wherever they are zero.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchgraph.graph.ir import Graph
from benchgraph.ops.fill_rules.filling import choices, integers
from benchgraph.ops.spec import Computes
from benchgraph.reference.displace.rule import Displaced, computing, softmax_behind, source

QUERIES, LARGEST, PER_ROW = (-2, -1, 1, 2), 2, 4  # a variance of 4 * 2.5 * 2 = 20: scores are some 4 apart, before scaling
QUERY, KEY = 0, 1


def find(graph: Graph) -> Iterator[Displaced]:
    for op in computing(graph, Computes.matmul):
        if softmax_behind(graph, op) is None:
            continue
        density = min(1.0, PER_ROW / max(*op.inputs[QUERY].known_shape[-1:], 1))
        for port, filling in ((QUERY, choices(QUERIES)), (KEY, integers(-LARGEST, LARGEST, density, starts_positive=True))):
            origin = source(graph, op.inputs[port])
            if origin is not None and not origin.is_dequantised:
                yield Displaced(origin.tensor.id, filling)
