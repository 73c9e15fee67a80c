"""A worker process of --jobs, from both ends: `Worker` is the parent's handle, `main` runs in the process.

    parent                      process
    Setup, Task            ->   imports everything, once
                           <-   None: the case begins now, and its time counts
                           <-   CaseResult
    Task                   ->
                           <-   None, CaseResult
    end of the pipe        ->   exits

It is a new interpreter, not a fork: threads and machine code do not survive a fork. What a case prints goes to files that the parent
holds, so that it is not lost with the process.
"""

from __future__ import annotations

import ctypes
import faulthandler
import io
import os
import pickle
import resource
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from fcntl import F_GETFL, F_SETFL, fcntl
from multiprocessing.connection import Connection, Pipe
from subprocess import DEVNULL, Popen, TimeoutExpired
from tempfile import TemporaryFile
from typing import IO

from benchgraph.core.config import Config, environment, module_path, override
from benchgraph.harness.bench import Bench
from benchgraph.harness.blas import SINGLE
from benchgraph.harness.plugins import load_driver
from benchgraph.harness.problem import Problem
from benchgraph.harness.results import CaseResult, Result, Status

TIMEOUT_S = 300.0  # when --timeout is not given: far above what a case of a correctness batch takes, so that only hangs reach it
BOOT_S = 120.0  # for a new process to import everything, which takes half a second on an idle machine
LAST_WORDS_S = 2.0  # for a process whose pipe has closed to end, and for one that hangs to print where (-v)
NEVER = float("inf")

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclass(frozen=True)
class Setup:
    """What holds for all cases of a worker. It is pickled: the bench's functions must be importable by name."""

    bench: Bench
    config: Config


@dataclass(frozen=True)
class Task:
    """A case to run. driver: loaded before the problem is unpickled, which holds knobs of the driver's own class.

    memory: bytes that the process may allocate; None: as many as there are.
    """

    driver: str
    problem: bytes
    memory: int | None


# ---- the parent's end ------------------------------------------------------------------------------------------------


class Worker:
    """A process and the case it has, if any. deadline: when it is given up, by time.monotonic; has_served: it has finished a case."""

    def __init__(self, setup: Setup) -> None:
        self.problem: Problem | None = None
        self.has_served = False
        self._began, self.deadline = 0.0, NEVER
        self._printed: tuple[IO[bytes], ...] = (_append_file(), _append_file())
        self.pipe, theirs = Pipe()
        with theirs:
            self._process = Popen(
                [sys.executable, "-P", "-c", f"from {__name__} import main; main({theirs.fileno()}, {os.getpid()})"],
                stdin=DEVNULL,
                stdout=self._printed[0],
                stderr=self._printed[1],
                pass_fds=[theirs.fileno()],
                process_group=0,  # Ctrl-C reaches the parent alone, and what a case starts can be killed with the worker
                env=_environment(),
            )
        self._send(setup)

    @property
    def is_alive(self) -> bool:
        """Whether it can be given another case, as far as its last words tell."""
        return self._process.returncode is None

    def give(self, problem: Problem, memory: int | None) -> None:
        """Have it run a case. memory: bytes it may allocate."""
        self.problem, self._began, self.deadline = problem, 0.0, time.monotonic() + BOOT_S
        self._send(Task(problem.driver.name, pickle.dumps(problem), memory))

    def _send(self, message: object) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # it died, which `receive` will find
            self.pipe.send(message)

    def receive(self) -> CaseResult | None:
        """The result of its case, None when the case has begun. Blocks until there is one; raises EOFError when the process died."""
        assert self.problem is not None
        try:
            case: CaseResult | None = self.pipe.recv()
        except OSError as bad:
            raise EOFError from bad
        if case is None:
            limit = _timeout_s(self.problem)
            self._began = time.monotonic()
            self.deadline = self._began + limit if limit else NEVER
        else:
            self.problem, self.deadline, self.has_served = None, NEVER, True
        return case

    def died(self) -> CaseResult | None:
        """What its case came to, when `receive` found it dead; None when it died of another case before this one began."""
        try:
            how = _cause(self._process.wait(LAST_WORDS_S))
        except TimeoutExpired:
            how = "closed its pipe"
        self.kill()
        if self.has_served and not self._began:
            return None
        memory = self._process.returncode == -signal.SIGKILL
        when = "" if self._began else " before the case began"
        return self._failed(f"the worker process {how}{when}", no_memory=memory)

    def expire(self) -> CaseResult:
        """What its case came to, when the deadline has passed."""
        assert self.problem is not None
        if self.problem.globals.verbose:
            self._process.send_signal(signal.SIGABRT)  # faulthandler prints where it hangs
            with suppress(TimeoutExpired):
                self._process.wait(LAST_WORDS_S)
        self.kill()
        if not self._began:
            return self._failed(f"no worker process was ready within {BOOT_S:g} s")
        return self._failed(f"no result within {_timeout_s(self.problem):g} s; raise --timeout if it only needs longer")

    def _failed(self, reason: str, *, no_memory: bool = False) -> CaseResult:
        assert self.problem is not None
        elapsed = time.monotonic() - self._began if self._began else 0.0
        return CaseResult(self.problem.index, self.problem.repro, elapsed, Result(Status.FAILED, reason, no_memory=no_memory))

    def printed(self) -> tuple[str, str]:
        """What it wrote to stdout and stderr since it was last asked."""
        texts = []
        for file in self._printed:
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
            file.truncate(0)
        return texts[0], texts[1]

    def kill(self) -> None:
        """End the process at once, with all that its cases have started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.pipe.close()

    def close(self) -> None:
        """Kill it and let go of what it printed."""
        self.kill()
        for file in self._printed:
            file.close()


def _append_file() -> IO[bytes]:
    """A file without a name, which a process goes on writing to from its start when it was emptied."""
    file = TemporaryFile(buffering=0)  # noqa: SIM115 - it lives as long as the worker
    fcntl(file, F_SETFL, fcntl(file, F_GETFL) | os.O_APPEND)
    return file


def _environment() -> dict[str, str]:
    """Ours; with the modules found where this process finds them, and one thread for numpy unless we say otherwise."""
    return environment(SINGLE, PYTHONPATH=module_path())


def _timeout_s(problem: Problem) -> float:
    """Seconds the case may take; 0 for any time."""
    given = problem.globals.timeout
    return TIMEOUT_S if given is None else given


def _cause(code: int) -> str:
    """What an exit code says of the process."""
    if code >= 0:
        return f"exited with code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"was killed by {name}" + ("; the system may have run out of memory" if -code == signal.SIGKILL else "")


# ---- the process's end -----------------------------------------------------------------------------------------------


def main(pipe: int, parent: int) -> None:
    """Serve until the parent closes the pipe or dies. pipe: a file descriptor; parent: a process id."""
    _die_with(parent)
    os.set_inheritable(pipe, False)  # else a process that a case starts would keep the pipe open after this one died
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    with suppress(EOFError), Connection(pipe) as connection:
        setup: Setup = connection.recv()
        with override(**vars(setup.config)):
            _serve(connection, setup.bench)


def _serve(connection: Connection, bench: Bench) -> None:
    from benchgraph.harness.run import run_case  # numpy, LLVM and all, before the first case's time counts

    while True:
        task: Task = connection.recv()
        load_driver(task.driver)
        problem: Problem = pickle.loads(task.problem)
        if problem.globals.verbose:
            faulthandler.enable()  # a signal prints where it struck
        _limit(task.memory)
        connection.send(None)
        case = run_case(problem, bench, lambda text: print(text, file=sys.stderr))
        _flush()
        connection.send(case)


def _limit(memory: int | None) -> None:
    """Let allocations beyond so many bytes fail, as MemoryError, before the system must kill somebody for them.

    RLIMIT_DATA counts private writable memory. RLIMIT_AS would also count what is only reserved: arenas of threads, libraries.
    """
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    soft = hard if memory is None else memory if hard == resource.RLIM_INFINITY else min(memory, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _die_with(parent: int) -> None:
    """Have the kernel end this process when its parent is gone, even if compiled code loops for ever just then (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)


def _flush() -> None:
    """Write out what Python and C still buffer, so that it counts as this case's."""
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)
