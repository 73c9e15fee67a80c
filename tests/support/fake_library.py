"""A library under test that computes with the op table's float64 references, and a clock that moves only when told.

Nothing is measured: executing an op takes OP_S seconds of the fake clock, whoever asks, so times in tests are exact.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from benchgraph.core.errors import Unimplemented
from benchgraph.core.implementation import Implementation
from benchgraph.core.layers import CALLER, Layer, Profiled, Span
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import END, Graph, Op
from benchgraph.harness.bench import Bench
from benchgraph.harness.contenders import Contender
from benchgraph.library.protocol import Library
from benchgraph.machine.target import current
from benchgraph.ops import spec, with_defaults
from benchgraph.ops.spec import Call
from benchgraph.options.problem import Problem
from benchgraph.partition.ir import Partition, Policy
from benchgraph.results.result import Result

OP_S = 0.002  # per op and execution, the same for every kind
PYTHON_S = 0.0005  # that an execution takes longer when Python asks for it
CALL_S = 0.001  # per partition and execution on top, so that fewer partitions are faster
COMPILE_S = 0.5
EVICT_S = 0.25  # that making data cold takes
PEAK = 8e9  # FLOP/s per thread that the fake machine offers
KERNEL = 7.2e9
BANDWIDTH = 3e9  # bytes/s per thread that it reads from caches
MEMORY_BYTES, MEMORY = 1 << 20, 1e9  # what no cache holds, and bytes/s per thread from there


@dataclass
class Clock:
    now: float = 0.0

    def __post_init__(self) -> None:
        self.lock = threading.Lock()

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        with self.lock:
            self.now += seconds


def two_ops() -> Graph:
    """A product with constant weights and a ReLU."""
    b = GraphBuilder()
    b.op("ReLU", b.op("MatMul", b.input((4, 8)), b.constant((8, 16))))
    return b.graph()


def cut(graph: Graph, policy: Policy) -> list[tuple[Op, ...]]:
    """fused: everything at once; the other policies: every op alone. End is alone always."""
    work = tuple(op for op in graph.order if op.kind != END)
    groups = [work] if policy is Policy.fused else [(op,) for op in work]
    return [*groups, *((op,) for op in graph.order if op.kind == END)]


def partition(graph: Graph, id: int, ops: tuple[Op, ...], unsupported: str) -> Partition:
    made = {t.id for op in ops for t in op.outputs}
    ins = {t.id: t for op in ops for t in op.inputs if t.id not in made}
    leave = {t.id for op in graph.ops if op not in ops for t in op.inputs} | {t.id for t in graph.outputs}
    outs = [t for op in ops for t in op.outputs if t.id in leave]
    reason = "End" if ops[0].kind == END else "no kernel" if any(op.kind == unsupported for op in ops) else ""
    return Partition(id, "fake", ops, tuple(ins.values()), tuple(outs), reason)


@dataclass
class FakeLibrary:
    """spoil: changes a result, (op kind, array) -> array; unsupported: an op kind; fails: raised by compile. slowness: factor of all times.

    wrong: ids of ops whose results are off by 0, 1 or 2, if they are alone in a partition only with alone_too.
    note: of its partitions; with one, its chains have a note too. layer_s: of each op, if it tells the times of layers.
    log: the ops of every execution of a bound partition; events: executions of chains and evictions, in order; threads: at every compile.
    """

    clock: Clock
    spoil: Callable[[str, np.ndarray], np.ndarray] = lambda kind, array: array
    unsupported: str = ""
    fails: Exception | None = None
    slowness: float = 1.0
    name: str = "fake"
    version: str = ""
    is_in_process: bool = True
    dumps_itself: bool = False
    log: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    implementations: tuple[Implementation, ...] = ()
    wrong: frozenset[int] = frozenset()
    alone_too: bool = True
    note: str = ""
    layer_s: tuple[float, ...] = ()

    def partitions(self, graph: Graph, policy: Policy) -> tuple[Partition, ...]:
        made = [partition(graph, 100 + i, ops, self.unsupported) for i, ops in enumerate(cut(graph, policy))]
        return tuple(replace(p, note=self.note) for p in made)

    def compile(self, partition: Partition) -> Compiled:
        if not partition.is_supported:
            raise Unimplemented(partition.reason)
        if self.fails is not None:
            raise self.fails
        self.clock.advance(COMPILE_S)
        self.threads.append(current().cores)
        return Compiled(self, partition)

    def compile_all(self, partitions: Sequence[Partition]) -> list[Compiled]:
        return [self.compile(p) for p in partitions]

    def caller(
        self, partition: Partition, compiled: Compiled, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
    ) -> Callable[[], None] | None:
        """As a native call, and what Python takes for it."""
        step = compiled.bind(inputs, outputs)

        def call() -> None:
            self.clock.advance(PYTHON_S + step.cost_s)

        return call

    def sequence(self, steps: Sequence[Bound]) -> Chain:
        return Chain(self, tuple(steps))

    def profiled(
        self, partitions: Sequence[Partition], inputs: Sequence[Sequence[np.ndarray]], outputs: Sequence[Sequence[np.ndarray]]
    ) -> Profiled | None:
        if not self.layer_s:
            return None
        layers = [Layer((op.id,), position) for position, p in enumerate(partitions) for op in p.ops]
        return FakeProfiled(self, tuple(layers))


@dataclass
class FakeProfiled:
    """Two threads compute the first half of each layer, and one alone the other."""

    library: FakeLibrary
    layers: tuple[Layer, ...]

    def run(self) -> list[Span]:
        self.library.events.append("profiled")
        spans = list[Span]()
        for n, seconds in enumerate(self.library.layer_s):
            begin = self.library.clock()
            self.library.clock.advance(seconds)
            spans += [Span(n, begin, begin + seconds, thread) for thread in (CALLER, 0)]
            spans.append(Span(n, begin, begin + seconds / 2, 1))
        return spans


@dataclass
class Compiled:
    library: FakeLibrary
    partition: Partition
    compile_s: float = COMPILE_S
    is_warm: bool = False

    @property
    def implementations(self) -> tuple[Implementation, ...]:
        return self.library.implementations

    def bind(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> Bound:
        for t, array in zip((*self.partition.inputs, *self.partition.outputs), (*inputs, *outputs), strict=True):
            assert (array.dtype, array.shape) == (t.dtype.numpy, t.known_shape)
            assert tuple(s // array.itemsize for s in array.strides) == t.known_strides
        return Bound(self, tuple(inputs), tuple(outputs))


@dataclass
class Bound:
    compiled: Compiled
    inputs: tuple[np.ndarray, ...]
    outputs: tuple[np.ndarray, ...]

    @property
    def cost_s(self) -> float:
        return (CALL_S + OP_S * len(self.compiled.partition.ops)) * self.compiled.library.slowness

    def __call__(self) -> None:
        p, library = self.compiled.partition, self.compiled.library
        library.clock.advance(self.cost_s)
        library.log.append(" ".join(op.kind for op in p.ops))
        live = {t.id: np.asarray(a, np.float64) for t, a in zip(p.inputs, self.inputs, strict=True)}
        for op in p.ops:
            types = (tuple(t.type for t in op.inputs), tuple(t.type for t in op.outputs))
            call = Call(op.kind, with_defaults(op.kind, op.attrs), *types)
            results = spec(op.kind).semantics.reference(call, tuple(live[t.id] for t in op.inputs))
            is_wrong = op.id in library.wrong and (library.alone_too or len(p.ops) > 1)
            results = [r + is_wrong * np.arange(r.size).reshape(r.shape) % 3 for r in map(np.asarray, results)]
            live.update({t.id: library.spoil(op.kind, r) for t, r in zip(op.outputs, results, strict=True)})
        for t, array in zip(p.outputs, self.outputs, strict=True):
            array[...] = live[t.id]


@dataclass
class Chain:
    """constants: one array per step, as if each had packed something."""

    implementations = ()

    library: FakeLibrary
    steps: tuple[Bound, ...]

    def __post_init__(self) -> None:
        self.constants = [np.zeros(1) for _ in self.steps]
        self.notes = [f"{len(self.steps)} steps"] if self.library.note else []

    def run(self, times: int) -> None:
        ops = " + ".join(" ".join(op.kind for op in step.compiled.partition.ops) for step in self.steps)
        self.library.events.append(f"{times} x {ops}")
        self.library.clock.advance(times * sum(step.cost_s for step in self.steps))


@dataclass
class FakeProbe:
    rate: float

    nbytes: int = 0

    def sample(self) -> float:
        return self.rate


def bandwidth(threads: int, sizes: Sequence[int]) -> list[FakeProbe]:
    """A probe per size, the smallest first; memory's for what is too large."""
    found = sorted({min(n, MEMORY_BYTES) for n in sizes})
    return [FakeProbe(threads * (MEMORY if n == MEMORY_BYTES else BANDWIDTH), n) for n in found]


FASTER = {"f32": 1, "bf16": 2, "int8": 4}  # than f32


def fake_bench(library: FakeLibrary, free_bytes: int = 1 << 40) -> Bench:
    def evict(arrays: Sequence[np.ndarray], tlb_bytes: int, threads: int) -> Callable[[], None]:
        def go() -> None:
            library.events.append(f"evict {len(arrays)} {tlb_bytes}")
            library.clock.advance(EVICT_S)

        return go

    return Bench(
        clock=library.clock,
        library=lambda name: library,
        probe=lambda threads, arithmetic: FakeProbe(threads * FASTER[arithmetic] * PEAK),
        kernel=lambda arithmetic: FakeProbe(FASTER[arithmetic] * KERNEL),
        free_bytes=lambda: free_bytes,
        bandwidth=bandwidth,
        evict=evict,
    )


def held(how: Callable[..., Result], problem: Problem, graph: Graph, library: Library, *more: object) -> Result:
    """What a mode makes of a problem under this library."""
    return how(problem, graph, [Contender(spec, library) for spec in problem.globals.contender_specs], *more)
