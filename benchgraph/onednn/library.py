"""oneDNN behind the library protocol: partitions, compiled partitions and bound buffers here stand for objects in its process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from benchgraph.core.arrays import Array, view
from benchgraph.core.errors import InvalidArguments, InvalidGraphOp, Unavailable, Unimplemented
from benchgraph.core.target import current
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.check import check
from benchgraph.graph.ir import Graph, Op
from benchgraph.library import protocol
from benchgraph.onednn import encode, messages
from benchgraph.onednn.client import WHERE, Process, Remote, process
from benchgraph.onednn.find import find
from benchgraph.onednn.plan import Piece, plan
from benchgraph.onednn.settle import settle
from benchgraph.onednn.table import KNOWN, LAYOUT_IS_MEANT, POLICIES, Version
from benchgraph.partition.ir import Partition, Policy

KIND = "onednn"  # of its partitions: oneDNN does not say what made them


class OneDnn:
    """A Library. All of one path share a process, as long as it lives; each begins with empty caches."""

    def __init__(self, path: str = "") -> None:
        self.process: Process = process(find(path), current().cores)
        self.process.ask("flush")
        self._parts: dict[int, Remote] = {}
        self._open: dict[int, frozenset[int]] = {}

    @property
    def name(self) -> str:
        return "onednn"

    @property
    def version(self) -> str:
        """As in 3.13.2 (SYCL): the release, and the runtime of its threads."""
        return f"{self.process.version} ({self.process.hello.runtime})"

    @property
    def is_in_process(self) -> bool:
        return False

    @property
    def dumps_itself(self) -> bool:
        return True

    @property
    def release(self) -> Version:
        return self.process.hello.version[:2]

    def partitions(self, graph: Graph, policy: Policy) -> tuple[Partition, ...]:
        """oneDNN's partitions. Raises Unavailable for a policy that it has not, and for what a newer version has."""
        if policy.value not in POLICIES:
            fix = f"choose among {', '.join(POLICIES)}"
            raise Unavailable(f"oneDNN has no policy {policy.value}", where=WHERE, fix=fix)
        parts = self._cut(graph, policy)
        ops = {op.id: op for op in graph.ops}
        position = {op.id: i for i, op in enumerate(graph.order)}
        kept = {t.id for t in graph.outputs} | {t.id for op in graph.ops if op.kind in LAYOUT_IS_MEANT for t in (*op.inputs, *op.outputs)}
        return tuple(
            self._partition(graph, part, [ops[id] for id in sorted(part.ops, key=position.__getitem__)], frozenset(kept)) for part in parts
        )

    def _cut(self, graph: Graph, policy: Policy) -> list[messages.Part]:
        """Our op table is that of KNOWN, so an op that it takes and an older oneDNN does not has come to oneDNN in between."""
        try:
            parts: list[messages.Part] = self.process.ask("cut", encode.graph(graph, self.release), POLICIES[policy.value].code)
        except InvalidGraphOp as bad:
            if self.release >= KNOWN:
                raise
            check(graph)
            known = ".".join(map(str, KNOWN))
            raise Unavailable(f"{bad.what}, which oneDNN {known} takes", where=WHERE, fix="use a newer oneDNN") from bad
        return parts

    def _partition(self, graph: Graph, part: messages.Part, ops: list[Op], kept: frozenset[int]) -> Partition:
        self._parts[part.number] = Remote(self.process, part.number)
        ins, outs = (tuple(graph.tensors[id] for id in side) for side in (part.inputs, part.outputs))
        reason = "" if part.is_supported else f"oneDNN {self.process.version} has nothing to compute it with"
        self._open[part.number] = frozenset(part.outputs) - kept
        return Partition(part.number, KIND, tuple(ops), ins, outs, reason, graph.engine_kind, graph.fpmath_mode, graph.fpmath_apply_to_int)

    def compile(self, partition: Partition) -> Compiled:
        """Compile for strided tensors."""
        if not partition.is_supported:
            raise Unimplemented(partition.reason, where=WHERE)
        if partition.options.off:
            raise Unavailable("oneDNN's passes cannot be left out", where=WHERE, fix="give it a policy without options")
        ins, outs = (tuple(encode.tensor(t, self.release) for t in side) for side in (partition.inputs, partition.outputs))
        return Compiled(self.process, partition, self._parts[partition.id], self._open[partition.id], self._ask(partition.id, ins, outs))

    def compile_all(self, partitions: Sequence[Partition]) -> list[protocol.Compiled]:
        """One after the other: its process does one thing at a time."""
        return [self.compile(p) for p in partitions]

    def _ask(self, part: int, ins: tuple[messages.Tensor, ...], outs: tuple[messages.Tensor, ...]) -> messages.Compiled:
        found: messages.Compiled = self.process.ask("compile", part, ins, outs)
        return found

    def caller(
        self, partition: Partition, compiled: protocol.Compiled, inputs: Sequence[Array], outputs: Sequence[Array]
    ) -> Callable[[], None] | None:
        """None: it executes in a process without Python programs."""
        return None

    def sequence(self, steps: Sequence[protocol.Bound]) -> Chain:
        """The steps as one native loop in oneDNN's process, on memory there. Raises InvalidArguments for what is not bound by this."""
        ours = [s for s in steps if isinstance(s, Bound)]
        if len(ours) != len(steps):
            raise InvalidArguments("cannot chain what another library has bound", where="sequence", fix="chain what this library has bound")
        return Chain(self.process, ours)


class Compiled:
    """A compiled partition. open: ids of outputs whose layout is oneDNN's to choose where only oneDNN reads them."""

    def __init__(self, process: Process, partition: Partition, part: Remote, open: frozenset[int], made: messages.Compiled) -> None:
        self.process, self.partition, self.part, self.open, self.made = process, partition, part, open, made
        self._remote = Remote(process, made.number)

    @property
    def compile_s(self) -> float:
        return self.made.seconds

    @property
    def is_warm(self) -> bool:
        """oneDNN keeps nothing on disk."""
        return False

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Bound:
        return Bound(self, tuple(inputs), tuple(outputs))


class Buffer(Remote):
    """Memory in oneDNN's process that stands for an array of ours, or for none."""

    def __init__(self, process: Process, nbytes: int, array: Array | None = None) -> None:
        super().__init__(process, process.ask("allocate", nbytes))
        self.nbytes, self.array = nbytes, array

    def put(self, array: Array, tensor: LogicalTensor) -> None:
        """Copy the array there."""
        view(self.process.window(tensor.nbytes), tensor)[...] = array
        self.process.ask("put", self.number, tensor.nbytes)

    def get(self, array: Array, tensor: LogicalTensor) -> None:
        """Copy into the array what is there."""
        window = self.process.window(tensor.nbytes)
        self.process.ask("get", self.number, tensor.nbytes)
        array[...] = view(window, tensor)


def _buffer(process: Process, array: Array, nbytes: int) -> Buffer:
    """The buffer for an array: the one that others over the same array have, if it is large enough."""
    address = array.ctypes.data
    found: Buffer | None = process.buffers.get(address)
    if found is None or found.nbytes < nbytes:
        found = process.buffers[address] = Buffer(process, nbytes, array)
    return found


class Bound:
    """A compiled partition on arrays of ours; each call copies them there and back."""

    def __init__(self, compiled: Compiled, inputs: tuple[Array, ...], outputs: tuple[Array, ...]) -> None:
        self.compiled, self.inputs, self.outputs = compiled, inputs, outputs
        partition, made = compiled.partition, compiled.made
        self._ports = list(zip((*partition.inputs, *partition.outputs), (*inputs, *outputs), (*made.inputs, *made.outputs), strict=True))
        self._buffers: list[Buffer] = []

    def __call__(self) -> None:
        """Execute once. Outputs are copied there too, so that elements nobody writes come back as they were."""
        run = self.compiled.process
        self._buffers = [_buffer(run, array, max(placed.nbytes, t.nbytes)) for t, array, placed in self._ports]
        for buffer, (t, array, _) in zip(self._buffers, self._ports, strict=True):
            buffer.put(array, t)
        split, numbers = len(self.inputs), tuple(b.number for b in self._buffers)
        run.ask("execute", messages.Step(self.compiled.made.number, numbers[:split], numbers[split:]))
        for buffer, (t, array, _) in list(zip(self._buffers, self._ports, strict=True))[split:]:
            buffer.get(array, t)


class Chain:
    """Bound steps as one loop there. Several are compiled once more, with layout any between them, and share memory as plan.py has it."""

    def __init__(self, process: Process, steps: Sequence[Bound]) -> None:
        self._process = process
        self._steps = tuple(steps) if len(steps) > 1 else ()
        made = [s.compiled.made for s in steps] if len(steps) == 1 else list(self._compiled(steps))
        self._compiled_remotes = [Remote(process, m.number) for m in made] if len(steps) > 1 else [s.compiled for s in steps]
        self._buffers = dict[int, Buffer]()
        pieces = plan([Piece(m, s.compiled.open) for m, s in zip(made, steps, strict=True)])
        shared = [Buffer(process, nbytes) for nbytes in pieces.slots]
        for m, step in zip(made, steps, strict=True):
            partition = step.compiled.partition
            ports = zip((*partition.inputs, *partition.outputs), (*step.inputs, *step.outputs), (*m.inputs, *m.outputs), strict=True)
            for t, array, placed in ports:
                if t.id in self._buffers:
                    continue
                if t.id in pieces.slot:
                    self._buffers[t.id] = shared[pieces.slot[t.id]]
                    continue
                self._buffers[t.id] = buffer = _buffer(process, array, max(placed.nbytes, t.nbytes))
                buffer.put(array, t)
        numbers = {id: b.number for id, b in self._buffers.items()}
        message = tuple(
            messages.Step(m.number, *(tuple(numbers[p.tensor.id] for p in side) for side in (m.inputs, m.outputs))) for m in made
        )
        self._remote = Remote(process, process.ask("chain", message))

    def _compiled(self, steps: Sequence[Bound]) -> Iterator[messages.Compiled]:
        """The steps' partitions, each compiled for what those before it have chosen."""
        read = {t.id for s in steps for t in s.compiled.partition.inputs}
        chosen: dict[int, messages.Tensor] = {}
        for step in steps:
            compiled = step.compiled
            ins = tuple(chosen.get(p.tensor.id, p.tensor) for p in compiled.made.inputs)
            outs = tuple(
                replace(p.tensor, layout=messages.ANY, strides=()) if p.tensor.id in compiled.open & read else p.tensor
                for p in compiled.made.outputs
            )
            made: messages.Compiled = self._process.ask("compile", compiled.part.number, ins, outs)
            chosen |= {p.tensor.id: p.tensor for p in made.outputs}
            yield made

    @property
    def constants(self) -> Sequence[Array]:
        """None that this process could see."""
        return ()

    def run(self, times: int) -> float:
        """Execute all steps in order, so many times. Returns the seconds that the native loop took, measured around it over there.

        Before the first time each step of several is executed on its own, as chains of one find the values between them that way.
        """
        if self._steps:
            for step in self._steps:
                step()
            self._steps = ()
        settle()
        seconds: float = self._process.ask("run", self._remote.number, times)
        return seconds
