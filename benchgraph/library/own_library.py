"""This package's compiler behind the library protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchgraph.compile import FORMER_STAGES, FORMER_SWITCHES, SWITCHES, compile_partition, stages
from benchgraph.core.config import config
from benchgraph.core.implementation import Implementation
from benchgraph.core.layers import Profiled
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Graph
from benchgraph.library import verbose
from benchgraph.library.compile_jobs import compile_partitions
from benchgraph.library.compiled_partition import CompiledPartition
from benchgraph.library.dump import dump_partition
from benchgraph.library.engine import Engine, Stream
from benchgraph.library.protocol import Bound, Chain, Compiled
from benchgraph.library.tensor import Tensor
from benchgraph.partition.ir import Partition, Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.runtime.executable import Array, Executable, chain

__all__ = ["FORMER_STAGES", "FORMER_SWITCHES", "SWITCHES", "Benchgraph", "stages"]


@dataclass(frozen=True)
class Benchgraph:
    """The Library of this package."""

    name: str = "benchgraph"
    version: str = ""
    is_in_process: bool = True
    dumps_itself: bool = False

    def partitions(self, graph: Graph, policy: Policy) -> tuple[Partition, ...]:
        return partitions(graph, policy)

    def compile(self, partition: Partition) -> Compiled:
        return self._logged(partition, compile_partition(partition))

    def compile_all(self, partitions: Sequence[Partition]) -> list[Compiled]:
        return [self._logged(p, e) for p, e in zip(partitions, compile_partitions(partitions), strict=True)]

    @staticmethod
    def _logged(partition: Partition, executable: Executable) -> Compiled:
        """Logs the compilation, and dumps the partition if requested."""
        dump_partition(partition)
        verbose.log_compilation(partition, executable, executable.compile_s, is_hit=False)
        return _Logged(partition, executable) if "exec" in config().verbose else executable

    def caller(
        self, partition: Partition, compiled: Compiled, inputs: Sequence[Array], outputs: Sequence[Array]
    ) -> Callable[[], None] | None:
        executable = compiled.executable if isinstance(compiled, _Logged) else compiled
        assert isinstance(executable, Executable)
        engine = Engine()
        stream = Stream(engine)
        made = CompiledPartition(partition, _ids(partition.inputs), _ids(partition.outputs), executable, engine)
        ins = [_tensor(t, engine, array) for t, array in zip(partition.inputs, inputs, strict=True)]
        outs = [_tensor(t, engine, array) for t, array in zip(partition.outputs, outputs, strict=True)]
        return lambda: made.execute(stream, ins, outs)

    def sequence(self, steps: Sequence[Bound]) -> Chain:
        """One native call, which the verbose log does not contain."""
        return chain([step.call if isinstance(step, verbose.Logged) else step for step in steps])

    def profiled(
        self, partitions: Sequence[Partition], inputs: Sequence[Sequence[Array]], outputs: Sequence[Sequence[Array]]
    ) -> Profiled | None:
        from benchgraph.library.profile import profiled  # compiles anew, which only profiles do

        return profiled(partitions, inputs, outputs)


def _tensor(t: LogicalTensor, engine: Engine, array: Array) -> Tensor:
    return Tensor.make_scalar_tensor(t, array) if t.is_host_scalar else Tensor(t, engine, array)


def _ids(ports: Sequence[LogicalTensor]) -> tuple[int, ...]:
    return tuple(t.id for t in ports)


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

    @property
    def implementations(self) -> tuple[Implementation, ...]:
        return self.executable.implementations

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Bound:
        return verbose.logged(self.executable.bind(inputs, outputs), lambda: verbose.describe(self.partition, self.executable.code))
