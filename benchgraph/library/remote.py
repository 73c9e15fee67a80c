"""A library in a process of its own: its objects by number, and memory shared with it.

A request is (numbers to forget, name of a method, arguments). The answer is ("answer", value) or ("refusal", status, what, fix), where
status is the name of a dnnl_status_t. Messages are plain values, so that the two sides need no common code.
"""

from __future__ import annotations

import atexit
import mmap
import os
import sys
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.reduction import send_handle
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.arrays import Array, view
from benchgraph.core.child_process import CapturedOutput, Child, ChildLost, Program
from benchgraph.core.errors import (
    BenchgraphError,
    ExecutionFailed,
    InvalidArguments,
    InvalidDataType,
    InvalidGraph,
    InvalidGraphOp,
    InvalidShape,
    OutOfMemory,
    Unimplemented,
)
from benchgraph.core.implementation import Implementation
from benchgraph.core.layers import Profiled
from benchgraph.core.tensor import LogicalTensor
from benchgraph.core.wait_idle import wait_until_idle
from benchgraph.library.protocol import Bound, Compiled
from benchgraph.partition.ir import Partition

_KINDS = (OutOfMemory, InvalidArguments, Unimplemented, InvalidGraph, InvalidGraphOp, InvalidShape, InvalidDataType)
_ERRORS: dict[str, type[BenchgraphError]] = {kind.status.name: kind for kind in _KINDS}


class RemoteProcess(Child):
    """The process. Its objects are destroyed with the Remotes that refer to them. where: the library's name in errors.

    Every request raises the error for the library's status; ExecutionFailed, with the signal, if the process died. A dead one stays dead.
    """

    def __init__(self, program: Program, *arguments: object, where: str, env: Mapping[str, str]) -> None:
        """Raises ExecutionFailed if no process can be started."""
        self.where, self._forgotten, self._end = where, list[int](), ""
        self._window: mmap.mmap | None = None
        self.buffers: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._stderr = CapturedOutput()
        try:
            super().__init__(program, *arguments, env=env, stderr=self._stderr.file, group=None)
        except OSError as bad:
            self._stderr.file.close()
            what = f"no process can be started for it: {bad.strerror}"
            raise ExecutionFailed(what, where=where, fix="end other processes, or raise the limit that holds (ulimit -a)") from bad

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def subject(self) -> str:
        """What errors call it."""
        return self.where

    def ask(self, name: str, *arguments: object) -> Any:
        """Call a method of the process's session. Returns its result."""
        if self._end:
            raise ExecutionFailed(
                f"{self.subject} is no longer there: it {self._end}", where=self.where, fix="run what is asked of it alone"
            )
        forgotten, self._forgotten = self._forgotten, []
        self.send((forgotten, name, arguments))
        return self.answer(name)

    def window(self, nbytes: int) -> NDArray[np.uint8]:
        """The first bytes of the shared memory for tensors, which is enlarged if necessary."""
        if self._window is None or len(self._window) < nbytes:
            file = os.memfd_create("benchgraph-library")
            try:
                os.ftruncate(file, max(nbytes, mmap.PAGESIZE))
                self._window = mmap.mmap(file, max(nbytes, mmap.PAGESIZE))
                self.send((self._forgotten, "window", (len(self._window),)))
                self._forgotten = []
                with suppress(BrokenPipeError, ConnectionResetError):  # as `send` does
                    send_handle(self.pipe, file, self.pid)
            finally:
                os.close(file)
            self.answer("window")
        return np.frombuffer(self._window, np.uint8, nbytes)

    def forget(self, number: int) -> None:
        """Destroy an object with the next request."""
        self._forgotten.append(number)

    def close(self) -> None:
        self.kill()
        self._stderr.file.close()

    def answer(self, request: str) -> Any:
        """The value of the next answer. What the process prints to stderr is printed to ours."""
        try:
            sort, *values = self.receive()
        except ChildLost as lost:
            raise self._died(request, lost) from lost
        self._printed()
        if sort == "answer":
            return values[0]
        status, what, fix = values
        raise _ERRORS.get(status, ExecutionFailed)(self.refusal(request, status, what), where=self.where, fix=fix)

    def refusal(self, request: str, status: str, what: str) -> str:
        """The message for a status other than success."""
        return what

    def explained(self, request: str, lost: ChildLost, printed: str) -> BenchgraphError | str:
        """Why it died, beyond the signal: another error, or a remark for the message. printed: its last output on stderr."""
        return ""

    def _printed(self) -> str:
        text = self._stderr.take()
        sys.stderr.write(text)
        return text

    def _died(self, request: str, lost: ChildLost) -> BenchgraphError:
        why = self.explained(request, lost, self._printed())
        self.close()
        if isinstance(why, BenchgraphError):
            return why
        self._end = f"{lost} in '{request}'{why}"
        return ExecutionFailed(f"{self.subject} {self._end}", where=self.where, fix="try another version of it")


P = TypeVar("P", bound=RemoteProcess)


class RunningProcesses(Generic[P]):
    """One process per key, for as long as it lives and its settings are asked for. All end with this process."""

    def __init__(self) -> None:
        self._running: dict[Hashable, tuple[Hashable, P]] = {}
        atexit.register(self.close)

    def get(self, key: Hashable, settings: Hashable, start: Callable[[], P]) -> P:
        """The process of this key with these settings; a new one if there is none alive."""
        if key in self._running:
            known, running = self._running[key]
            if running.is_alive and known == settings:
                return running
            running.close()
        started = start()
        self._running[key] = settings, started
        return started

    def close(self) -> None:
        while self._running:
            self._running.popitem()[1][1].close()


class RemoteLibrary:
    """What all libraries in processes of their own answer alike (library.protocol.Library)."""

    @property
    def is_in_process(self) -> bool:
        return False

    def caller(
        self, partition: Partition, compiled: Compiled, inputs: Sequence[Array], outputs: Sequence[Array]
    ) -> Callable[[], None] | None:
        """None: a Python program here cannot call the library, which is in another process, on its own arrays."""
        return None

    def profiled(
        self, partitions: Sequence[Partition], inputs: Sequence[Sequence[Array]], outputs: Sequence[Sequence[Array]]
    ) -> Profiled | None:
        """None: the library tells the time of no layer."""
        return None


B = TypeVar("B", bound=Bound)


def own_steps(steps: Sequence[Bound], own: type[B]) -> list[B]:
    """The steps, all of which a library has bound itself. Raises InvalidArguments for one of another library."""
    found = [s for s in steps if isinstance(s, own)]
    if len(found) != len(steps):
        raise InvalidArguments("cannot chain what another library has bound", where="sequence", fix="chain what this library has bound")
    return found


class Remote:
    """An object in the process, by number; destroyed in the process with this one."""

    def __init__(self, process: RemoteProcess, number: int) -> None:
        self.process, self.number = process, number
        weakref.finalize(self, process.forget, number)


class RemoteChain:
    """Bound steps as one call in the process, on buffers that stay in it. The steps tell what they run on; constants are the process's."""

    process: RemoteProcess
    number: int

    @property
    def implementations(self) -> Sequence[tuple[Implementation, ...]]:
        return ()

    @property
    def constants(self) -> Sequence[Array]:
        return ()

    @property
    def notes(self) -> Sequence[str]:
        return ()

    def run(self, times: int) -> float:
        """Execute so many times. Returns the seconds, measured in the process."""
        wait_until_idle()
        seconds: float = self.process.ask("run", self.number, times)
        return seconds


class Buffer(Remote):
    """Memory in the process for an array of ours, or for an intermediate value."""

    def __init__(self, process: RemoteProcess, nbytes: int, array: Array | None = None) -> None:
        super().__init__(process, process.ask("allocate", nbytes))
        self.nbytes, self.array = nbytes, array

    def put(self, array: Array, tensor: LogicalTensor) -> None:
        view(self.process.window(tensor.nbytes), tensor)[...] = array
        self.process.ask("put", self.number, tensor.nbytes)

    def get(self, array: Array, tensor: LogicalTensor) -> None:
        window = self.process.window(tensor.nbytes)
        self.process.ask("get", self.number, tensor.nbytes)
        array[...] = view(window, tensor)


def buffer_for(process: RemoteProcess, array: Array, nbytes: int) -> Buffer:
    """The buffer for an array: that of other arrays at the same address if it is large enough."""
    address = array.ctypes.data
    buffer: Buffer | None = process.buffers.get(address)
    if buffer is None or buffer.nbytes < nbytes:
        buffer = process.buffers[address] = Buffer(process, nbytes, array)
    return buffer
