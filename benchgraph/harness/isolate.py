"""--jobs: runs cases in worker processes, so that a crash or a hang affects only its case, and several run in parallel.

Results are yielded as they finish, each with its case's output. If a worker dies, or exceeds --timeout, its case is FAILED with the reason,
and another worker is started. A worker compiles in one process, whatever BENCHGRAPH_COMPILE_JOBS says.

Each worker may use its share of the memory that is free at the start. A case that does not fit runs again when all others are done, alone
and with all of that memory; so results do not depend on the number of workers.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait

from benchgraph.core.child_process import ChildLost
from benchgraph.core.config import config
from benchgraph.core.errors import OutOfMemory, UsageError
from benchgraph.core.progress import begin_item
from benchgraph.core.remarks import remark
from benchgraph.harness.bench import Bench
from benchgraph.harness.worker import NEVER, Setup, Worker
from benchgraph.machine.target import current
from benchgraph.options.argv import CommandLine
from benchgraph.options.problem import Problem
from benchgraph.results.result import CaseResult, FinishedCase, Result, Status

MEMORY_SHARE = 0.9  # share of the free memory for all workers; the rest is for this process and the system's caches
LEAST_MEMORY = 1 << 30  # bytes a worker may use at least: interpreter, compiler and a small case


def workers_of(line: CommandLine) -> int:
    """The number of worker processes for a command line; 0: run in this process. Raises UsageError for parallel measurements."""
    jobs = line.globals.jobs
    if jobs > 1 and any(p.globals.mode.is_timed for p in line.problems):
        what = "timed modes measure, and cases that run at once disturb each other's times"
        raise UsageError(what, where=f"--jobs={jobs}", fix="use --jobs=1, which isolates the cases all the same")
    if not jobs and any(p.globals.timeout for p in line.problems):
        return 1  # compiled code that does not return can only be ended together with its process
    return jobs


def share_of_threads(jobs: int) -> int:
    """Threads of compiled code in each of so many workers."""
    return max(current().cores // jobs, 1)


def run_isolated(problems: Sequence[Problem], bench: Bench, jobs: int) -> Iterator[FinishedCase]:
    """Run the problems in so many processes; yields each result as it arrives. No process outlives the iterator."""
    memory = memory_of_workers(bench)
    pool = WorkerPool(Setup(bench, replace(config(), threads=share_of_threads(jobs), compile_jobs=1)))
    out_of_memory = list[Problem]()
    try:
        for problem, done in pool.run(problems, jobs, memory and max(memory // jobs, LEAST_MEMORY)):
            if done.case.result.no_memory and jobs > 1:
                out_of_memory.append(problem)
            else:
                yield done
        pool.dismiss()
        for _, done in pool.run(out_of_memory, 1, memory):
            yield done
    finally:
        pool.dismiss()


def memory_of_workers(bench: Bench) -> int | None:
    """Bytes for all workers together; None if the system does not report free memory."""
    try:
        return int(bench.free_bytes() * MEMORY_SHARE)
    except OutOfMemory:
        return None


@dataclass
class WorkerPool:
    """Worker processes, started when needed. refusal: why the last start failed."""

    setup: Setup
    workers: list[Worker] = field(default_factory=list)
    refusal: str = ""

    def run(
        self, problems: Sequence[Problem], jobs: int, memory: int | None, share: int | None = None
    ) -> Iterator[tuple[Problem, FinishedCase]]:
        """Run the problems on so many workers, each of which may allocate so many bytes. share: what a case may need by its estimate."""
        todo = deque(problems)
        while busy := self._hand_out(todo, jobs, memory, share):
            for worker in _ready_workers(busy):
                problem = worker.problem
                if problem and (done := self._handle(worker)):
                    yield problem, done
                elif problem and not worker.is_alive:
                    todo.appendleft(problem)
        for problem in todo:
            why = f"no worker process could be started: {self.refusal}; end other processes, or use a lower --jobs"
            yield problem, FinishedCase(CaseResult(problem.index, problem.repro, 0.0, Result(Status.FAILED, why)))

    def dismiss(self) -> None:
        for worker in self.workers:
            worker.close()
        self.workers.clear()

    def _hand_out(self, todo: deque[Problem], jobs: int, memory: int | None, share: int | None) -> list[Worker]:
        """Give a case to every worker that has none. Returns those that have one now."""
        idle = [w for w in self.workers if not w.problem]
        while todo and (idle or len(self.workers) < jobs):
            if not idle:
                try:
                    self.workers += (idle := [Worker(self.setup)])
                except OSError as bad:  # the others continue, and the start is retried when one of them ends
                    self.refusal = bad.strerror or str(bad)
                    remark(f"no worker process can be started ({self.refusal}): cases run in {len(self.workers)} of {jobs}")
                    break
            begin_item(todo[0].description)
            idle.pop().give(todo.popleft(), memory, share)
        return [w for w in self.workers if w.problem]

    def _handle(self, worker: Worker) -> FinishedCase | None:
        """A worker's next message, or its timeout. None if there is no result: its case began, or will run elsewhere."""
        try:
            case = worker.receive() if worker.pipe.poll() else worker.expire()
        except ChildLost as lost:
            case = worker.died(lost)
        done = FinishedCase(case, *worker.printed()) if case else None
        if not worker.is_alive:
            self.workers.remove(worker)
            worker.close()
        return done


def _ready_workers(busy: list[Worker]) -> list[Worker]:
    """Wait for messages or timeouts of workers; returns these workers."""
    soonest = min(w.deadline for w in busy)
    ready = wait([w.pipe for w in busy], None if soonest == NEVER else max(soonest - time.monotonic(), 0.0))
    return [w for w in busy if w.pipe in ready or w.deadline <= time.monotonic()]
