"""The handle of oneDNN's process: how it starts, and errors when it ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from benchgraph.core.child_process import ChildLost, Program
from benchgraph.core.errors import BenchgraphError, InvalidArguments, Unimplemented
from benchgraph.library.remote import RemoteProcess, RunningProcesses
from benchgraph.measure.call_loop import machine_code
from benchgraph.onednn.find_library import INSTALL, SONAME, process_environment
from benchgraph.onednn.messages import Hello

WHERE = "onednn"
LOAD_S = 120.0  # timeout of starting a process and loading the library, a second on an idle machine
SERVER = "benchgraph.onednn.server"

_limit_s: ContextVar[float] = ContextVar("_limit_s", default=LOAD_S)


@contextmanager
def loading_within(seconds: float) -> Iterator[None]:
    """Inside the block, the timeout of loading a library."""
    token = _limit_s.set(seconds)
    try:
        yield
    finally:
        _limit_s.reset(token)


class Process(RemoteProcess):
    """A running oneDNN. A dead one stays dead: `process` starts another."""

    def __init__(self, path: str, threads: int, log: str = "") -> None:
        """log: the value of ONEDNN_VERBOSE in that process, instead of ours."""
        self.path, self.threads = path, threads
        super().__init__(Program(SERVER), os.getpid(), path, threads, where=WHERE, env=process_environment(path, threads, log))
        try:
            self.send(machine_code())
            if not self.pipe.poll(limit := _limit_s.get()):
                what = f"{path} did not finish loading within {limit:g} s"
                raise InvalidArguments(what, where=WHERE, fix="try another one, or raise --timeout if it only needs longer")
            hello = self.answer("loading")
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
    def release(self) -> str:
        """The version and thread runtime, as in 3.13.2 (SYCL)."""
        return f"{self.version} ({self.hello.runtime})"

    @property
    def subject(self) -> str:
        return self.path

    def refusal(self, request: str, status: str, what: str) -> str:
        return what if request == "loading" else f"{self.version} answers {status} to {what}"

    def explained(self, request: str, lost: ChildLost, printed: str) -> BenchgraphError | str:
        """An uncaught C++ exception of oneDNN ends it too, and means an unsupported partition while compiling."""
        thrown = next((line.split("what():", 1)[1].split(". ")[0].strip() for line in printed.splitlines() if "what():" in line), "")
        if request == "compile" and lost.signal == signal.SIGABRT and "'dnnl::error'" in printed:
            return Unimplemented(f"{self.version} calls the partition supported, but throws '{thrown}' when it compiles it", where=WHERE)
        return f" (it threw '{thrown}')" if thrown else ""


_processes = RunningProcesses[Process]()
close_all = _processes.close


def process(path: str, threads: int, label: str = "", log: str = "") -> Process:
    """The process of this label that has loaded this file and runs on so many threads; a new one if there is none alive."""
    return _processes.get((path, label), (threads, log), lambda: Process(path, threads, log))
