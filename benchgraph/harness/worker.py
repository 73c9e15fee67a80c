"""A worker process of --jobs: `Worker` is the parent's handle, `main` runs in the worker.

    parent                      worker
    Setup, Task            ->   imports everything, once
                           <-   None: the case begins now, and its time counts
                           <-   str: a remark that concerns more than the case, any number of them
                           <-   CaseResult
    Task                   ->
                           <-   None, CaseResult
    end of the pipe        ->   exits

The output of a case goes to files of the parent, so that it survives the worker.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import pickle
import resource
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

from benchgraph.core.child_process import CapturedOutput, Child, ChildLost, Program
from benchgraph.core.config import Config, environment, override
from benchgraph.core.printable import print_any
from benchgraph.core.remarks import remark, remarks_sent_to
from benchgraph.core.serving import attach
from benchgraph.harness.bench import Bench
from benchgraph.harness.blas_threads import SINGLE
from benchgraph.options.plugins import load_driver
from benchgraph.options.problem import Problem
from benchgraph.results.result import CaseResult, Result, Status

TIMEOUT_S = 300.0  # default of --timeout: far above the time of a correctness case, so that only hangs reach it
BOOT_S = 120.0  # for a new process to import everything, half a second on an idle machine
NEVER = float("inf")


@dataclass(frozen=True)
class Setup:
    """The settings for all cases of a worker. It is pickled: the bench's functions must be importable by name."""

    bench: Bench
    config: Config


@dataclass(frozen=True)
class Task:
    """A case to run. driver: loaded before the problem is unpickled, which contains knobs of the driver's class.

    memory: bytes that the process may allocate; None: no limit. share: bytes that the case may need by its estimate; None: what is free.
    """

    driver: str
    problem: bytes
    memory: int | None
    share: int | None = None


# ---- in the parent ---------------------------------------------------------------------------------------------------


class Worker(Child):
    """A process and its case, if any. deadline: of the case, by time.monotonic; has_served: whether it has finished a case."""

    def __init__(self, setup: Setup) -> None:
        self.problem: Problem | None = None
        self.has_served = False
        self._began, self.deadline = 0.0, NEVER
        self._stdout, self._stderr = CapturedOutput(), CapturedOutput()
        super().__init__(Program(__name__), os.getpid(), env=environment(SINGLE), stdout=self._stdout.file, stderr=self._stderr.file)
        self.send(setup)

    @property
    def is_alive(self) -> bool:
        """Whether it can get another case: no end of the process has been noticed yet."""
        return self._process.returncode is None

    def give(self, problem: Problem, memory: int | None, share: int | None = None) -> None:
        """Run a case. memory: bytes it may allocate; share: bytes it may need by its estimate, None for what is free."""
        self.problem, self._began, self.deadline = problem, 0.0, time.monotonic() + BOOT_S
        self.send(Task(problem.driver.name, pickle.dumps(problem), memory, share))

    def receive(self) -> CaseResult | None:
        """The result of its case, None if there is none yet. Blocks until the next message; raises ChildLost when the process died."""
        assert self.problem is not None
        case: CaseResult | str | None = super().receive()
        if isinstance(case, str):
            remark(case)
            return None
        if case is None:
            limit = _timeout_s(self.problem)
            self._began = time.monotonic()
            self.deadline = self._began + limit if limit else NEVER
        else:
            self.problem, self.deadline, self.has_served = None, NEVER, True
        return case

    def died(self, lost: ChildLost) -> CaseResult | None:
        """The result of its case when `receive` raised ChildLost; None if it died of another case before this one began."""
        if self.has_served and not self._began:
            return None
        was_killed = lost.signal == signal.SIGKILL
        why = "; the system may have run out of memory" if was_killed else ""
        when = "" if self._began else " before the case began"
        return self._failed(f"the worker process {lost}{why}{when}", no_memory=was_killed)

    def expire(self) -> CaseResult:
        """The result of its case when the deadline has passed."""
        assert self.problem is not None
        if self.problem.globals.verbose:
            self._process.send_signal(signal.SIGABRT)  # faulthandler prints where it hangs
            self._ended()
        self.kill()
        if not self._began:
            return self._failed(f"no worker process was ready within {BOOT_S:g} s")
        return self._failed(f"no result within {_timeout_s(self.problem):g} s; raise --timeout if it only needs longer")

    def _failed(self, reason: str, *, no_memory: bool = False) -> CaseResult:
        assert self.problem is not None
        elapsed = time.monotonic() - self._began if self._began else 0.0
        if self.problem.globals.save_failures:
            from benchgraph.harness.saved_failures import save_unrun  # numpy, which the parent does without

            save_unrun(self.problem)
        return CaseResult(self.problem.index, self.problem.repro, elapsed, Result(Status.FAILED, reason, no_memory=no_memory))

    def printed(self) -> tuple[str, str]:
        """Its output on stdout and stderr since the last call."""
        return self._stdout.take(), self._stderr.take()

    def kill(self) -> None:
        """End the process at once, with all processes that its cases have started."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        super().kill()

    def close(self) -> None:
        """Kill it and close its output."""
        self.kill()
        self._stdout.file.close()
        self._stderr.file.close()


def _timeout_s(problem: Problem) -> float:
    """Seconds the case may take; 0 for no limit."""
    given = problem.globals.timeout
    return TIMEOUT_S if given is None else given


# ---- in the worker ---------------------------------------------------------------------------------------------------


def main(pipe: int, parent: int) -> None:
    """Serve until the parent closes the pipe or ends. pipe: a file descriptor; parent: a process id."""
    connection = attach(pipe, parent)
    print_any("utf-8")
    with suppress(EOFError), connection:
        setup: Setup = connection.recv()
        with override(**vars(setup.config)):
            _serve(connection, setup.bench)


def _serve(connection: Connection, bench: Bench) -> None:
    from benchgraph.harness.case import run_case  # numpy, LLVM and all, before the first case's time counts

    while True:
        task: Task = connection.recv()
        load_driver(task.driver)
        problem: Problem = pickle.loads(task.problem)
        if problem.globals.verbose:
            faulthandler.enable()  # a signal prints a traceback
        _limit(task.memory)
        connection.send(None)
        remarks = list[str]()
        with remarks_sent_to(remarks.append):
            case = run_case(problem, replace(bench, share=task.share), lambda text: print(text, file=sys.stderr))
        _flush()
        for text in remarks:
            connection.send(text)
        connection.send(case)


def _limit(memory: int | None) -> None:
    """Let allocations beyond so many bytes fail, as MemoryError, before the system kills a process.

    RLIMIT_DATA counts private writable memory. RLIMIT_AS would also count reserved memory: arenas of threads, libraries.
    """
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    soft = hard if memory is None else memory if hard == resource.RLIM_INFINITY else min(memory, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _flush() -> None:
    """Flush the buffers of Python and C, so that their content counts as this case's."""
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)
