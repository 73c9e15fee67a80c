"""A translated graph compiled for one set of shapes: compiled partitions and PyTorch's own ops, in order.

If the library cannot compile some nodes, the graph is translated again, with these nodes left to PyTorch.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import torch
from torch import fx

from benchgraph.core import forks
from benchgraph.core.errors import InvalidArguments, InvalidDataType, InvalidShape, Unimplemented
from benchgraph.core.tensor import LayoutType, LogicalTensor, PropertyType
from benchgraph.graph.ir import Graph
from benchgraph.library.compiled_partition import CompiledPartition
from benchgraph.library.engine import Engine
from benchgraph.library.graph import Graph as LibraryGraph
from benchgraph.library.partition import Partition
from benchgraph.partition.ir import Policy
from benchgraph.torch.constants import WeightEpoch
from benchgraph.torch.draft import DTYPES, Draft, View
from benchgraph.torch.profile import Execution, GraphProfile, names, running
from benchgraph.torch.rows import ROWS
from benchgraph.torch.steps import Env, NodeStep, Output, PartitionStep, Port, Ref, States, resolved

Step = PartitionStep | NodeStep
CompiledSteps = tuple[tuple[Step, ...], Mapping[PartitionStep, CompiledPartition]]  # in order; what partition steps are compiled to
_TORCH = {ours: theirs for theirs, ours in DTYPES.items()}


@dataclass(frozen=True)
class Summary:
    """The result of compiling a graph. Nodes are named as in the FX graph; views and getitem nodes are not counted.

    offloaded: nodes that the library runs. fallbacks: the others, and why. partitions: the nodes of each. seconds: of compilation.
    """

    offloaded: tuple[str, ...]
    fallbacks: Mapping[str, str]
    partitions: tuple[tuple[str, ...], ...]
    seconds: float

    @property
    def total(self) -> int:
        return len(self.offloaded) + len(self.fallbacks)

    def __str__(self) -> str:
        off = "".join(f"; {node}: {reason}" for node, reason in self.fallbacks.items())
        return f"{len(self.offloaded)} of {self.total} ops offloaded, in {len(self.partitions)} partitions{off}"


@dataclass(frozen=True)
class Input:
    """A tensor input of a graph. name: in the model; reader: the op that reads it first."""

    name: str
    reader: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    is_constant: bool

    @property
    def where(self) -> str:
        return f"{self.reader}: tensor '{self.name}'"

    def check(self, given: Any) -> None:
        """Raise if the tensor does not match; the error names it and the op that reads it."""
        if not isinstance(given, torch.Tensor):
            raise InvalidArguments(f"it is a {type(given).__name__}", where=self.where, fix="give a torch.Tensor")
        if given.dtype is not self.dtype:
            what = f"it is {given.dtype}, the graph was compiled for {self.dtype}"
            raise InvalidDataType(what, where=self.where, fix="call the compiled model, which compiles anew")
        if given.layout is not torch.strided or given.device.type != "cpu":
            what = f"it lies on {given.device} as {given.layout}"
            raise InvalidArguments(what, where=self.where, fix="give a dense tensor on the CPU")
        if given.shape != self.shape or given.stride() != self.strides:
            what = f"shape {tuple(given.shape)} with strides {given.stride()}, compiled for {self.shape} with {self.strides}"
            raise InvalidShape(what, where=self.where, fix="call the compiled model, which compiles anew")
        if not given.data_ptr() and 0 not in self.shape:
            raise InvalidArguments("its memory has been freed", where=self.where, fix="give a tensor that holds its data")


class Program:
    """graph: the library's part. inputs: checks; None for numbers, which are traced as constants. Threads may run it at the same time."""

    def __init__(self, draft: Draft, compiled: CompiledSteps, summary: Summary, names: Sequence[str]) -> None:
        self._steps, fresh = compiled
        self.graph, self.summary, self._lock = _offloaded_graph(draft, self._steps), summary, forks.lock()
        self._threads = next((step.engine.target.cores for step in self._steps if isinstance(step, PartitionStep)), 1)
        self._inputs = tuple((draft.keys(node)[0], _input(node, name, draft)) for node, name in zip(draft.inputs, names, strict=True))
        self._attrs: Env = {draft.keys(node)[0]: attrgetter(str(node.target))(draft.module) for node in draft.attrs}
        (output,) = draft.module.graph.find_nodes(op="output")
        self._outputs: Any = fx.node.map_arg(output.args[0], lambda n: refer(draft, n))
        kept = {r.key for r in self._outputs if isinstance(r, Ref)}
        last = {key: i for i, step in enumerate(self._steps) for key in step.reads}
        self._frees = tuple(tuple(key for key, at in last.items() if at == i and key not in kept) for i in range(len(self._steps)))
        self.constant = {key: i for i, (key, given) in enumerate(self._inputs) if given is not None and given.is_constant}
        self._epoch = WeightEpoch.first([*self.constant, *self._attrs], fresh)

    def __call__(self, args: list[Any]) -> list[Any]:
        """The graph's results. args: emptied, so that tensors are freed after their last read. Raises errors of inputs, NotConstant."""
        env: Env = dict(self._attrs)
        for arg, (key, given) in zip(args, self._inputs, strict=True):
            if given is not None and not given.is_constant:
                given.check(arg)
            env[key] = arg
        args.clear()
        epoch = self._epoch
        if not epoch.fits(env):
            epoch = self._renewed(env)
        if (profile := running()) is not None:
            self._profiled(env, epoch.states, profile.of(self.graph, self._threads))
            return list(resolved(self._outputs, env))
        self._run(env, epoch.states)
        return list(resolved(self._outputs, env))

    def _run(self, env: Env, states: States) -> None:
        for step, frees in zip(self._steps, self._frees, strict=True):
            step(env, states)
            for key in frees:
                env.pop(key, None)

    def _profiled(self, env: Env, states: States, profile: GraphProfile) -> None:
        """As `_run`, by turns with and without the times of layers."""
        if not profile.is_next_profiled:
            begin = time.perf_counter()
            self._run(env, states)
            profile.whole_s.append(time.perf_counter() - begin)
            return
        execution = Execution(profile)
        for step, frees in zip(self._steps, self._frees, strict=True):
            if isinstance(step, PartitionStep):
                execution.add(*states[step].execute_profiled(env))
            else:
                with execution.by_pytorch(step.node):
                    step(env, states)
            for key in frees:
                env.pop(key, None)
        execution.finish()

    def _renewed(self, env: Env) -> WeightEpoch:
        """The epoch of these weights; concurrent threads share it."""
        with self._lock:
            if not self._epoch.fits(env):
                for key, given in self._inputs:
                    if given is not None and given.is_constant:
                        given.check(env[key])
                self._epoch = self._epoch.after(env)
            return self._epoch


def build(module: fx.GraphModule, constant: frozenset[int], engine: Engine, policy: Policy, names: Sequence[str]) -> Program:
    """The program of a graph with static shapes. constant: positions of inputs that are weights; names: of all inputs, for messages."""
    begin = time.perf_counter()
    refused: dict[str, str] = {}
    while True:
        draft = Draft(module, ROWS, constant, refused)
        library = LibraryGraph()
        for op in draft.ops:
            library.add_op(op)
        library.finalize()
        compiled = _steps(draft, library.get_partitions(policy), engine)
        if not isinstance(compiled, dict):
            return Program(draft, compiled, _summary(draft, compiled[0], time.perf_counter() - begin), names)
        refused |= compiled


def _summary(draft: Draft, steps: Sequence[Step], seconds: float) -> Summary:
    nodes_of_partitions = [dict.fromkeys(draft.owner[id] for id in step.partition.ops) for step in steps if isinstance(step, PartitionStep)]
    ours = {n for nodes in nodes_of_partitions for n in nodes if not draft.is_view(n)}
    theirs = [step.node for step in steps if isinstance(step, NodeStep)]
    return Summary(
        tuple(n.name for n in draft.module.graph.nodes if n in ours),
        {n.name: draft.reasons[n] for n in theirs if n in draft.reasons},
        tuple(tuple(n.name for n in nodes) for nodes in nodes_of_partitions),
        seconds,
    )


def _steps(draft: Draft, partitions: Sequence[Partition], engine: Engine) -> CompiledSteps | dict[str, str]:
    """The steps in order; or the nodes that the library cannot compile, and why."""
    for p in partitions:
        nodes = [draft.owner[id] for id in p.ops if id in draft.owner]
        if not p.is_supported and any(n not in draft.reasons for n in nodes):
            return {n.name: p.reason for n in nodes}
    ours = [p for p in partitions if p.is_supported and not all(draft.is_view(draft.owner[id]) for id in p.ops)]
    for p in partitions:
        if p.is_supported and p not in ours:
            _alias_views(draft, p)
    compiling = _Compiling(draft, ours, engine)
    steps = list[Step]()
    for p in partitions:
        if p in ours:
            try:
                steps.append(compiling.step(p))
            except (Unimplemented, InvalidShape) as bad:
                return {draft.owner[id].name: str(bad) for id in p.ops if not draft.is_view(draft.owner[id])}
        elif not p.is_supported:
            steps += [_node_step(draft, draft.owner[id]) for id in p.ops if id in draft.owner]
    return tuple(steps), compiling.fresh


def _alias_views(draft: Draft, p: Partition) -> None:
    """Instead of executing a partition of views only, make its results views of its sources' memory, with the same start."""
    for op in p.description.ops:
        (src,), (made,) = op.inputs, op.outputs
        under = draft.views.get(src.id)
        draft.views[made.id] = View(src.id if under is None else under.base, 0, made.known_shape, draft.strides[made.id])


class _Compiling:
    """Compiles the partitions of a draft in order. A value that only partitions read may have any layout."""

    def __init__(self, draft: Draft, ours: Sequence[Partition], engine: Engine) -> None:
        self._draft, self._engine = draft, engine
        inside = {op.id for p in ours for op in p.description.ops}
        self._seen = {t.id for op in draft.ops if op.id not in inside for t in op.inputs}
        self._settled: dict[int, LogicalTensor] = {}
        self.fresh: dict[PartitionStep, CompiledPartition] = {}

    def step(self, p: Partition) -> PartitionStep:
        ins = tuple(map(self._described, p.description.inputs))
        declared = tuple(map(self._declared, p.output_ports))
        compiled = p.compile(ins, declared, self._engine)
        outs = tuple(compiled.query_logical_tensor(t.id) for t in declared)
        self._settled |= {t.id: t for t in outs}
        step = PartitionStep(p, self._engine, tuple(map(self._port, ins)), ins, declared, outs, tuple(map(_output, outs)))
        self.fresh[step] = compiled
        return step

    def _described(self, t: LogicalTensor) -> LogicalTensor:
        if t.id in self._settled:
            return self._settled[t.id]
        place = self._draft.views.get(t.id)
        return replace(t, strides=self._draft.strides.get(t.id) if place is None else place.strides)

    def _declared(self, t: LogicalTensor) -> LogicalTensor:
        if t.id in self._seen:
            return replace(t, strides=self._draft.strides.get(t.id))
        return replace(t, strides=None, layout_type=LayoutType.any)

    def _port(self, t: LogicalTensor) -> Port:
        place = self._draft.views.get(t.id)
        key, offset = (t.id, 0) if place is None else (place.base, place.offset)
        return Port(key, t.dtype.nbytes(offset), t.property_type is PropertyType.constant, self._draft.literals.get(t.id))


def _output(t: LogicalTensor) -> Output:
    if t.layout_type is LayoutType.opaque:
        return Output(t.id, (t.nbytes,), (1,), torch.uint8, t.nbytes)
    return Output(t.id, t.known_shape, t.known_strides, _TORCH[t.dtype], t.nbytes)


def _node_step(draft: Draft, node: fx.Node) -> NodeStep:
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: refer(draft, n))
    strides = tuple(None if t is None else draft.strides.get(t.id) for t in draft.value[node])
    return NodeStep(node, args, kwargs, draft.keys(node), strides, isinstance(node.meta.get("val"), tuple | list))


def refer(draft: Draft, node: fx.Node) -> Ref:
    place = draft.view(node)
    return Ref(draft.keys(node)[0]) if place is None else Ref(place.base, place)


def _input(node: fx.Node, name: str, draft: Draft) -> Input | None:
    val, (t,) = node.meta.get("val"), draft.value[node]
    if not isinstance(val, torch.Tensor):
        return None
    reader = next((n.name for n in node.users if not draft.is_view(n)), next((n.name for n in node.users), "output"))
    is_constant = t is not None and t.property_type is PropertyType.constant
    return Input(name, f"op {reader}", val.dtype, tuple(val.shape), tuple(val.stride()), is_constant)


def _offloaded_graph(draft: Draft, steps: Sequence[Step]) -> Graph:
    """The library's part as one graph, with the tensors' layouts and outputs."""
    compiled = [step for step in steps if isinstance(step, PartitionStep)]
    called = names([draft.owner[id] for id in sorted(draft.owner)])
    ours = (op for step in compiled for op in step.partition.description.ops)
    ops = tuple(replace(op, name=called[draft.owner[op.id]]) if op.id in draft.owner else op for op in ours)
    inside = {op.id for op in ops}
    read = {t.id for op in draft.ops if op.id not in inside for t in op.inputs}
    strided = {t.id: t for step in compiled for t in (*step.ins, *step.outs) if t.layout_type is LayoutType.strided}
    made = tuple(t.id for op in ops for t in op.outputs)
    return Graph(ops, output_ports=tuple(id for id in made if id in read)).with_tensors(strided)
