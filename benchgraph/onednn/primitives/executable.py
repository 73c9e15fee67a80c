"""A built program in oneDNN's process: memory for its values, and tables of its executions for the native loop."""

from __future__ import annotations

import time
from collections.abc import Mapping
from ctypes import Array, addressof, c_float, c_int32, c_void_p, memmove, sizeof
from typing import Any

from benchgraph.core import slots
from benchgraph.onednn.memory import Buffer
from benchgraph.onednn.primitives import capi
from benchgraph.onednn.primitives.builder import F32, Builder, Execution, Storage
from benchgraph.onednn.primitives.handles import Objects
from benchgraph.onednn.primitives.messages import Built, Program


def _integers(values: tuple[float, ...]) -> Array[c_int32]:
    return (c_int32 * len(values))(*map(int, values))


class Executable:
    """A built program, with memory for its values. bind: on the users' buffers."""

    def __init__(self, lib: Any, engine: c_void_p, program: Program) -> None:
        """Raises Refused for what oneDNN does not accept."""
        self.objects = Objects(lib, engine)
        started = time.perf_counter()
        try:
            self.builder = Builder(self.objects, program)
            self.builder.build()
        except BaseException:
            self.objects.close()
            raise
        self.seconds = time.perf_counter() - started
        planned = [s for s in self.builder.storages if not s.is_constant]
        self.plan = slots.plan([slots.Value(n, s.nbytes, s.begin, s.end) for n, s in enumerate(planned)], grows=False)
        self._slot = {id(s): self.plan.slot[n] for n, s in enumerate(planned)}

    def close(self) -> None:
        self.objects.close()

    def message(self, number: int) -> Built:
        b = self.builder
        return Built(
            number, self.seconds, b.primitives, b.reorders, len(b.order.once), self.plan.nbytes, tuple(map(tuple, b.implementations))
        )

    def bind(self, buffers: Mapping[int, Buffer]) -> BoundProgram:
        """buffers: of the borders, by value. Raises OSError if there is no memory."""
        return BoundProgram(self, buffers)

    def slot(self, storage: Storage) -> int:
        return self._slot[id(storage)]


class BoundProgram:
    """A program on buffers: tables for the loop (measure/call_loop.py).

    The loop passes six arguments, of which dnnl_primitive_execute has the first four; by the calling conventions of x86-64 and AArch64 the
    others are in registers that it does not read.
    """

    def __init__(self, executable: Executable, buffers: Mapping[int, Buffer]) -> None:
        self.executable, builder = executable, executable.builder
        self._buffers = dict(buffers)
        self._slots = [Buffer(nbytes) for nbytes in executable.plan.slots]
        self._constants = {id(s): Buffer(s.nbytes) for s in builder.storages if s.is_constant}
        for storage, factors, dtype in builder.factors:
            numbers = (c_float * len(factors.values))(*factors.values) if dtype == F32 else _integers(factors.values)
            memmove(self._constants[id(storage)].address, numbers, sizeof(numbers))
        self._objects = Objects(executable.objects.lib, executable.objects.engine)
        self._memories = dict[tuple[int, int], int]()
        self._arguments = list[Any]()
        self.once, self.always = self._table(builder.order.once), self._table(builder.order.always)
        self.n_once, self.n_always = len(builder.order.once), len(builder.order.always)
        self.is_prepared = not self.n_once

    def close(self) -> None:
        self._objects.close()

    def _address(self, storage: Storage) -> int:
        if storage.border is not None:
            return self._buffers[storage.border].address
        if storage.is_constant:
            return self._constants[id(storage)].address
        return self._slots[self.executable.slot(storage)].address

    def _memory(self, md: int, storage: Storage) -> int:
        key = md, id(storage)
        if key not in self._memories:
            self._memories[key] = self._objects.memory(md, self._address(storage))
        return self._memories[key]

    def _table(self, executions: list[Execution]) -> Any:
        words = list[int]()
        for e in executions:
            arguments = (capi.ExecArg * len(e.arguments))(
                *(capi.ExecArg(arg, self._memory(md, storage)) for arg, md, storage in e.arguments)
            )
            self._arguments.append(arguments)
            words += (e.primitive, len(e.arguments), addressof(arguments), 0, 0)
        return (c_void_p * max(len(words), 1))(*words)
