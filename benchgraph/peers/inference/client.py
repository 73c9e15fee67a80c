"""The handle of a runtime's process: the Python environment that it runs in, how it starts, and errors when it does not."""

from __future__ import annotations

import os
from pathlib import Path

from benchgraph.core.child_process import Program
from benchgraph.core.config import environment
from benchgraph.core.errors import BenchgraphError, InvalidArguments
from benchgraph.library.remote import RemoteProcess, RunningProcesses
from benchgraph.machine.cpu_affinity import last_cpus
from benchgraph.peers.inference.runtimes import RUNTIMES, Runtime

SERVER = Path(__file__).with_name("server.py")
LOAD_S = 120.0  # timeout of starting a process and importing the runtime, some seconds on an idle machine
NO_FOLDERS = os.devnull  # PYTHONPATH of an interpreter that must find its own packages alone


class Process(RemoteProcess):
    """A running runtime, on so many threads. A dead one stays dead: `process` starts another."""

    def __init__(self, kind: str, python: str, threads: int) -> None:
        """python: the interpreter, '' for ours."""
        self.runtime, where = RUNTIMES[kind], f"{kind} in {python}" if python else kind
        program = Program(str(SERVER), python, NO_FOLDERS if python else "")
        arguments = os.getpid(), last_cpus(threads), self.runtime.session, threads, self.runtime.variant
        super().__init__(program, *arguments, where=where, env=environment({}, OMP_NUM_THREADS=str(threads)))
        try:
            if not self.pipe.poll(LOAD_S):
                raise InvalidArguments(f"it did not start within {LOAD_S:g} s", where=where, fix="try again on a quieter machine")
            self.version: str = self.answer("loading")
        except BaseException as bad:
            self.close()
            if not isinstance(bad, BenchgraphError):
                raise
            raise InvalidArguments(bad.what, where=where, fix=bad.fix or install(self.runtime, python)) from bad


def install(runtime: Runtime, python: str) -> str:
    """The remedy where its package is missing."""
    return f"{python} -m pip install {runtime.package}" if python else f"pip install 'benchgraph[{runtime.extra}]'"


def interpreter(kind: str, place: str) -> str:
    """The Python of an environment's folder, or the file itself; '' for ours. Raises InvalidArguments if there is none."""
    if not place:
        return ""
    path = Path(os.path.expanduser(place))
    found = Path(os.path.abspath(path / "bin/python" if path.is_dir() else path))
    if not (found.is_file() and os.access(found, os.X_OK)):
        fix = "give the folder of a virtual environment, or its interpreter"
        raise InvalidArguments(f"there is no Python interpreter at {found}", where=f"--library={kind}:{place}", fix=fix)
    return str(found)


_processes = RunningProcesses[Process]()


def process(kind: str, python: str, label: str, threads: int) -> Process:
    """The process of this runtime, environment and label on so many threads; a new one if there is none alive."""
    return _processes.get((kind, python, label), threads, lambda: Process(kind, python, threads))
