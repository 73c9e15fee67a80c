"""The steps of a program, run in order: compiled partitions on PyTorch's memory, and PyTorch's own ops."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import fx

from benchgraph.core.layers import Layer, Span
from benchgraph.core.tensor import LayoutType, LogicalTensor
from benchgraph.library.compiled_partition import CompiledPartition
from benchgraph.library.engine import Engine, Stream
from benchgraph.library.partition import Partition
from benchgraph.library.tensor import Tensor
from benchgraph.torch.draft import Key, Literal, View

RECYCLED_BYTES = 1 << 16  # results up to this size reuse memory of earlier ones; the allocator reuses addresses of larger ones anyway
RECYCLED = 4  # such buffers per output and thread
KEPT = 16  # sets of addresses that a thread keeps tensors for, the number of the library's bindings
Env = dict[Key, Any]


@dataclass(frozen=True)
class Ref:
    """A value at run time: that of a key, or a view of it."""

    key: Key
    place: View | None = None

    def __call__(self, env: Env) -> Any:
        kept = env[self.key]
        if self.place is None:
            return kept
        return kept.as_strided(self.place.shape, self.place.strides, kept.storage_offset() + self.place.offset)


@dataclass(frozen=True)
class Port:
    """The memory of a partition's input: at a byte offset from the first element of a value, or a literal."""

    key: Key
    offset: int
    is_constant: bool
    literal: Literal | None = None


@dataclass(frozen=True)
class Output:
    """The tensor to allocate for an output of a partition."""

    key: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    nbytes: int


@dataclass(frozen=True, eq=False)
class PartitionStep:
    """Ops that the library runs together. ins, outs: their layouts; declared: outs as given to compile."""

    partition: Partition
    engine: Engine
    ports: tuple[Port, ...]
    ins: tuple[LogicalTensor, ...]
    declared: tuple[LogicalTensor, ...]
    outs: tuple[LogicalTensor, ...]
    outputs: tuple[Output, ...]

    @property
    def reads(self) -> tuple[Key, ...]:
        return tuple(dict.fromkeys(p.key for p in self.ports if p.literal is None))

    @property
    def constants(self) -> tuple[Key, ...]:
        return tuple(dict.fromkeys(p.key for p in self.ports if p.literal is None and p.is_constant))

    def compile(self) -> CompiledPartition:
        """The compiled partition, from the library's cache if possible, without computed constants."""
        return self.partition.compile(self.ins, self.declared, self.engine)

    def tensor(self, position: int, env: Env) -> Tensor:
        """The library's tensor on an input's memory."""
        port, t = self.ports[position], self.ins[position]
        array = port.literal if port.literal is not None else array_at(env[port.key].data_ptr() + port.offset, t)
        return Tensor(t, self.engine, array)

    def __call__(self, env: Env, states: States) -> None:
        states[self](env)


@dataclass(frozen=True, eq=False)
class NodeStep:
    """An op that PyTorch runs. keys: of its results; strides: those that the readers of a result rely on, None without readers."""

    node: fx.Node
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    keys: tuple[Key, ...]
    strides: tuple[tuple[int, ...] | None, ...]
    is_many: bool

    @property
    def reads(self) -> tuple[Key, ...]:
        keys = list[Key]()
        fx.node.map_aggregate((self.args, dict(self.kwargs)), lambda a: keys.append(a.key) if isinstance(a, Ref) else None)
        return tuple(dict.fromkeys(keys))

    def __call__(self, env: Env, states: States) -> None:
        made = self.node.target(*resolved(self.args, env), **resolved(dict(self.kwargs), env))
        for key, strides, each in zip(self.keys, self.strides, made if self.is_many else (made,), strict=True):
            env[key] = _with_strides(each, strides)


def resolved(given: Any, env: Env) -> Any:
    return fx.node.map_aggregate(given, lambda a: a(env) if isinstance(a, Ref) else a)


def _with_strides(made: Any, strides: tuple[int, ...] | None) -> Any:
    """A result with the traced strides, on which its readers rely and which kernels may not return."""
    if strides is None or not isinstance(made, torch.Tensor) or made.stride() == strides:
        return made
    return torch.empty_strided(made.shape, strides, dtype=made.dtype).copy_(made)


def array_at(address: int, t: LogicalTensor) -> npt.NDArray[np.generic]:
    """PyTorch's memory as an array that does not keep it alive: the caller must hold the PyTorch tensor."""
    memory: Any = (ctypes.c_uint8 * t.nbytes).from_address(address)  # exports a buffer, which the type stubs lack
    if t.layout_type is LayoutType.opaque:
        return np.ndarray((t.nbytes,), np.uint8, memory)
    dtype = t.dtype.numpy
    return np.ndarray(t.known_shape, dtype, memory, strides=tuple(s * dtype.itemsize for s in t.known_strides))


class PerThread(threading.local):
    """A thread's tensors, by their addresses; and memory of small results, by output."""

    def __init__(self) -> None:
        self.tensors: dict[tuple[int, ...], tuple[list[Tensor], list[Tensor]]] = {}
        self.memory: dict[int, list[Any]] = {}

    def result(self, o: Output) -> torch.Tensor:
        """A tensor for an output, in unshared memory: new, or that of a small earlier result without remaining tensors.

        New addresses are expensive, since the library checks and binds them again: 0.2 ms, more than a small model takes.
        """
        kept = self.memory.setdefault(o.key, []) if o.nbytes <= RECYCLED_BYTES else None
        if kept is None:
            return torch.empty_strided(o.shape, o.strides, dtype=o.dtype)
        for storage in kept:
            if torch._C._storage_Use_Count(storage._cdata) == 1 and not storage.is_shared():
                return torch.empty(0, dtype=o.dtype).set_(storage, 0, o.shape, o.strides)
        made = torch.empty_strided(o.shape, o.strides, dtype=o.dtype)
        if len(kept) < RECYCLED:
            kept.append(made.untyped_storage())
        return made


class StepState:
    """A partition step with the weights of one epoch: constants has their tensors, by position."""

    def __init__(self, step: PartitionStep, compiled: CompiledPartition, constants: Mapping[int, Tensor]) -> None:
        self.step, self.constants = step, constants
        self._compiled, self._stream = compiled, Stream(step.engine)
        self._read = tuple(dict.fromkeys(p.key for p in step.ports if p.literal is None and not p.is_constant))
        self._bound = PerThread()

    def __call__(self, env: Env) -> None:
        self._compiled.execute(self._stream, *self._tensors(env))

    def execute_profiled(self, env: Env) -> tuple[tuple[Layer, ...], list[Span]]:
        """The same, and when each layer ran."""
        return self._compiled.execute_profiled(*self._tensors(env))

    def _tensors(self, env: Env) -> tuple[list[Tensor], list[Tensor]]:
        """The library's tensors on the inputs' memory, and on that of new outputs, which are values from now on."""
        outputs = self.step.outputs
        made = [self._bound.result(o) for o in outputs]
        addresses = (*(env[key].data_ptr() for key in self._read), *(t.data_ptr() for t in made))
        bound = self._bound.tensors.get(addresses) or self._bind(addresses, env, made)
        for o, t in zip(outputs, made, strict=True):
            env[o.key] = t
        return bound

    def _bind(self, addresses: tuple[int, ...], env: Env, made: Sequence[torch.Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        kept, step = self._bound.tensors, self.step
        ins = [self.constants.get(i) or step.tensor(i, env) for i in range(len(step.ports))]
        outs = [Tensor(t, step.engine, array_at(m.data_ptr(), t)) for t, m in zip(step.outs, made, strict=True)]
        while len(kept) >= KEPT:
            del kept[next(iter(kept))]
        kept[addresses] = ins, outs
        return ins, outs


States = Mapping[PartitionStep, StepState]
