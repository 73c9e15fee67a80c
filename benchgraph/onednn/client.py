"""The handle of oneDNN's process: requests, shared memory for tensors, and errors when it ends."""

from __future__ import annotations

import atexit
import mmap
import os
import signal
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from multiprocessing.reduction import send_handle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.child_process import CapturedOutput, Child, ChildLost
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
from benchgraph.measure.call_loop import machine_code
from benchgraph.onednn.find_library import INSTALL, SONAME, surroundings
from benchgraph.onednn.messages import Answer, Hello, Refusal

WHERE = "onednn"
LOAD_S = 120.0  # timeout of starting a process and loading the library, a second on an idle machine
SERVER = "benchgraph.onednn.server"

_KINDS = (OutOfMemory, InvalidArguments, Unimplemented, InvalidGraph, InvalidGraphOp, InvalidShape, InvalidDataType)
_ERRORS: dict[str, type[BenchgraphError]] = {kind.status.name: kind for kind in _KINDS}


_limit_s: ContextVar[float] = ContextVar("_limit_s", default=LOAD_S)


@contextmanager
def loading_within(seconds: float) -> Iterator[None]:
    """Inside the block, the timeout of loading a library."""
    token = _limit_s.set(seconds)
    try:
        yield
    finally:
        _limit_s.reset(token)


class Process(Child):
    """A running oneDNN. Its objects are destroyed with the Remotes that refer to them.

    __init__ and every request raise the error for oneDNN's status; ExecutionFailed, with the signal, if the process died. A dead one stays
    dead: `process` starts another.
    """

    def __init__(self, path: str, threads: int) -> None:
        self.path, self.threads, self._forgotten, self._end = path, threads, list[int](), ""
        self._window: mmap.mmap | None = None
        self.buffers: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._stderr = CapturedOutput()
        try:
            super().__init__(SERVER, os.getpid(), path, threads, env=surroundings(path, threads), stderr=self._stderr.file, group=None)
        except OSError as bad:
            self._stderr.file.close()
            what = f"no process can be started for it: {bad.strerror}"
            raise ExecutionFailed(what, where=WHERE, fix="end other processes, or raise the limit that holds (ulimit -a)") from bad
        try:
            self.send(machine_code())
            if not self.pipe.poll(limit := _limit_s.get()):
                what = f"{path} did not finish loading within {limit:g} s"
                raise InvalidArguments(what, where=WHERE, fix="try another one, or raise --timeout if it only needs longer")
            hello = self._answer("loading")
        except BaseException as bad:
            self.close()
            if not isinstance(bad, BenchgraphError):
                raise
            if path == SONAME and isinstance(bad, InvalidArguments) and "cannot be loaded" in bad.what:  # the last place that was searched
                raise InvalidArguments("no oneDNN is installed", where=WHERE, fix=INSTALL) from bad
            raise
        assert isinstance(hello, Hello)
        self.hello = hello

    @property
    def version(self) -> str:
        return ".".join(map(str, self.hello.version))

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, name: str, *arguments: object) -> Any:
        """Call a method of session.Session. Returns its result."""
        if self._end:
            raise ExecutionFailed(f"{self.path} is no longer there: it {self._end}", where=WHERE, fix="run what is asked of it alone")
        forgotten, self._forgotten = self._forgotten, []
        self.send((forgotten, name, arguments))
        return self._answer(name)

    def window(self, nbytes: int) -> NDArray[np.uint8]:
        """The first bytes of the shared memory for tensors, which is enlarged if necessary."""
        if self._window is None or len(self._window) < nbytes:
            file = os.memfd_create("benchgraph-onednn")
            try:
                os.ftruncate(file, max(nbytes, mmap.PAGESIZE))
                self._window = mmap.mmap(file, max(nbytes, mmap.PAGESIZE))
                self.send((self._forgotten, "window", (len(self._window),)))
                self._forgotten = []
                with suppress(BrokenPipeError, ConnectionResetError):  # as `send` does
                    send_handle(self.pipe, file, self.pid)
            finally:
                os.close(file)
            self._answer("window")
        return np.frombuffer(self._window, np.uint8, nbytes)

    def forget(self, number: int) -> None:
        """Destroy an object with the next request."""
        self._forgotten.append(number)

    def close(self) -> None:
        self.kill()
        self._stderr.file.close()

    def _answer(self, request: str) -> Any:
        try:
            answer: Answer | Refusal = self.receive()
        except ChildLost as lost:
            raise self._died(request, lost) from lost
        self._printed()
        if isinstance(answer, Answer):
            return answer.value
        what = answer.what if request == "loading" else f"{self.version} answers {answer.status} to {answer.what}"
        raise _ERRORS.get(answer.status, ExecutionFailed)(what, where=WHERE, fix=answer.fix)

    def _printed(self) -> str:
        """Its stderr since the last call; also written to ours."""
        text = self._stderr.take()
        sys.stderr.write(text)
        return text

    def _died(self, request: str, lost: ChildLost) -> BenchgraphError:
        """The error for its end. An uncaught C++ exception of oneDNN ends it too, and means an unsupported partition while compiling."""
        printed = self._printed()
        thrown = next((line.split("what():", 1)[1].split(". ")[0].strip() for line in printed.splitlines() if "what():" in line), "")
        self.close()
        if request == "compile" and lost.signal == signal.SIGABRT and "'dnnl::error'" in printed:
            return Unimplemented(f"{self.version} calls the partition supported, but throws '{thrown}' when it compiles it", where=WHERE)
        cause = f" (it threw '{thrown}')" if thrown else ""
        self._end = f"{lost} in '{request}'{cause}"
        return ExecutionFailed(f"{self.path} {self._end}", where=WHERE, fix="try another version of it")


class Remote:
    """An object in the process, by number; destroyed there with this one."""

    def __init__(self, process: Process, number: int) -> None:
        self.process, self.number = process, number
        weakref.finalize(self, process.forget, number)


_processes: dict[str, Process] = {}


@atexit.register
def close_all() -> None:
    while _processes:
        _processes.popitem()[1].close()


def process(path: str, threads: int) -> Process:
    """The process that has loaded this file and runs on so many threads; a new one if there is none alive."""
    running = _processes.get(path)
    if running is not None and running.is_alive and running.threads == threads:
        return running
    if running is not None:
        running.close()
    _processes[path] = started = Process(path, threads)
    return started
