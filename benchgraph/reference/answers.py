"""Whether an output of a graph is right, given the graph's inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Graph
from benchgraph.ops.spec import Array
from benchgraph.reference.compare import Comparison, compare
from benchgraph.reference.evaluate import evaluate, rounds_between


def compare_output(
    graph: Graph, given: Mapping[int, Array], t: LogicalTensor, got: Array, want: Array, rtol: float, stored: Collection[int] = ()
) -> Comparison:
    """Compare output t, element by element, with what `evaluate` wants. given: the elements of the graph's inputs.

    What passes between ops in bf16 or f16 may be rounded or not: fused ops keep it in f32, and both are right. Where the one answer does
    not do, each element may be either. Only then is the graph evaluated again. stored: tensors between ops that certainly were in memory,
    and rounded, because they went from partition to partition.
    """
    c = compare(got, want, t.dtype, rtol)
    if c.ok or not rounds_between(graph):
        return c
    exact = evaluate(graph, given, stored=stored)[t.id]
    return compare(got, _nearer(got, want, exact), t.dtype, rtol)


def _nearer(got: Array, a: Array, b: Array) -> Array:
    """For each element the one of a and b that is nearer to got."""
    g = got.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(g - b.astype(np.float64)) < np.abs(g - a.astype(np.float64)), b, a)
