"""Graphs from functions that append their ops, and the one partition that a graph is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from benchgraph.core.tensor import Shape
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.partition.ir import Partition, Policy
from benchgraph.partition.partitioner import partitions

Build = Callable[[GraphBuilder], object]  # appends the ops of a graph
Source = Build | Graph | Partition


def graph_of(build: Build) -> Graph:
    """The graph that a function builds."""
    b = GraphBuilder()
    build(b)
    return b.graph()


def partition_of(source: Source) -> Partition:
    """The only supported partition that the fused policy makes of a graph. A partition is returned as it is."""
    if isinstance(source, Partition):
        return source
    graph = source if isinstance(source, Graph) else graph_of(source)
    (partition,) = (p for p in partitions(graph, Policy.fused) if p.is_supported)
    return partition


def with_strides(graph: Graph, **strides: Shape) -> Graph:
    """The graph with these strides of tensors: t0=(...) for tensor 0."""
    tensors = {t.id: t for op in graph.ops for t in (*op.inputs, *op.outputs)}
    return graph.with_tensors(tensors | {int(name[1:]): replace(tensors[int(name[1:])], strides=s) for name, s in strides.items()})
