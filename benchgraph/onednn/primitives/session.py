"""What oneDNN's process does with primitives: a Session with four more requests."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import byref, c_int, c_void_p

from benchgraph.core.implementation import Implementation
from benchgraph.core.wait_idle import wait_until_idle
from benchgraph.onednn.primitives import capi
from benchgraph.onednn.primitives.builder import Builder
from benchgraph.onednn.primitives.executable import BoundProgram, Executable
from benchgraph.onednn.primitives.handles import Objects
from benchgraph.onednn.primitives.messages import Built, Program, Trial
from benchgraph.onednn.session import Refused, Session


class PrimitiveSession(Session):
    def __init__(self, path: str, threads: int, loop: bytes, receive: Callable[[], int]) -> None:
        super().__init__(path, threads, loop, receive)
        capi.declare(self._lib)

    def trial(self, program: Program) -> Trial:
        """Create its primitives, and tell how that went."""
        objects = Objects(self._lib, self._engine)
        builder = Builder(objects, program)
        try:
            with self._cold():
                builder.build()
        except Refused as bad:
            return Trial(refused=f"{bad.what}: {bad.status}")
        finally:
            objects.close()
        made = (Implementation(*pair) for pairs in builder.implementations for pair in pairs)
        return Trial(reference=next((i.name for i in made if i.is_reference), ""))

    def build(self, program: Program) -> Built:
        """Create its primitives. The time is that of these calls."""
        with self._cold():
            executable = Executable(self._lib, self._engine, program)
        return executable.message(self._keep(executable))

    def bind(self, executable: int, buffers: dict[int, int]) -> int:
        """buffers: numbers of the borders' buffers, by value."""
        built: Executable = self.object(executable)
        try:
            return self._keep(built.bind({value: self.object(number) for value, number in buffers.items()}))
        except OSError as bad:
            raise Refused("out_of_memory", "no memory for the values between primitives") from bad

    def run_program(self, bound: int, times: int) -> float:
        """Execute a bound program so many times, in one native call. Returns its seconds; before the first time, constants are prepared.

        When this returns, idle threads sleep.
        """
        program: BoundProgram = self.object(bound)
        if not program.is_prepared:
            self._executed(program.once, program.n_once, 1)
            program.is_prepared = True
        seconds = self._executed(program.always, program.n_always, times)
        wait_until_idle()
        return seconds

    @contextmanager
    def _cold(self) -> Iterator[None]:
        """Inside the block, no primitive comes from oneDNN's cache of them, where an earlier request may have left it."""
        kept = c_int()
        self._check(self._lib.dnnl_get_primitive_cache_capacity(byref(kept)), "asking for the primitive cache's capacity")
        self._check(self._lib.dnnl_set_primitive_cache_capacity(0), "switching the primitive cache off")
        try:
            yield
        finally:
            self._check(self._lib.dnnl_set_primitive_cache_capacity(kept), "switching the primitive cache on")

    def _executed(self, table: ctypes.Array[c_void_p], count: int, times: int) -> float:
        execute = ctypes.cast(self._lib.dnnl_primitive_execute, c_void_p)
        wait = ctypes.cast(self._lib.dnnl_stream_wait, c_void_p)
        started = time.perf_counter()
        status = self._loop(execute, wait, self._stream, ctypes.addressof(table), count, times)
        seconds = time.perf_counter() - started
        self._check(status, "executing the primitives")
        return seconds
