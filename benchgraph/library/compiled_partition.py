"""Compiled partitions: machine code for one partition and set of shapes, and its execution on tensors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import TypeAlias

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.layers import Layer, Span
from benchgraph.core.tensor import MAX_ID, LayoutType, LogicalTensor, Shape
from benchgraph.layers import LayeredExecutable, compile_layers
from benchgraph.library import verbose
from benchgraph.library.engine import Engine, Stream
from benchgraph.library.tensor import Tensor, TensorMemory
from benchgraph.partition import ir
from benchgraph.runtime.executable import Array, Executable
from benchgraph.runtime.profiled import ProfiledBound
from benchgraph.runtime.user_pool import for_pool, on_pool

BOUND_PER_THREAD = 16
SCRATCHPAD_ID = MAX_ID  # oneDNN's: SIZE_MAX, which no tensor of a graph should have
_MEMORY = attrgetter("memory")


Bounds: TypeAlias = dict[tuple[TensorMemory, ...], Callable[[], None]]


class _PerThread(threading.local):
    """The last few bindings of a thread by the memory of their tensors, which they keep alive; separate for code on users' pools."""

    def __init__(self) -> None:
        self.bounds: Bounds = {}
        self.bounds_on_pool: Bounds = {}


@dataclass(frozen=True, eq=False)
class CompiledPartition:
    """Machine code for one partition and set of shapes. Threads may execute it concurrently.

    engine: its allocator provides temporaries and constants. from_cache: whether it came from this process's cache.
    """

    description: ir.Partition
    given_inputs: tuple[int, ...]
    given_outputs: tuple[int, ...]
    executable: Executable
    engine: Engine
    from_cache: bool = False
    _per_thread: _PerThread = field(default_factory=lambda: _PerThread(), repr=False)
    _latest: dict[Executable, object] = field(default_factory=dict, repr=False)  # keeps constants alive beyond the thread that bound them

    @cached_property
    def _tensors(self) -> dict[int, LogicalTensor]:
        return {t.id: t for t in (*self.description.inputs, *self.description.outputs)}

    def query_logical_tensor(self, id: int) -> LogicalTensor:
        """A port with dims, strides and size known. Raises InvalidArguments for an id that is no port."""
        if id not in self._tensors:
            known = ", ".join(map(str, self._tensors))
            raise InvalidArguments(f"tensor {id} is no port of the partition", where="query_logical_tensor", fix=f"ports are {known}")
        return self._tensors[id]

    def get_inplace_ports(self) -> tuple[tuple[int, int], ...]:
        """(input id, output id) pairs: the output may overwrite the input's memory. A hint: with other memory the result is the same."""
        ins, outs = self.description.inputs, self.description.outputs
        return tuple((ins[i].id, outs[o].id) for i, o in sorted(self.executable.inplace))

    def get_scratchpad_logical_tensor(self) -> LogicalTensor:
        """The memory that users may provide for the temporaries of one execution: u8 [bytes]; 0 bytes without temporaries."""
        return LogicalTensor(SCRATCHPAD_ID, DType.u8, (self.executable.scratchpad_bytes,), (1,))

    def execute(self, stream: Stream, inputs: Sequence[Tensor], outputs: Sequence[Tensor], scratchpad: Tensor | None = None) -> None:
        """Run once. Tensors are in the order of their logical tensors at compile; the engine allocates outputs without memory.

        scratchpad: memory for the temporaries of one execution at a time, at least of the size of get_scratchpad_logical_tensor; by default
        from the engine's allocator. Raises InvalidArguments for tensors that are not those of compile, OutOfMemory.
        """
        try:
            pool, memories = stream.threadpool, (*map(_MEMORY, inputs), *map(_MEMORY, outputs))
            if scratchpad is not None:
                memories += (scratchpad.memory,)
        except (AttributeError, TypeError) as bad:
            raise _argument_error(stream, inputs, outputs, scratchpad) from bad
        bounds = self._per_thread.bounds if pool is None else self._per_thread.bounds_on_pool
        bound = bounds.get(memories)
        if bound is None:
            bound = self._bind(bounds, self.executable if pool is None else for_pool(self.executable), inputs, outputs, scratchpad)
        if pool is None:
            bound()
        else:
            with on_pool(pool):
                bound()

    def execute_profiled(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> tuple[tuple[Layer, ...], list[Span]]:
        """Run once as `execute` does, on threads of the library's choice, by code that tells when each of its layers runs; the first time
        that is compiled. Outputs have memory already."""
        ins = self._arrays(inputs, self.given_inputs, self.description.inputs, "input")
        outs = self._arrays(outputs, self.given_outputs, self.description.outputs, "output")
        bound = self._layered.executable.bind(ins, outs, allocator=self.engine.allocator, generations=self._generations(inputs))
        assert isinstance(bound, ProfiledBound)
        self._latest[self._layered.executable] = bound.kept_alive
        bound()
        return self._layered.layers(self.description), list(bound.spans(self._layered.layer_of))

    @cached_property
    def _layered(self) -> LayeredExecutable:
        return compile_layers(self.description, self.engine.target)

    def _generations(self, inputs: Sequence[Tensor]) -> tuple[int, ...]:
        generation = {t.logical.id: t.memory.generation for t in inputs}
        return tuple(generation[port.id] for port in self.description.inputs)

    def _bind(
        self, bounds: Bounds, executable: Executable, inputs: Sequence[Tensor], outputs: Sequence[Tensor], scratchpad: Tensor | None
    ) -> Callable[[], None]:
        """Bind, and keep the binding for this thread's next execution on the same memory: a Bound serves one call at a time."""
        ins = self._arrays(inputs, self.given_inputs, self.description.inputs, "input")
        for t in outputs:
            if t.memory.array is None and t.logical.id in self._tensors:
                t.allocate(self._tensors[t.logical.id])
        outs = self._arrays(outputs, self.given_outputs, self.description.outputs, "output")
        given = (*inputs, *outputs) if scratchpad is None else (*inputs, *outputs, scratchpad)
        pad = None if scratchpad is None else scratchpad.array
        while len(bounds) >= BOUND_PER_THREAD:
            del bounds[next(iter(bounds))]
        bound = executable.bind(ins, outs, allocator=self.engine.allocator, scratchpad=pad, generations=self._generations(inputs))
        self._latest[executable] = bound.kept_alive
        bounds[tuple(t.memory for t in given)] = call = verbose.logged(bound, lambda: verbose.describe(self.description, executable.code))
        return call

    def _arrays(self, given: Sequence[Tensor], order: tuple[int, ...], ports: tuple[LogicalTensor, ...], role: str) -> list[Array]:
        ids = tuple(t.logical.id for t in given)
        if ids != order:
            what = f"{role} tensors {list(ids)}, compiled with {list(order)}"
            raise InvalidArguments(what, where="execute", fix="pass the tensors in the order of compile")
        by_id = dict[int, Tensor]()
        for t in given:
            if by_id.setdefault(t.logical.id, t).array is not t.array:
                fix = "give the same tensor wherever the id occurs"
                raise InvalidArguments(f"{role} tensor {t.logical.id} comes with two memories", where="execute", fix=fix)
        buffers = self.executable.signature.inputs if role == "input" else self.executable.signature.outputs
        return [_array(by_id[port.id], port, buffer.shape) for port, buffer in zip(ports, buffers, strict=True)]


def _argument_error(stream: Stream, inputs: Sequence[Tensor], outputs: Sequence[Tensor], scratchpad: Tensor | None) -> InvalidArguments:
    """The error for arguments of execute of the wrong type."""
    if not isinstance(stream, Stream):
        return InvalidArguments(f"the stream is a {type(stream).__name__}", where="execute", fix="give it a Stream")
    for role, given in (("inputs", inputs), ("outputs", outputs)):
        if not isinstance(given, Sequence):
            return InvalidArguments(f"the {role} are a {type(given).__name__}", where="execute", fix="give a list of tensors")
    tensors = (*inputs, *outputs, *(() if scratchpad is None else (scratchpad,)))
    wrong_type = next(type(t).__name__ for t in tensors if not isinstance(t, Tensor))
    return InvalidArguments(f"cannot execute on a {wrong_type}", where="execute", fix="give it tensors")


def _array(t: Tensor, port: LogicalTensor, shape: Shape) -> Array:
    """The tensor's memory as an array of this shape, that of the port's buffer."""
    if LayoutType.opaque not in (t.logical.layout_type, port.layout_type):
        return t.array
    if not t.logical.is_stored_like(port):
        what = f"tensor {port.id} is compiled as {_described(port)}, this one is {_described(t.logical)}"
        raise InvalidArguments(what, where="execute", fix="give it the logical tensor that query_logical_tensor returns")
    if t.logical.layout_type is not LayoutType.opaque or port.dtype.is_packed:
        return t.array
    return t.array.view(port.dtype.numpy).reshape(shape)


def _described(t: LogicalTensor) -> str:
    layout = f"opaque({t.layout_id})" if t.layout_type is LayoutType.opaque else t.layout_type.value
    return f"{t.dtype.value}{list(t.shape or ())} {layout}"
