"""Real numbers for all inputs of a graph (real_values.py): what --fill=reals, gradients and random graphs are tested with."""

from __future__ import annotations

import numpy as np

from benchgraph.graph.ir import Graph
from benchgraph.ops.spec import Array
from benchgraph.reference.fill import in_layout
from benchgraph.reference.real_values import real_values


def domain(graph: Graph, seed: int) -> dict[int, Array]:
    """An array per input of a shape-inferred graph, in the tensor's dtype and strides (s4 and u4: one element to a byte).

    Each tensor depends on the seed and its id alone. Elements between the strides are 0.
    """
    return {t.id: in_layout(t, real_values(graph, t, np.random.default_rng((seed, t.id)))) for t in graph.inputs}
