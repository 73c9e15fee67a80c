"""Runs a graph on the framework's arrays: partitions by the library, the rest by numpy.

    executor = Executor(graph, {1: w0, 2: w1})      # tensor id -> parameter
    y = executor.forward({0: x})[9]                 # tensor id -> array

Threads may run one executor at the same time, each with memory of its own; parameters are shared, and converted once. Outputs are
overwritten by the same thread's next run: `numpy` makes copies.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from benchgraph.core.errors import InvalidArguments, InvalidDataType, within
from benchgraph.core.tensor import LogicalTensor, PropertyType, Shape
from benchgraph.framework.counters import Counters, counted
from benchgraph.framework.execution import Execution, Workspace, port_desc, port_property
from benchgraph.framework.fallback import NumpyKernel
from benchgraph.framework.memory_desc import MemoryDesc, describe
from benchgraph.framework.ndarray import NDArray
from benchgraph.framework.prepack import panels, prepack_, reads_panels, unpack_
from benchgraph.framework.program import PartitionStep, Program, build, in_default_layout
from benchgraph.framework.reorder import convert
from benchgraph.framework.request import OpReq, check_output, output
from benchgraph.framework.temp_space import temp_space
from benchgraph.graph.ir import Graph
from benchgraph.graph.override.layout import NewShape
from benchgraph.graph.override.shapes import with_shapes
from benchgraph.library.cache import Cache
from benchgraph.library.engine import Engine
from benchgraph.partition.ir import Policy

PROGRAMS = 64  # sets of shapes that an executor keeps programs for
WORKSPACES = 4  # programs that a thread keeps memory for


@dataclass(frozen=True)
class Run:
    """The record of a run. partitions: op ids of each of the library's. arena_bytes: memory for values between steps."""

    counters: Counters
    partitions: tuple[tuple[int, ...], ...]
    arena_bytes: int

    def __str__(self) -> str:
        c = self.counters
        off = "".join(f"; {op}: {reason}" for op, reason in c.fallbacks.items())
        return (
            f"{len(self.partitions)} partitions of {c.offloaded} ops, {len(c.fallbacks)} fallbacks{off}; "
            f"{c.reorders} reorders ({c.reorder_bytes} bytes), {c.weight_reorders} of weights, {c.lazy_reorders} lazy; "
            f"cache: {c.hits} hits, {c.misses} misses; temp: {c.temp_bytes} bytes, {c.spills} spills; arena: {self.arena_bytes} bytes; "
            f"{c.copies_back} copied back, {c.adds_back} added"
        )


class _PerThread(threading.local):
    def __init__(self) -> None:
        self.workspaces: dict[Program, Workspace] = {}
        self.last: Run | None = None


class Executor:
    """graph: of the library's ops, shape-inferred; its tensors count as row-major. params: arrays of inputs that stay between runs.

    policy: of partitioning. fallback: ops, by id or kind, that numpy runs. kernels: the framework's own functions for ops, by op id.
    prepacks: whether weights are converted for inference; propagates: whether values between partitions may be opaque.
    """

    def __init__(
        self,
        graph: Graph,
        params: Mapping[int, NDArray] | None = None,
        *,
        policy: Policy = Policy.fused,
        fallback: Collection[int | str] = (),
        kernels: Mapping[int, NumpyKernel] | None = None,
        prepacks: bool = True,
        propagates: bool = True,
        engine: Engine | None = None,
    ) -> None:
        self._graph = in_default_layout(graph)
        self.params, self._kernels = dict(params or {}), dict(kernels or {})
        self._policy, self._prepacks, self._propagates = policy, prepacks, propagates
        self._engine = engine or Engine()
        forced = {op.id: "asked for" for op in graph.ops if op.outputs and (op.id in fallback or op.kind in fallback)}
        self._refused = {**forced, **dict.fromkeys(self._kernels, "the framework has a kernel of its own")}
        self._inputs = {t.id: t for t in self._graph.inputs}
        self._programs: Cache[Program] = Cache(PROGRAMS)
        self._per_thread = _PerThread()
        self._panels = {id: desc for id in self.params if (desc := self._wanted(id))}

    @property
    def last(self) -> Run:
        """The record of this thread's last run. Raises InvalidArguments if there was none."""
        if self._per_thread.last is None:
            raise InvalidArguments("nothing has run on this thread", where="Executor.last", fix="call forward first")
        return self._per_thread.last

    def prepack(self) -> int:
        """Convert every weight for inference, as the first inference does. Returns how many this call converted."""
        return sum(prepack_(self.params[id], desc) for id, desc in self._panels.items())

    def unpack(self) -> int:
        """Convert every weight back, as the first training run does. Returns how many this call converted."""
        return sum(unpack_(w) for w in self.params.values())

    def forward(
        self,
        inputs: Mapping[int, NDArray],
        dst: Mapping[int, NDArray] | None = None,
        requests: Mapping[int, OpReq] | None = None,
        *,
        is_train: bool = False,
    ) -> dict[int, NDArray]:
        """Run the graph; returns the outputs by tensor id.

        inputs: arrays of the inputs that are not parameters. dst: arrays to write outputs to, as requested (default write_to). is_train:
        weights are row-major and may change, as do outputs, including gradients. Raises the errors of arrays, requests and shapes, naming
        array and op, with every array unchanged.
        """
        given, requests = dst or {}, requests or {}
        with counted() as done:
            env = self._bound(inputs)
            if is_train:
                self.unpack()
            elif self._prepacks:
                self.prepack()
            program = self._program(env, is_train=is_train)
            deferred = self._checked(program, env, given, requests, is_train=is_train)
            targets = {id: (a, requests.get(id, OpReq.write_to)) for id, a in given.items()}
            run = Execution(
                program,
                env,
                self._workspace(program, env),
                {id: target for id, target in targets.items() if id not in deferred},
                frozenset() if is_train else frozenset(self.params),
                self._kernels,
                self._engine,
                is_train=is_train,
            )
            results = run()
            for id in deferred:
                results[id] = self._copied(id, results[id], *targets[id], is_train=is_train)
        partitions = tuple(tuple(op.id for op in step.ops) for step in program.steps if isinstance(step, PartitionStep))
        self._per_thread.last = Run(done, partitions, program.plan.nbytes)
        return results

    # ---- weights ---------------------------------------------------------------------------------------------------

    def _wanted(self, id: int) -> MemoryDesc | None:
        """The library's layout for a parameter, if the library runs every product that reads it."""
        readers = self._graph.consumers.get(id, ())
        if any(op.id in self._refused for op in readers) or not reads_panels(readers, id):
            return None
        return panels(self.params[id].dtype, self.params[id].shape, self._engine)

    # ---- preparation ------------------------------------------------------------------------------------------------

    def _bound(self, inputs: Mapping[int, NDArray]) -> dict[int, NDArray]:
        env = {**self.params, **inputs}
        for id, t in self._inputs.items():
            reader = self._graph.consumers[id][0].label
            a = env.get(id)
            if not isinstance(a, NDArray):
                what = "no array is given" if a is None else f"it is a {type(a).__name__}"
                raise InvalidArguments(what, where=f"{reader}: tensor {id}", fix=f"give forward an NDArray for input {id}")
            a.readable_store(reader)
            if a.dtype is not t.dtype:
                what = f"it is {a.dtype.value}, tensor {id} is {t.dtype.value}"
                raise InvalidDataType(what, where=a.where(reader), fix="give an array of the tensor's dtype")
        unknown = next((id for id in env if id not in self._inputs), None)
        if unknown is not None:
            known = ", ".join(map(str, self._inputs))
            raise InvalidArguments(f"the graph has no input {unknown}", where=env[unknown].where(), fix=f"its inputs are {known}")
        return env

    def _program(self, env: Mapping[int, NDArray], *, is_train: bool) -> Program:
        shapes = tuple((id, env[id].shape) for id in self._inputs)
        return self._programs.get((shapes, is_train), lambda: self._built(dict(shapes), env, is_train=is_train))

    def _built(self, shapes: dict[int, Shape], env: Mapping[int, NDArray], *, is_train: bool) -> Program:
        changed = {id: NewShape(s) for id, s in shapes.items() if s != self._inputs[id].shape}
        with within(", ".join(f"array '{env[id].name}' of shape {env[id].shape}" for id in changed)):
            graph = in_default_layout(with_shapes(self._graph, changed)) if changed else self._graph
        constant = frozenset() if is_train else frozenset(self.params)

        def describe_input(t: LogicalTensor) -> tuple[MemoryDesc, PropertyType]:
            a = env[t.id]
            return port_desc(a, a.desc, t), port_property(a, t, constant)

        def with_property(t: LogicalTensor) -> LogicalTensor:
            return replace(t, property_type=port_property(env[t.id], t, constant))

        graph = graph.with_tensors({t.id: with_property(t) for t in graph.inputs})
        program = build(graph, self._refused, self._policy, describe_input, self._engine, propagates=self._propagates)
        if len(program.refused) > len(self._refused):
            self._refuse(program.refused)
        return program

    def _refuse(self, refused: Mapping[int, str]) -> None:
        """Record ops that the library cannot compile. Weights that numpy reads return to the default layout for good."""
        self._refused = {**self._refused, **refused}
        kept = {id: desc for id, desc in self._panels.items() if self._wanted(id)}
        dropped = [id for id in self._panels if id not in kept]
        self._panels = kept
        for id in dropped:
            unpack_(self.params[id])

    def _workspace(self, program: Program, env: Mapping[int, NDArray]) -> Workspace:
        """This thread's memory for the program. An earlier run's output that is an input now belongs to the user."""
        kept = self._per_thread.workspaces
        if program not in kept:
            while len(kept) >= WORKSPACES:
                del kept[next(iter(kept))]
            kept[program] = Workspace(program)
        given = {id(a.chunk) for a in env.values()}
        if any(id(a.chunk) in given for a in kept[program].outputs.values()):
            kept[program].renew(given)
        return kept[program]

    def _checked(
        self, program: Program, env: Mapping[int, NDArray], dst: Mapping[int, NDArray], requests: Mapping[int, OpReq], *, is_train: bool
    ) -> list[int]:
        """Raise the errors of the arrays to write. Returns outputs to write last, since other steps read them or they overlap inputs."""
        made = {t.id: t for t in program.outputs}
        for id in (*dst, *requests):
            if id not in made or id not in dst:
                what = f"the graph has no output {id}" if id not in made else f"a request for output {id}, for which there is no array"
                fix = f"its outputs are {', '.join(map(str, made))}; give their arrays as dst"
                raise InvalidArguments(what, where="Executor.forward", fix=fix)
        for id, a in dst.items():
            if not isinstance(a, NDArray):
                raise InvalidArguments(f"output {id} is a {type(a).__name__}", where="Executor.forward", fix="give an NDArray")
            t, label = made[id], self._graph.producers[id].label
            a.live_store(label)
            check_output(a, describe(t.dtype, t.known_shape), requests.get(id, OpReq.write_to), label, default_only=is_train)
            for other, b in dst.items():
                if other < id and a.overlaps(b):
                    raise InvalidArguments(f"it overlaps array '{b.name}'", where=a.where(label), fix="give every output its own memory")
        return [id for id, a in dst.items() if id in program.read or any(a.overlaps(b) for b in env.values())]

    def _copied(self, id: int, value: NDArray, a: NDArray, req: OpReq, *, is_train: bool) -> NDArray:
        """The array of a deferred output, written as requested."""
        label = self._graph.producers[id].label
        with temp_space().op(label) as scope, output(a, value.plain_desc, req, scope, default_only=is_train) as memory:
            source = value.memory(scope)
            convert(source.data, source.desc, memory.data, memory.desc)
        return a
