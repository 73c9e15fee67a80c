"""Compiles several partitions in parallel: in this process, and in worker processes that are started if that pays (compile_worker.py).

Threads would gain nothing: llvmlite admits one at a time to LLVM, and Python's lock covers the rest.

A worker compiles and sends the object file; this process links it, stores it in the disk cache, and logs the compilation, in the order of
the partitions. What no worker compiled, because it died or there is an error to raise, this process compiles itself, so errors are those of
`compile_partition`. It compiles everything itself with one thread or one partition, if all others are on disk, if stages are printed or
dumped, while another thread uses the workers, while starting them does not pay (WORTH), and until they have started. Only code that is
about to measure waits for their start (`settle`).
"""

from __future__ import annotations

import atexit
import os
import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from math import ceil
from multiprocessing.connection import wait
from typing import TypeAlias

from benchgraph.compile import Order, compile_partition, named, order
from benchgraph.core.child_process import ChildLost
from benchgraph.core.config import config
from benchgraph.core.errors import BenchgraphError
from benchgraph.core.gc_pause import gc_paused
from benchgraph.core.layout import LAYOUTS
from benchgraph.core.progress import report_progress
from benchgraph.core.record import is_recorded
from benchgraph.core.remarks import remark
from benchgraph.library.compile_worker import Answer, Batch, Ready, State, Tickets, Worker
from benchgraph.machine.target import Target, current
from benchgraph.partition.ir import Partition
from benchgraph.runtime.disk_cache import store
from benchgraph.runtime.executable import Executable

# Partitions compiled so far, in graphs of several, per started worker (BENCHGRAPH_COMPILE_JOBS=N starts all at once). So starts never cost
# more than the compilations, and happen only for CPUs that are idle by the load average (docs/measurements/compile-jobs.md).
WORTH = 16
SILENCE_S = 120.0  # timeout of workers: far above the time of the largest partition, or of a start on a busy machine

Executables: TypeAlias = dict[int, Executable]  # by position among the orders


def compile_partitions(partitions: Sequence[Partition], target: Target | None = None) -> Iterator[Executable]:
    """The executables, in order. Partitions that are equal but for ids share one.

    Raises the errors of compile_partition, for the first partition that has one, in its place. compile_s of an executable: the time to
    compile it, in whichever process, and to link it; 0 for one that shares another's.
    """
    is_shown = config().shows_stages or is_recorded()  # of every partition, also of equal ones
    jobs = config().compile_jobs or (target or current()).cores
    orders = [] if is_shown else _orders(partitions, target)
    distinct, given = list(dict.fromkeys(orders)), set[Order]()
    together = jobs > 1 and len(distinct) > 1
    made = _compiled_in_parallel(distinct, jobs) if together else {}
    for done, o in enumerate(orders):
        report_progress("compile", done, len(partitions))
        if o not in made:
            made[o] = (None if together else o.find()) or o.make()
        yield named(made[o], o.partition, took_s=0.0 if o in given else None)
        given.add(o)
    yield from (compile_partition(p, target) for p in islice(partitions, len(orders), None))


def _compiled_in_parallel(orders: Sequence[Order], jobs: int) -> dict[Order, Executable]:
    """The executables on disk, and of the others those that so many processes could compile."""
    made = {o: e for o in orders if (e := o.find())}
    missing = [o for o in orders if o not in made]
    if len(missing) > 1:
        made |= {missing[i]: e for i, e in worker_pool().make(missing, jobs).items()}
    return made


def settle() -> None:
    """Wait until workers have started, so that they do not disturb the following measurement."""
    if _pool is not None:
        _pool.settle()


def _orders(partitions: Sequence[Partition], target: Target | None) -> list[Order]:
    """Up to the first one that is refused."""
    orders = []
    for p in partitions:
        try:
            orders.append(order(p, target))
        except BenchgraphError:
            break
    return orders


class WorkerPool:
    """The workers of this process: none until they pay, then until its end. A thread that finds them in use does without.

    A worker that died is not replaced: if the system killed it for lack of memory, there is none for another.
    """

    def __init__(self) -> None:
        self.workers: list[Worker] = []
        self.tickets = Tickets()
        self._lost = self._asked = 0
        self._lock = threading.Lock()

    @gc_paused()
    def make(self, orders: Sequence[Order], jobs: int) -> Executables:
        """Compile the orders on so many processes, including this one. The caller compiles missing ones itself, in order."""
        executables: Executables = {}
        if not self._lock.acquire(blocking=False):
            return executables
        try:
            workers = self._workers_for(len(orders), jobs)
            while workers and len(executables) < len(orders):
                start = len(executables)
                compiled = _ParallelRun(self, workers, orders[start : start + Tickets.MOST]).work()
                executables |= {start + i: e for i, e in compiled.items()}
                if len(executables) < min(start + Tickets.MOST, len(orders)):
                    break
            return executables
        except BaseException:
            self.close()
            raise
        finally:
            self._lock.release()

    def settle(self) -> None:
        """Wait until workers have started."""
        with self._lock:
            _ParallelRun(self, list(self.workers), ()).settle()

    def _workers_for(self, orders: int, jobs: int) -> list[Worker]:
        """Workers for so many orders, started if that pays."""
        self._asked += orders
        wanted = min(jobs, orders) - 1
        worth = wanted if config().compile_jobs else min(wanted, self._asked // WORTH, _idle_cpus())
        try:
            while len(self.workers) < worth - self._lost:
                self.workers.append(Worker(self.tickets))
        except OSError as bad:
            self._lost = wanted
            remark(f"no process to compile in can be started ({bad.strerror or bad}): this one compiles alone")
        return self.workers[:wanted]

    def drop(self, worker: Worker, why: str) -> None:
        worker.kill()
        self.workers.remove(worker)
        self._lost += 1
        remark(f"a process that compiled partitions {why}: what it had is compiled by this one")

    def close(self) -> None:
        """End all workers."""
        for worker in self.workers:
            worker.kill()
        self.workers.clear()
        self.tickets.withdraw()

    def disown(self) -> None:
        """Drop all workers in a fork of their parent."""
        for worker in self.workers:
            worker.disown()
        self.tickets.close()


def _idle_cpus() -> int:
    """CPUs that were idle recently, by the load average. Without one, a worker would slow down this process."""
    try:
        return max(0, ceil((os.cpu_count() or 1) - os.getloadavg()[0]))
    except OSError:
        return os.cpu_count() or 1


class _ParallelRun:
    """Orders compiled by workers and this process, each by the one that draws its ticket. workers: without those that died."""

    def __init__(self, pool: WorkerPool, workers: list[Worker], orders: Sequence[Order]) -> None:
        self.pool, self.workers, self.orders = pool, workers, orders
        self.made: Executables = {}
        self.batch = _batch(orders)

    def work(self) -> Executables:
        """The executables but for those with errors, and for those after them."""
        self.pool.tickets.issue(len(self.orders))
        for worker in self.workers:
            if worker.state is State.free:
                worker.give(self.batch)
        self._receive(0.0)
        while (ticket := self.pool.tickets.draw()) is not None:
            self._compile(ticket, self.orders[ticket].make)
            self._receive(0.0)
        while any(worker.state is State.busy for worker in self.workers):
            self._receive(SILENCE_S)
        return self.made

    def settle(self) -> None:
        """Wait until all workers have started."""
        while any(worker.state is not State.free for worker in self.workers):
            self._receive(SILENCE_S)

    def _compile(self, ticket: int, make: Callable[[], Executable]) -> None:
        """After an error no compilation begins: all before it have begun, since tickets are drawn in order."""
        try:
            report_progress("compile", len(self.made), len(self.orders))
            self.made[ticket] = make()
        except Exception:
            self.pool.tickets.withdraw()

    def _receive(self, timeout: float) -> None:
        """Receive what workers sent; drop those that have been silent for `timeout` seconds, unless it is 0."""
        waiting = [worker for worker in self.workers if worker.state is not State.free]
        ready = wait([worker.pipe for worker in waiting], timeout)
        for worker in waiting:
            if worker.pipe in ready:
                self._handle(worker)
            elif timeout and not ready:
                self._drop(worker, f"was silent for {timeout:g} s")

    def _handle(self, worker: Worker) -> None:
        try:
            message = worker.receive()
        except ChildLost as lost:
            self._drop(worker, f"was killed by signal {lost.signal}" if lost.signal else str(lost))
            return
        if isinstance(message, Ready):
            if not message.is_same:
                self._drop(worker, "found other source files than this one has read")
            elif self.orders:
                worker.give(self.batch)
        elif isinstance(message, Answer):
            for text in message.remarks:
                remark(text)
            if message.made:
                self._compile(message.ticket, partial(self.orders[message.ticket].take, message.made, message.seconds))
            else:
                self.pool.tickets.withdraw()

    def _drop(self, worker: Worker, why: str) -> None:
        self.workers.remove(worker)
        self.pool.drop(worker, why)


def _batch(orders: Sequence[Order]) -> Batch:
    """A batch with our settings, for processes without our environment."""
    disk = store()
    settings = replace(config(), compile_jobs=1, cache_dir="off" if disk is None else str(disk.directory))
    return Batch(settings, LAYOUTS.all(), tuple(pickle.dumps(replace(o, cache_entry=None, work=())) for o in orders))


_pool: WorkerPool | None = None
_pool_lock = threading.Lock()


def worker_pool() -> WorkerPool:
    """The pool of this process."""
    global _pool
    with _pool_lock:
        if _pool is None:
            _pool = WorkerPool()
        return _pool


@atexit.register
def end_workers() -> None:
    """End all workers of this process."""
    if _pool is not None:
        _pool.close()


def _forked() -> None:
    global _pool, _pool_lock
    _pool_lock = threading.Lock()
    if _pool is not None:
        _pool.disown()
        _pool = None


os.register_at_fork(after_in_child=_forked)
