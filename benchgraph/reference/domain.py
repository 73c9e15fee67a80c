"""Real numbers for all inputs of a graph (real_values.py), used by --fill=reals, tests of gradients and random graphs."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from benchgraph.core.tensor import TensorType
from benchgraph.graph.ir import Graph
from benchgraph.ops.fill_rules.noise import Noise
from benchgraph.ops.fills import reals
from benchgraph.ops.spec import Array
from benchgraph.reference.deep_graphs import ScaledInput, is_deep, scaled_inputs
from benchgraph.reference.fill import in_layout, indices_of, scaled_contents
from benchgraph.reference.real_values import real_values


def domain(graph: Graph, seed: int, given: Collection[int] = ()) -> dict[int, Array]:
    """An array per input of a shape-inferred graph, in the tensor's dtype and strides (s4 and u4: one element to a byte). given: ids of
    inputs that have data of their own, which are left out; then no weights are scaled.

    Each tensor depends only on the seed and its id, except that weights of a deep graph are scaled. Elements of the buffer that the strides
    skip are 0.
    """
    made = {t.id: in_layout(t, real_values(graph, t, np.random.default_rng((seed, t.id)))) for t in graph.inputs if t.id not in given}
    made |= indices_of(graph, seed, given)
    if given or not is_deep(graph):
        return made

    def either_sign(target: ScaledInput, t: TensorType, noise: Noise) -> Array:
        return reals(-1.0, 1.0, t.shape, noise.chunk(0)).astype(t.dtype.numpy)

    return made | scaled_contents(graph, scaled_inputs(graph, ()), made, either_sign, seed)
