"""oneDNN behind the library protocol: partitions, compiled partitions and buffers are handles of objects in its process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchgraph.core.arrays import Array
from benchgraph.core.errors import InvalidGraphOp, Unavailable, Unimplemented
from benchgraph.core.implementation import Implementation, counted
from benchgraph.graph.check import check
from benchgraph.graph.ir import Graph, Op
from benchgraph.library import protocol
from benchgraph.library.remote import Buffer, Remote, RemoteChain, RemoteLibrary, buffer_for, own_steps
from benchgraph.machine.target import current
from benchgraph.onednn import encode, messages
from benchgraph.onednn.client import WHERE, Process, process
from benchgraph.onednn.dispatch import Source, rejections
from benchgraph.onednn.find_library import find
from benchgraph.onednn.memory_plan import PlannedStep, plan
from benchgraph.onednn.table import DEFINE_LAYOUTS, KNOWN, POLICIES, Version
from benchgraph.partition.ir import Partition, Policy

KIND = "onednn"  # of its partitions: oneDNN does not report a rule


class OneDnn(RemoteLibrary):
    """A Library. All of one path and label share a process while it lives; each begins with empty caches."""

    def __init__(self, path: str = "", label: str = "") -> None:
        self.process: Process = process(find(path), current().cores, label)
        self.process.ask("flush")
        self._parts: dict[int, Remote] = {}
        self._free_layouts: dict[int, frozenset[int]] = {}
        self._sources: dict[int, Source] = {}

    @property
    def name(self) -> str:
        return "onednn"

    @property
    def version(self) -> str:
        return self.process.release

    @property
    def dumps_itself(self) -> bool:
        return True

    @property
    def release(self) -> Version:
        return self.process.hello.version[:2]

    def partitions(self, graph: Graph, policy: Policy) -> tuple[Partition, ...]:
        """oneDNN's partitions. Raises Unavailable for a policy that it lacks, and for what needs a newer version."""
        if policy.value not in POLICIES:
            fix = f"choose among {', '.join(POLICIES)}"
            raise Unavailable(f"oneDNN has no policy {policy.value}", where=WHERE, fix=fix)
        message = encode.graph(graph, self.release)
        parts = self._partitioning(graph, message, policy)
        self._sources |= {p.number: Source(message, POLICIES[policy.value].code, i) for i, p in enumerate(parts)}
        ops = {op.id: op for op in graph.ops}
        position = {op.id: i for i, op in enumerate(graph.order)}
        defining = [t.id for op in graph.ops if op.kind in DEFINE_LAYOUTS for t in (*op.inputs, *op.outputs)]
        fixed = frozenset({t.id for t in graph.outputs}.union(defining))
        return tuple(self._partition(graph, p, [ops[id] for id in sorted(p.ops, key=position.__getitem__)], fixed) for p in parts)

    def _partitioning(self, graph: Graph, message: messages.Graph, policy: Policy) -> list[messages.Part]:
        """Our op table describes version KNOWN, so an op that it accepts and an older oneDNN rejects was added in between."""
        try:
            parts: list[messages.Part] = self.process.ask("partition", message, POLICIES[policy.value].code)
        except InvalidGraphOp as bad:
            if self.release >= KNOWN:
                raise
            check(graph)
            known = ".".join(map(str, KNOWN))
            raise Unavailable(f"{bad.what}, which oneDNN {known} takes", where=WHERE, fix="use a newer oneDNN") from bad
        return parts

    def _partition(self, graph: Graph, part: messages.Part, ops: list[Op], fixed_layouts: frozenset[int]) -> Partition:
        self._parts[part.number] = Remote(self.process, part.number)
        ins, outs = (tuple(graph.tensors[id] for id in side) for side in (part.inputs, part.outputs))
        reason = "" if part.is_supported else f"oneDNN {self.process.version} has nothing to compute it with"
        self._free_layouts[part.number] = frozenset(part.outputs) - fixed_layouts
        return Partition(part.number, KIND, tuple(ops), ins, outs, reason, graph.engine_kind, graph.fpmath_mode, graph.fpmath_apply_to_int)

    def compile(self, partition: Partition) -> Compiled:
        if not partition.is_supported:
            raise Unimplemented(partition.reason, where=WHERE)
        if partition.options.off:
            raise Unavailable("oneDNN's passes cannot be left out", where=WHERE, fix="give it a policy without options")
        ins, outs = (tuple(encode.tensor(t, self.release) for t in side) for side in (partition.inputs, partition.outputs))
        made: messages.Compiled = self.process.ask("compile", partition.id, ins, outs)
        ran = counted(made.implementations)
        if any(i.is_reference for i in ran):
            why = rejections(self.process, self._sources[partition.id], ins, outs)
            ran = tuple(replace(i, why=why.get(i.primitive, "")) if i.is_reference else i for i in ran)
        return Compiled(self.process, partition, self._parts[partition.id], self._free_layouts[partition.id], made, ran)

    def compile_all(self, partitions: Sequence[Partition]) -> list[protocol.Compiled]:
        """One after the other: its process handles one request at a time."""
        return [self.compile(p) for p in partitions]

    def sequence(self, steps: Sequence[protocol.Bound]) -> Chain:
        """The steps as one native loop in oneDNN's process, on its memory. Raises InvalidArguments for steps of another library."""
        return Chain(self.process, own_steps(steps, Bound))


class Compiled:
    """A compiled partition. free_layouts: ids of outputs whose layout oneDNN may choose, if only partitions of
    the same graph read them."""

    def __init__(
        self,
        process: Process,
        partition: Partition,
        part: Remote,
        free_layouts: frozenset[int],
        made: messages.Compiled,
        implementations: tuple[Implementation, ...],
    ) -> None:
        self.process, self.partition, self.part, self.free_layouts, self.made = process, partition, part, free_layouts, made
        self.implementations = implementations
        self._remote = Remote(process, made.number)

    @property
    def compile_s(self) -> float:
        return self.made.seconds

    @property
    def is_warm(self) -> bool:
        """oneDNN has no disk cache."""
        return False

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Bound:
        return Bound(self, tuple(inputs), tuple(outputs))


class Bound:
    """A compiled partition on arrays of ours; each call copies them to oneDNN's process and back."""

    def __init__(self, compiled: Compiled, inputs: tuple[Array, ...], outputs: tuple[Array, ...]) -> None:
        self.compiled, self.inputs, self.outputs = compiled, inputs, outputs
        partition, made = compiled.partition, compiled.made
        self._ports = list(zip((*partition.inputs, *partition.outputs), (*inputs, *outputs), (*made.inputs, *made.outputs), strict=True))
        self._buffers: list[Buffer] = []

    def __call__(self) -> None:
        """Execute once. Outputs are copied to it too, so that elements that are not written keep their values."""
        run = self.compiled.process
        self._buffers = [buffer_for(run, array, max(placed.nbytes, t.nbytes)) for t, array, placed in self._ports]
        for buffer, (t, array, _) in zip(self._buffers, self._ports, strict=True):
            buffer.put(array, t)
        split, numbers = len(self.inputs), tuple(b.number for b in self._buffers)
        run.ask("execute", messages.Step(self.compiled.made.number, numbers[:split], numbers[split:]))
        for buffer, (t, array, _) in list(zip(self._buffers, self._ports, strict=True))[split:]:
            buffer.get(array, t)


class Chain(Remote, RemoteChain):
    """Bound steps as one loop in oneDNN's process. Several are compiled again, with layout any between them, and share memory by
    memory_plan.py."""

    def __init__(self, process: Process, steps: Sequence[Bound]) -> None:
        self.process = process
        self._steps = tuple(steps) if len(steps) > 1 else ()
        made = [s.compiled.made for s in steps] if len(steps) == 1 else list(self._compiled(steps))
        self._ran = tuple(counted(m.implementations) for m in made)
        self._compiled_remotes = [Remote(process, m.number) for m in made] if len(steps) > 1 else [s.compiled for s in steps]
        self._buffers = dict[int, Buffer]()
        memory = plan([PlannedStep(m, s.compiled.free_layouts) for m, s in zip(made, steps, strict=True)])
        shared = [Buffer(process, nbytes) for nbytes in memory.slots]
        for m, step in zip(made, steps, strict=True):
            partition = step.compiled.partition
            ports = zip((*partition.inputs, *partition.outputs), (*step.inputs, *step.outputs), (*m.inputs, *m.outputs), strict=True)
            for t, array, placed in ports:
                if t.id in self._buffers:
                    continue
                if t.id in memory.slot:
                    self._buffers[t.id] = shared[memory.slot[t.id]]
                    continue
                self._buffers[t.id] = buffer = buffer_for(process, array, max(placed.nbytes, t.nbytes))
                buffer.put(array, t)
        numbers = {id: b.number for id, b in self._buffers.items()}
        message = tuple(
            messages.Step(m.number, *(tuple(numbers[p.tensor.id] for p in side) for side in (m.inputs, m.outputs))) for m in made
        )
        super().__init__(process, process.ask("chain", message))

    def _compiled(self, steps: Sequence[Bound]) -> Iterator[messages.Compiled]:
        """The steps' partitions, each compiled for the layouts chosen by those before it."""
        read = {t.id for s in steps for t in s.compiled.partition.inputs}
        chosen: dict[int, messages.Tensor] = {}
        for step in steps:
            compiled = step.compiled
            ins = tuple(chosen.get(p.tensor.id, p.tensor) for p in compiled.made.inputs)
            outs = tuple(
                replace(p.tensor, layout=messages.ANY, strides=()) if p.tensor.id in compiled.free_layouts & read else p.tensor
                for p in compiled.made.outputs
            )
            made: messages.Compiled = self.process.ask("compile", compiled.part.number, ins, outs)
            chosen |= {p.tensor.id: p.tensor for p in made.outputs}
            yield made

    @property
    def implementations(self) -> Sequence[tuple[Implementation, ...]]:
        return self._ran

    def run(self, times: int) -> float:
        """As RemoteChain, by oneDNN's native loop. Before the first time, each of several steps is executed on its own, to fill the values
        between them."""
        for step in self._steps:
            step()
        self._steps = ()
        return super().run(times)
