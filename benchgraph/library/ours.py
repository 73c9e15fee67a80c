"""benchgraph's own compiler behind the library protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchgraph.compile import SWITCHES, compile_partition
from benchgraph.core.config import config
from benchgraph.graph.ir import Graph
from benchgraph.library import verbose
from benchgraph.library.protocol import Bound, Chain, Compiled
from benchgraph.partition.ir import Partition, Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.runtime.executable import Array, Executable, chain

__all__ = ["SWITCHES", "Benchgraph"]


@dataclass(frozen=True)
class Benchgraph:
    """The Library of this package."""

    name: str = "benchgraph"
    version: str = ""
    is_in_process: bool = True

    def partitions(self, graph: Graph, policy: Policy) -> tuple[Partition, ...]:
        return partitions(graph, policy)

    def compile(self, partition: Partition) -> Compiled:
        executable = compile_partition(partition)
        verbose.log_compilation(partition, executable, executable.compile_s, is_hit=False)
        return _Logged(partition, executable) if "exec" in config().verbose else executable

    def sequence(self, steps: Sequence[Bound]) -> Chain:
        """One native call, of which the verbose log therefore says nothing."""
        return chain([step.call if isinstance(step, verbose.Logged) else step for step in steps])


@dataclass(frozen=True)
class _Logged:
    """An Executable whose executions are in the verbose log."""

    partition: Partition
    executable: Executable

    @property
    def compile_s(self) -> float:
        return self.executable.compile_s

    @property
    def is_warm(self) -> bool:
        return self.executable.is_warm

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Bound:
        return verbose.logged(self.executable.bind(inputs, outputs), lambda: verbose.describe(self.partition, self.executable.code))
