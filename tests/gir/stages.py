"""What a pass of the Graph IR pipeline gets."""

from __future__ import annotations

from collections.abc import Callable

from benchgraph.core.target import Target
from benchgraph.gir.build import from_partition
from benchgraph.gir.ir import Graph
from benchgraph.gir.passes import PIPELINE
from benchgraph.graph.build import GraphBuilder
from benchgraph.partition.ir import Partition, Policy
from benchgraph.partition.partitioner import partitions

Build = Callable[[GraphBuilder], object]


def partition(build: Build) -> Partition:
    """The only one of a graph that is supported."""
    b = GraphBuilder()
    build(b)
    (found,) = (p for p in partitions(b.graph(), Policy.fused) if p.is_supported)
    return found


def before(name: str, build: Build, target: Target) -> Graph:
    """The partition's graph as the pass of this name finds it."""
    g = from_partition(partition(build))
    for p in PIPELINE[: [p.name for p in PIPELINE].index(name)]:
        g = p.fn(g, target)
    return g
