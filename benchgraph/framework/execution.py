"""One run of a program on one thread: step after step, each in its scope, each output as requested."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import Unimplemented
from benchgraph.core.tensor import LogicalTensor, PropertyType
from benchgraph.framework.counters import counters
from benchgraph.framework.fallback import NumpyKernel, fallback_compute
from benchgraph.framework.memory_desc import MemoryDesc, describe
from benchgraph.framework.ndarray import NDArray
from benchgraph.framework.program import OpStep, PartitionStep, Program
from benchgraph.framework.request import OpReq, outputs
from benchgraph.framework.temp_space import Scope, temp_space
from benchgraph.graph.ir import Op
from benchgraph.library.engine import Engine


def port_desc(a: NDArray, stored: MemoryDesc, t: LogicalTensor) -> MemoryDesc:
    """How a partition reads an array with this desc: as it is stored if the library supports that, else row-major."""
    return stored if not a.is_view and stored.shape == t.known_shape else describe(t.dtype, t.known_shape)


def port_property(a: NDArray, t: LogicalTensor, constant: Collection[int]) -> PropertyType:
    """The property for the library: only a parameter whose memory is never written again is constant."""
    if t.is_host_scalar:
        return PropertyType.host_scalar
    return PropertyType.constant if t.id in constant and a.chunk.can_be_constant else PropertyType.variable


class Workspace:
    """A thread's memory for one program: values between steps, which share slots, and outputs."""

    def __init__(self, program: Program) -> None:
        slots = [NDArray.empty((n,), DType.u8) for n in program.plan.slots]
        slot_of = program.plan.slot
        self.values = {t.id: slots[slot_of[t.id]].as_array(t.known_shape, t.dtype, f"tensor {t.id}") for t in program.inside}
        self.outputs = {t.id: NDArray.empty(t.known_shape, t.dtype, f"tensor {t.id}") for t in program.outputs}

    def renew(self, given: Collection[int]) -> None:
        """Replace the outputs whose chunks are among these, by the chunks' Python ids."""
        for at, a in self.outputs.items():
            if id(a.chunk) in given:
                self.outputs[at] = NDArray.empty(a.shape, a.dtype, a.name)


@dataclass
class Execution:
    """env: arrays by tensor id, initially the graph's inputs. targets: the user's arrays for outputs, with requests. constant: ids of
    parameters that keep their values until they get other memory.
    """

    program: Program
    env: dict[int, NDArray]
    workspace: Workspace
    targets: Mapping[int, tuple[NDArray, OpReq]]
    constant: frozenset[int]
    kernels: Mapping[int, NumpyKernel]
    engine: Engine
    is_train: bool = False

    def __call__(self) -> dict[int, NDArray]:
        """Run every step; returns the outputs by tensor id."""
        space = temp_space()
        for step in self.program.steps:
            with space.op(step.label) as scope:
                if isinstance(step, PartitionStep):
                    self._offloaded(step, scope)
                elif isinstance(step, OpStep):
                    self._numpy(step.ops[0], step.reason, scope)
        return {t.id: self.env[t.id] for t in self.program.outputs}

    def _target(self, t: LogicalTensor) -> tuple[NDArray, OpReq]:
        if t.id in self.targets:
            return self.targets[t.id]
        if t.id in self.workspace.outputs:
            return self.workspace.outputs[t.id], OpReq.write_to
        if t.id not in self.workspace.values:  # a value inside a partition whose ops run one by one
            return NDArray.empty(t.known_shape, t.dtype, f"tensor {t.id}"), OpReq.write_to
        request = OpReq.write_inplace if t.id in self.program.plan.laid_over else OpReq.write_to
        return self.workspace.values[t.id], request

    def _targets(self, outs: tuple[LogicalTensor, ...]) -> tuple[list[NDArray], list[OpReq], set[int]]:
        """The arrays to write, the requests, and the positions of outputs that must be row-major."""
        targets = [self._target(t) for t in outs]
        defaults = {o for o, t in enumerate(outs) if self.is_train and t.id in self.workspace.outputs}
        return [a for a, _ in targets], [r for _, r in targets], defaults

    def _numpy(self, op: Op, reason: str, scope: Scope) -> None:
        counters().fallbacks[op.label] = reason
        arrays, reqs, defaults = self._targets(op.outputs)
        ins = [self.env[t.id] for t in op.inputs]
        fallback_compute(op, ins, arrays, reqs, scope, self.kernels.get(op.id), default_only=defaults)
        self.env.update(zip((t.id for t in op.outputs), arrays, strict=True))

    def _offloaded(self, step: PartitionStep, scope: Scope) -> None:
        ins, memories, descs, properties = [], [], [], []
        for t in step.ins:
            a = self.env[t.id]
            prop = port_property(a, t, self.constant)
            seen = a.chunk.lend(a.where(step.label)) if prop is PropertyType.constant else a.live_store(step.label)
            desc = port_desc(a, seen.desc, t)
            ins.append(a)
            descs.append(desc)
            properties.append(prop)
            memories.append(a.reordered(desc, scope, seen))
        try:
            kernel = step.kernel(tuple(descs), tuple(properties), self.engine)
        except Unimplemented as bad:  # compiled when the program was built, but not for the present layouts
            for op in step.ops:
                with temp_space().op(op.label) as op_scope:
                    self._numpy(op, str(bad), op_scope)
            return
        arrays, reqs, defaults = self._targets(step.outs)
        with outputs(arrays, kernel.outputs, reqs, scope, ins, kernel.inplace, default_only=defaults) as written:
            kernel(memories, written, scope)
        counters().offloaded += len(step.ops)
        self.env.update(zip((t.id for t in step.outs), arrays, strict=True))
