"""A graph compiled for one set of shapes: its steps, in order, and the memory of its values.

    %1 = MatMul(%0, %w)        partition 0 (ops 0 1)   %0, %w -> %2, opaque: only partition 2 reads it
    %2 = ReLU(%1)         ->   numpy      (op 3)       ...
    ...                        partition 2 (ops 4)     %2, ... -> %9

Ops that the library shall not or cannot run are Wildcards in the library's graph, so that it knows which values leave its ops, and no
partition bypasses them. If the library cannot compile a partition, the next attempt makes its ops Wildcards too. A value may have a layout
of the library's choice only if partitions alone read it and it is no output of the graph: so numpy never reads one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from benchgraph.core.attrs import NO_ATTRS
from benchgraph.core.errors import Unimplemented
from benchgraph.core.slots import Plan, Prefer, Value, plan
from benchgraph.core.tensor import LayoutType, LogicalTensor, PropertyType, dense_strides
from benchgraph.framework.kernel import Kernel
from benchgraph.framework.kernel_cache import Signature, cached, compiled_for
from benchgraph.framework.memory_desc import MemoryDesc, of_logical
from benchgraph.graph.infer import infer_shapes
from benchgraph.graph.ir import END, Graph, Op
from benchgraph.library.engine import Engine
from benchgraph.library.graph import Graph as LibraryGraph
from benchgraph.library.partition import FpmathMode, Partition
from benchgraph.ops.structural import WILDCARD
from benchgraph.partition.ir import Policy


@dataclass(frozen=True, eq=False)
class Step:
    label: str
    ops: tuple[Op, ...]
    ins: tuple[LogicalTensor, ...]
    outs: tuple[LogicalTensor, ...]


@dataclass(frozen=True, eq=False)
class OpStep(Step):
    """A single op, run by numpy. reason: why the library does not run it."""

    reason: str


@dataclass(frozen=True, eq=False)
class PartitionStep(Step):
    """Ops that the library runs together. opened: for each output, whether the library chooses its layout."""

    partition: Partition
    fingerprint: Signature
    opened: tuple[bool, ...]

    def kernel(self, descs: tuple[MemoryDesc, ...], properties: tuple[PropertyType, ...], engine: Engine) -> Kernel:
        """The kernel for inputs with these descs. Raises the errors of compilation."""
        return cached(Signature((self.fingerprint, descs, properties, self.opened)), lambda: self._compiled(descs, properties, engine))

    def _compiled(self, descs: tuple[MemoryDesc, ...], properties: tuple[PropertyType, ...], engine: Engine) -> Kernel:
        scalar = PropertyType.host_scalar
        ins = [t if p is scalar else d.logical(t.id, p) for t, d, p in zip(self.ins, descs, properties, strict=True)]
        open_ = [replace(t, layout_type=LayoutType.any, strides=None) for t in self.outs]
        outs = [o if is_open else t for t, o, is_open in zip(self.outs, open_, self.opened, strict=True)]
        return Kernel(self.partition, ins, outs, engine)


Describe: TypeAlias = Callable[[LogicalTensor], tuple[MemoryDesc, PropertyType]]


@dataclass(frozen=True, eq=False)
class Program:
    """inside: values between steps, with memory by `plan`. read: tensors that steps read. refused: ops that numpy runs, and why."""

    steps: tuple[Step, ...]
    outputs: tuple[LogicalTensor, ...]
    inside: tuple[LogicalTensor, ...]
    plan: Plan
    read: frozenset[int]
    refused: Mapping[int, str]


def build(
    graph: Graph, refused: Mapping[int, str], policy: Policy, describe: Describe, engine: Engine, *, propagates: bool = True
) -> Program:
    """The program of a shape-inferred graph. Raises the library's errors for the graph.

    refused: ops that numpy runs, and why. describe: desc and property of a graph input. propagates: whether the library chooses layouts
    between partitions.
    """
    reasons = dict(refused)
    while True:
        steps = _steps(graph, reasons, policy, engine, propagates=propagates)
        plan_or_refused = _compile(graph, steps, describe, engine)
        if isinstance(plan_or_refused, Plan):
            inside = tuple(t for step in steps for t in step.outs if t.id in plan_or_refused.slot)
            return Program(steps, graph.outputs, inside, plan_or_refused, frozenset(_last_reads(steps)), reasons)
        reasons |= plan_or_refused


def _steps(graph: Graph, refused: Mapping[int, str], policy: Policy, engine: Engine, *, propagates: bool) -> tuple[Step, ...]:
    library = LibraryGraph(graph.engine_kind, FpmathMode(graph.fpmath_mode))
    library.set_fpmath_mode(FpmathMode(graph.fpmath_mode), bool(graph.fpmath_apply_to_int))
    for op in graph.ops:
        library.add_op(replace(op, kind=WILDCARD, attrs=NO_ATTRS) if op.id in refused else op)
    leaving = tuple(t for t in graph.outputs if t.id in graph.consumers)
    if leaving:  # read outside too, which an unknown op represents for the library
        library.add_op(Op(max(op.id for op in graph.ops) + 1, WILDCARD, NO_ATTRS, leaving))
    library.finalize()
    own = {op.id: op for op in graph.ops}
    partitions = [p for p in library.get_partitions(policy) if any(id in own and own[id].kind != END for id in p.ops)]
    offloaded = {id for p in partitions if p.is_supported for id in p.ops}
    outputs = {t.id for t in graph.outputs}

    def is_open(t: LogicalTensor) -> bool:
        return propagates and t.id not in outputs and all(op.id in offloaded for op in graph.consumers.get(t.id, ()))

    steps = list[Step]()
    for p in partitions:
        if p.is_supported:
            d = p.description
            same, opened = Signature((replace(d, id=0), compiled_for(engine))), tuple(map(is_open, d.outputs))
            steps.append(PartitionStep(_label(len(steps), d.ops), d.ops, d.inputs, d.outputs, p, same, opened))
        else:
            op = own[p.ops[0]]
            steps.append(OpStep(op.label, (op,), op.inputs, op.outputs, refused.get(op.id, p.reason)))
    return tuple(steps)


def _label(position: int, ops: tuple[Op, ...]) -> str:
    """partition 2 (op 4: MatMul ... op 7: Add)"""
    between = "" if len(ops) == 1 else f"{' ...' if len(ops) > 2 else ','} {ops[-1].label}"
    return f"partition {position} ({ops[0].label}{between})"


def _compile(graph: Graph, steps: tuple[Step, ...], describe: Describe, engine: Engine) -> Plan | dict[int, str]:
    """The memory of values once every step is compiled; or the ops that the library cannot compile, and why."""
    descs = {t.id: describe(t) for t in graph.inputs}
    outputs, last = {t.id for t in graph.outputs}, _last_reads(steps)
    values = list[Value]()
    for position, step in enumerate(steps):
        made, over = tuple(of_logical(replace(t, strides=None)) for t in step.outs), dict[int, tuple[int, ...]]()
        if isinstance(step, PartitionStep):
            ins = [descs[t.id] for t in step.ins]
            try:
                kernel = step.kernel(tuple(d for d, _ in ins), tuple(p for _, p in ins), engine)
            except Unimplemented as bad:
                return {op.id: str(bad) for op in step.ops}
            made = kernel.outputs
            over = {o: tuple(step.ins[i].id for i, to in kernel.inplace if to == o and ins[i][0] == made[o]) for o in range(len(made))}
        for o, (t, desc) in enumerate(zip(step.outs, made, strict=True)):
            descs[t.id] = desc, PropertyType.variable
            if t.id not in outputs:
                values.append(Value(t.id, desc.nbytes, position, last.get(t.id, position), over.get(o, ())))
    return plan(values, prefer=Prefer.smallest)


def in_default_layout(graph: Graph) -> Graph:
    """The graph for the framework's arrays: every shape known, and row-major."""
    known = infer_shapes(graph)
    dense = {t.id: dense_strides(t.known_shape) for t in known.tensors.values()}
    return known.with_tensors({t.id: replace(t, strides=dense[t.id], layout_type=LayoutType.strided) for t in known.tensors.values()})


def _last_reads(steps: tuple[Step, ...]) -> dict[int, int]:
    return {t.id: position for position, step in enumerate(steps) for t in step.ins}
