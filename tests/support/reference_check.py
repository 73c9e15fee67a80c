"""The machine code of a partition, run on data and compared with the reference."""

from __future__ import annotations

import numpy as np

from benchgraph.compile import compile_partition
from benchgraph.graph.ir import Graph
from benchgraph.harness.buffers import allocate, load_inputs
from benchgraph.machine.target import Target
from benchgraph.partition.ir import Partition
from benchgraph.reference.compare import compare, tolerance
from benchgraph.reference.evaluate import evaluate
from benchgraph.reference.fill import fill
from tests.support.partitions import Build, graph_of, partition_of


def executed(graph: Graph, p: Partition, target: Target | None = None) -> list[np.ndarray]:
    """The outputs of a graph's only partition for the inputs of seed 1. target: this machine, unless given."""
    tensors = load_inputs(graph, fill(graph, seed=1))
    outs = [allocate(t) for t in p.outputs]
    compile_partition(p, target).bind([tensors[t.id] for t in p.inputs], outs)()
    return outs


def matches_reference(source: Graph | Build, partition: Partition | None = None, target: Target | None = None) -> bool:
    """Whether the outputs of a graph's only partition are those of the reference, within tolerance. partition: the one with options."""
    graph = source if isinstance(source, Graph) else graph_of(source)
    outs = executed(graph, p := partition or partition_of(graph), target)
    assert {t.id for t in graph.outputs} <= {t.id for t in p.outputs}, "an output of the graph is not computed"
    want = evaluate(graph, fill(graph, seed=1))
    return all(compare(out, want[t.id], t.dtype, tolerance(graph)).ok for t, out in zip(p.outputs, outs, strict=True))
