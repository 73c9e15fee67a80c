"""benchgraph's own compiler behind the library protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchgraph.compile import compile_partition
from benchgraph.graph.ir import Graph
from benchgraph.library.protocol import Bound, Chain, Compiled
from benchgraph.partition.ir import Partition, Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.runtime.executable import chain


@dataclass(frozen=True)
class Benchgraph:
    """The Library of this package."""

    name: str = "benchgraph"

    def partitions(self, graph: Graph, policy: Policy) -> tuple[Partition, ...]:
        return partitions(graph, policy)

    def compile(self, partition: Partition) -> Compiled:
        return compile_partition(partition)

    def sequence(self, steps: Sequence[Bound]) -> Chain:
        return chain(steps)
