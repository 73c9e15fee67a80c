"""oneDNN's primitives behind the library protocol: each step of the plan is a partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import Unavailable, Unimplemented
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Graph, Op
from benchgraph.library import protocol
from benchgraph.library.remote import Remote, RemoteLibrary, own_steps
from benchgraph.machine.target import current
from benchgraph.onednn.client import WHERE, Process, process
from benchgraph.onednn.find_library import find
from benchgraph.onednn.primitives.execution import Bound, Chain, Compiled, program
from benchgraph.onednn.primitives.messages import Built, Trial
from benchgraph.onednn.primitives.plan import kind_of, plan
from benchgraph.onednn.primitives.step import NoPrimitive, Step, Target
from benchgraph.onednn.primitives.table import encode
from benchgraph.ops import spec
from benchgraph.ops.spec import Role
from benchgraph.partition.ir import Partition, Policy


class OneDnnPrimitives(RemoteLibrary):
    """A Library. All of one path and label share a process while it lives, with the Graph API's library (onednn/library.py)."""

    def __init__(self, path: str = "", label: str = "") -> None:
        self.process: Process = process(find(path, self.name), current().cores, label)
        self._steps = dict[int, tuple[Step, Target, frozenset[int]]]()  # by partition, of all graphs

    @property
    def name(self) -> str:
        return "onednn:primitives"

    @property
    def version(self) -> str:
        return self.process.release

    @property
    def dumps_itself(self) -> bool:
        return False

    def partitions(self, graph: Graph, policy: Policy) -> tuple[Partition, ...]:
        """The steps. There is one policy: products with their post-ops."""
        if policy is not Policy.post_ops:
            raise Unavailable(f"oneDNN's primitives have no policy {policy.value}", where=WHERE, fix="choose post_ops")
        target = Target(self.process.hello.version[:2], graph.fpmath_mode, graph.fpmath_apply_to_int, self._multiplies_u8)
        made, outputs = list[Partition](), frozenset(t.id for t in graph.outputs)
        for n, step in enumerate(plan(graph, lambda step: self._trial(graph, step, target)), len(self._steps)):
            ins, outs = borders(graph, step)
            self._steps[n] = step, target, outputs & {t.id for t in outs}
            nobody = spec(step.anchor.kind).lowering.role is Role.none
            reason = f"neither a primitive nor numpy computes {step.anchor.kind}" if nobody else ""
            kind, note = kind_of(step), f"numpy executes {step.anchor.label}: {step.reason}" if step.reason else ""
            mode = graph.engine_kind, graph.fpmath_mode, graph.fpmath_apply_to_int
            made.append(Partition(n, kind, step.ops, ins, outs, reason, *mode, note=note))
        return tuple(made)

    @cached_property
    def _multiplies_u8(self) -> bool:
        """Whether it has an optimised product of u8 weights, which only asking tells."""
        src, weights, dst = (LogicalTensor(n, dtype, (64, 64)) for n, dtype in enumerate((DType.u8, DType.u8, DType.f32)))
        step = Step(Op(0, "MatMul", inputs=(src, weights), outputs=(dst,)))
        asked = program(encode(step, Target(self.process.hello.version[:2])), (src, weights), (dst,))
        tried: Trial = self.process.ask("trial", asked)
        return tried == Trial()

    def _trial(self, graph: Graph, step: Step, target: Target) -> Trial:
        try:
            items = encode(step, target)
            asked = program(items, *borders(graph, step))
        except NoPrimitive as bad:
            return Trial(refused=str(bad))
        tried: Trial = self.process.ask("trial", asked)
        return replace(tried, refused=f"oneDNN {self.process.version} refuses {tried.refused}") if tried.refused else tried

    def compile(self, partition: Partition) -> Compiled:
        if not partition.is_supported:
            raise Unimplemented(partition.reason, where=WHERE)
        if partition.options.off:
            raise Unavailable("primitives have no passes that could be left out", where=WHERE, fix="give it a policy without options")
        step, target, kept = self._steps[partition.id]
        if step.reason:
            return Compiled(self.process, partition, step, kept)
        items = encode(step, target)
        built: Built = self.process.ask("build", program(items, partition.inputs, partition.outputs))
        return Compiled(self.process, partition, step, kept, items, built, Remote(self.process, built.number))

    def compile_all(self, partitions: Sequence[Partition]) -> list[protocol.Compiled]:
        """One after the other: its process handles one request at a time."""
        return [self.compile(p) for p in partitions]

    def sequence(self, steps: Sequence[protocol.Bound]) -> Chain:
        """The steps as one chain. Raises InvalidArguments for steps of another library."""
        return Chain(own_steps(steps, Bound))


def borders(graph: Graph, step: Step) -> tuple[tuple[LogicalTensor, ...], tuple[LogicalTensor, ...]]:
    """What a step reads from outside, each once, and what it writes that others read or users get."""
    made = {t.id: t for op in step.ops for t in op.outputs}
    inside, kept = {op.id for op in step.ops}, {t.id for t in graph.outputs}
    read_outside = {id for id in made if any(op.id not in inside for op in graph.consumers.get(id, ()))}
    inputs = {t.id: t for op in step.ops for t in op.inputs if t.id not in made}
    return tuple(inputs.values()), tuple(t for t in made.values() if t.id in read_outside | kept)
