"""A graph as one contender runs it, compiled and bound to memory: what is then executed, and timed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from benchgraph.core.arrays import Array, view
from benchgraph.core.errors import Unavailable
from benchgraph.core.implementation import ByPartition
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Graph
from benchgraph.harness.buffers import allocate, plan
from benchgraph.harness.contenders import Contender
from benchgraph.harness.partitioning import compile_all
from benchgraph.library.compile_jobs import settle
from benchgraph.library.protocol import Bound, Chain, Compiled, Library
from benchgraph.measure.cold_cache import ColdCache
from benchgraph.measure.phases import phase
from benchgraph.measure.streams import Streams
from benchgraph.partition.ir import Partition
from benchgraph.runtime.memory import mapped

Inputs: TypeAlias = dict[int, Array]  # tensor id -> buffer
Data: TypeAlias = tuple[tuple[LogicalTensor, Array], ...]


@dataclass(frozen=True)
class Work:
    """Something to execute, and the tensors that it reads and writes."""

    chain: Chain
    data: Data


@dataclass(frozen=True)
class Built:
    """A graph as one contender runs it, ready to run: as a whole, and each partition alone.

    calls: the same steps from Python, for a library that has such users.
    """

    label: str
    partitions: tuple[Partition, ...]
    compiled: list[Compiled]
    whole: Work
    alone: tuple[Work, ...]
    calls: tuple[Callable[[], None], ...] = ()

    @property
    def implementations(self) -> ByPartition:
        """Of each partition, as the whole graph runs it."""
        return tuple(self.whole.chain.implementations) or tuple(c.implementations for c in self.compiled)


@phase("execute")
def build(graph: Graph, contender: Contender, partitions: tuple[Partition, ...], inputs: Sequence[Inputs]) -> Built:
    """Compile once; for the inputs of each stream lay out the values between partitions, and bind. Nothing is executed."""
    library = contender.library
    compiled = compile_all(partitions, library, contender.spec.policy)
    with phase("compile"):
        settle()
    streams = [_bind(graph, partitions, compiled, each) for each in inputs]
    calls = [_call(library, *each) for each in zip(partitions, compiled, streams[0], strict=True)]
    alone = tuple(_work(library, [[s[i]] for s in streams]) for i in range(len(partitions)))
    return Built(contender.label, partitions, compiled, _work(library, streams), alone, tuple(c for c in calls if c is not None))


def need_in_process(library: Library, cold: ColdCache, streams: int) -> None:
    """Raise Unavailable for what can only be made of a library that executes on this process's memory and threads."""
    if library.is_in_process or not (cold.is_made or streams > 1):
        return
    what = f"{library.name} has its memory and threads in another process, where --cold-cache and --num-streams do not reach"
    raise Unavailable(what, fix="measure it without them")


def _bind(graph: Graph, partitions: Sequence[Partition], compiled: Sequence[Compiled], inputs: Inputs) -> list[tuple[Bound, Data]]:
    """The step of every partition, and its data."""
    layout = plan(graph, partitions)
    slots = [mapped(size) for size in layout.slots]
    arrays = dict(inputs)
    for t in (t for p in partitions for t in p.outputs):
        arrays[t.id] = view(slots[layout.slot[t.id]], t) if t.id in layout.slot else allocate(t)
    found = []
    for p, c in zip(partitions, compiled, strict=True):
        step = c.bind([arrays[t.id] for t in p.inputs], [arrays[t.id] for t in p.outputs])
        found.append((step, tuple((t, arrays[t.id]) for t in (*p.inputs, *p.outputs))))
    return found


def _call(library: Library, p: Partition, compiled: Compiled, step: tuple[Bound, Data]) -> Callable[[], None] | None:
    arrays = [array for _, array in step[1]]
    return library.caller(p, compiled, arrays[: len(p.inputs)], arrays[len(p.inputs) :])


def _work(library: Library, streams: Sequence[Sequence[tuple[Bound, Data]]]) -> Work:
    """The same steps on the data of every stream."""
    chains = [library.sequence([step for step, _ in steps]) for steps in streams]
    data = tuple(pair for steps in streams for _, pairs in steps for pair in pairs)
    return Work(chains[0] if len(chains) == 1 else Streams(chains), data)


def copies(graph: Graph, inputs: Inputs) -> Inputs:
    """The same values in buffers of their own."""
    made = {t.id: allocate(t) for t in graph.inputs}
    for id, array in made.items():
        array[...] = inputs[id]
    return made


def needed_bytes(graph: Graph, partitions: Sequence[Partition]) -> int:
    """What a policy holds besides the inputs: values between partitions, outputs, and its own packed copy of the constants."""
    layout = plan(graph, partitions)
    kept = {t.id: t for t in graph.outputs} | {t.id: t for p in partitions for t in p.outputs if t.id not in layout.slot}
    return layout.nbytes + sum(t.nbytes for t in (*kept.values(), *(t for t in graph.inputs if t.is_constant)))
