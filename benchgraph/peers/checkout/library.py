"""Another checkout of benchgraph behind the library protocol: partitions, compiled partitions and buffers are handles of its objects."""

from __future__ import annotations

from collections.abc import Sequence

from benchgraph.core.arrays import Array
from benchgraph.core.errors import Unavailable, Unimplemented
from benchgraph.core.implementation import Implementation
from benchgraph.graph.ir import Graph
from benchgraph.graph.json import dumps
from benchgraph.library import protocol
from benchgraph.library.remote import Remote, RemoteChain, RemoteLibrary, buffer_for, own_steps
from benchgraph.machine.target import current
from benchgraph.partition.ir import Partition, Policy
from benchgraph.peers.checkout.client import Process, process
from benchgraph.peers.checkout.source import find


class Checkout(RemoteLibrary):
    """A Library. All of one folder and label share a process while it lives."""

    def __init__(self, place: str, label: str = "") -> None:
        self.source, target = find(place), current()
        self.process: Process = process(self.source, label, target.isa.name, target.cores)
        self._parts: dict[int, Remote] = {}

    @property
    def name(self) -> str:
        return "benchgraph"

    @property
    def version(self) -> str:
        """Its commit, with + for changes since; its folder where git does not know."""
        return self.source.version or str(self.source.folder)

    @property
    def dumps_itself(self) -> bool:
        return True

    def partitions(self, graph: Graph, policy: Policy) -> tuple[Partition, ...]:
        ops, tensors = {op.id: op for op in graph.ops}, graph.tensors
        found = []
        for number, kind, op_ids, ins, outs, reason in self.process.ask("partition", dumps(graph), policy.value):
            self._parts[number] = Remote(self.process, number)
            inputs, outputs = (tuple(tensors[id] for id in side) for side in (ins, outs))
            mode, is_for_integers = graph.fpmath_mode, graph.fpmath_apply_to_int
            inside = tuple(ops[id] for id in op_ids)
            found.append(Partition(number, kind, inside, inputs, outputs, reason, graph.engine_kind, mode, is_for_integers))
        return tuple(found)

    def compile(self, partition: Partition) -> Compiled:
        return self._compiled([partition])[0]

    def compile_all(self, partitions: Sequence[Partition]) -> list[protocol.Compiled]:
        return list(self._compiled(partitions))

    def _compiled(self, partitions: Sequence[Partition]) -> list[Compiled]:
        for p in partitions:
            if not p.is_supported:
                raise Unimplemented(p.reason, where=self.process.where)
            if p.options.off:
                raise Unavailable("the passes of another checkout cannot be left out", where=self.process.where, fix="leave out the no-…")
        made = self.process.ask("compile", [self._parts[p.id].number for p in partitions])
        return [Compiled(self.process, p, *each) for p, each in zip(partitions, made, strict=True)]

    def sequence(self, steps: Sequence[protocol.Bound]) -> Chain:
        """The steps as one native call in the other process. Raises InvalidArguments for steps of another library."""
        return Chain(self.process, own_steps(steps, Bound))


class Compiled(Remote):
    """A compiled partition."""

    def __init__(
        self, process: Process, partition: Partition, number: int, compile_s: float, is_warm: bool, ran: list[tuple[str, str, int]]
    ) -> None:
        super().__init__(process, number)
        self.partition, self.compile_s, self.is_warm = partition, compile_s, is_warm
        self.implementations = tuple(Implementation(*each) for each in ran)

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Bound:
        return Bound(self, tuple(inputs), tuple(outputs))


class Bound(Remote):
    """A compiled partition on arrays of ours; each call copies them to the other process and back."""

    def __init__(self, compiled: Compiled, inputs: tuple[Array, ...], outputs: tuple[Array, ...]) -> None:
        process, partition, split = compiled.process, compiled.partition, len(inputs)
        tensors, arrays = (*partition.inputs, *partition.outputs), (*inputs, *outputs)
        self.compiled = compiled
        self.ports = [(t, a, buffer_for(process, a, t.nbytes)) for t, a in zip(tensors, arrays, strict=True)]
        self.outputs = self.ports[split:]
        numbers = [buffer.number for _, _, buffer in self.ports]
        super().__init__(process, process.ask("bind", compiled.number, numbers[:split], numbers[split:]))

    def put(self, written: set[int]) -> None:
        """Copy the arrays to the other process, except those of buffers in `written`, which is extended."""
        for t, array, buffer in self.ports:
            if buffer.number not in written:
                buffer.put(array, t)
                written.add(buffer.number)

    def __call__(self) -> None:
        """Execute once. Outputs are copied to it too, so that elements that are not written keep their values."""
        self.put(set())
        self.process.ask("execute", self.number)
        for t, array, buffer in self.outputs:
            buffer.get(array, t)


class Chain(Remote, RemoteChain):
    """Bound steps as one native call in the other process, on buffers that stay in it."""

    def __init__(self, process: Process, steps: Sequence[Bound]) -> None:
        super().__init__(process, process.ask("chain", [s.number for s in steps]))
        self._steps = steps
        written = set[int]()
        for step in steps:
            step.put(written)
