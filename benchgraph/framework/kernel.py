"""A compiled partition as the framework calls it, with handles for inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence

from benchgraph.core.errors import InvalidArguments
from benchgraph.core.tensor import LogicalTensor
from benchgraph.framework.memory_desc import MemoryDesc, Values, of_logical
from benchgraph.framework.temp_space import Memory, Scope
from benchgraph.library.compiled_partition import CompiledPartition
from benchgraph.library.engine import Engine, Stream
from benchgraph.library.partition import Partition
from benchgraph.library.tensor import Tensor

KEPT = 4  # sets of buffers whose bindings are kept, for models that run repeatedly


class Kernel:
    """inputs, outputs: descs of its ports. inplace: (input, output) positions that may share memory. For one thread at a time."""

    def __init__(self, partition: Partition, ins: Sequence[LogicalTensor], outs: Sequence[LogicalTensor], engine: Engine) -> None:
        self._compiled: CompiledPartition = partition.compile(ins, outs, engine)
        self._engine, self._stream = engine, Stream(engine)
        self._ins = tuple(self._compiled.query_logical_tensor(t.id) for t in ins)
        self._outs = tuple(self._compiled.query_logical_tensor(t.id) for t in outs)
        self.inputs: tuple[MemoryDesc, ...] = tuple(map(of_logical, self._ins))
        self.outputs: tuple[MemoryDesc, ...] = tuple(map(of_logical, self._outs))
        self._descs = (*self.inputs, *self.outputs)
        at_in, at_out = {t.id: i for i, t in enumerate(ins)}, {t.id: o for o, t in enumerate(outs)}
        self.inplace = frozenset((at_in[i], at_out[o]) for i, o in self._compiled.get_inplace_ports())
        self._scratch = self._compiled.get_scratchpad_logical_tensor()
        self._scratch_bytes = self._scratch.nbytes
        self._bound: dict[tuple[int, ...], tuple[list[Values], list[Tensor], list[Tensor], Tensor | None]] = {}

    def __call__(self, inputs: Sequence[Memory], outputs: Sequence[Memory], scope: Scope) -> None:
        """Run once, on memories with the descs `inputs` and `outputs`. InvalidArguments for handles that are stale or have another desc."""
        for memory, desc in zip((*inputs, *outputs), self._descs, strict=True):
            if memory.desc is not desc and memory.desc != desc:
                what = f"the memory of {memory.name} is {memory.desc}, the kernel was compiled for {desc}"
                raise InvalidArguments(what, where=scope.label, fix="ask for the array's memory in the kernel's layout: reordered()")
        buffers: list[Values] = [m.data for m in (*inputs, *outputs)]
        if self._scratch_bytes:
            buffers.append(scope.bytes(self._scratch_bytes))
        key = tuple(map(id, buffers))  # ids of arrays that the entry keeps alive, so that they are unique
        bound = self._bound.get(key)
        if bound is None:
            bound = self._bind(key, buffers, inputs, outputs)
        self._compiled.execute(self._stream, bound[1], bound[2], bound[3])

    def _bind(
        self, key: tuple[int, ...], buffers: list[Values], inputs: Sequence[Memory], outputs: Sequence[Memory]
    ) -> tuple[list[Values], list[Tensor], list[Tensor], Tensor | None]:
        """The library's tensors on these buffers; the oldest binding is dropped if there are too many."""
        ins = [self._tensor(t, m) for t, m in zip(self._ins, inputs, strict=True)]
        outs = [self._tensor(t, m) for t, m in zip(self._outs, outputs, strict=True)]
        scratch = Tensor(self._scratch, self._engine, buffers[-1]) if self._scratch_bytes else None
        while len(self._bound) >= KEPT:
            del self._bound[next(iter(self._bound))]
        if not any(t.is_host_scalar for t in self._ins):  # their tensors copy the present value
            self._bound[key] = buffers, ins, outs, scratch
        return buffers, ins, outs, scratch

    def _tensor(self, t: LogicalTensor, memory: Memory) -> Tensor:
        if t.is_host_scalar:
            return Tensor.make_scalar_tensor(t, memory.array)
        return Tensor(t, self._engine, memory.data if t.is_bytes else memory.array)
