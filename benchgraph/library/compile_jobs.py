"""Several partitions compiled at once: by this process, and by others that are started when that pays (compile_worker.py).

Threads would gain nothing: llvmlite lets one at a time into LLVM, and Python holds its lock beside it.

A worker compiles and sends the object; this process links it, puts it on disk, and says in the log what was compiled, in the order of the
partitions. What a worker has not compiled, because it died or because there is an error to be raised, this process compiles itself, so
errors are those of `compile_partition`. It compiles everything itself with one thread or one partition, where all others are on disk,
where stages are shown or dumped (BENCHGRAPH_PRINT_AFTER, _DUMP_DIR, _DEBUG), while another thread has the workers, while their start is not
worth it (WORTH), and until they have started, which nobody waits for but who is about to measure (`settle`).
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
from benchgraph.core.child import Lost
from benchgraph.core.config import config
from benchgraph.core.errors import BenchgraphError
from benchgraph.core.layout import LAYOUTS
from benchgraph.core.record import is_recorded
from benchgraph.core.remarks import remark
from benchgraph.core.steps import tell
from benchgraph.core.target import Target, current
from benchgraph.core.undisturbed import undisturbed
from benchgraph.library.compile_worker import Answer, Batch, Ready, State, Tickets, Worker
from benchgraph.partition.ir import Partition
from benchgraph.runtime.disk import store
from benchgraph.runtime.executable import Executable

# Partitions that this process was asked for, in graphs of several, for every worker that it starts; BENCHGRAPH_COMPILE_JOBS=N starts all at
# once. A start takes 0.45 s of CPU time, a single op of MLP_2 or MHA_1 21 to 27 ms: so all starts together never cost more than what was
# asked for, and one worker no more than it could have saved by then. A graph that is compiled before its worker is ready gains nothing, nor
# does it wait. And only for CPUs that are idle by the load average, as make -l has it: on two CPUs that others kept busy the phase compile
# of `--mode=C --policy=one_op_each` took 1.1 s alone and 2.0 to 2.3 with a worker of its own (44 ops of mlp_2_int8 and mha_1_int8).
#
# Two CPUs of a Cascade Lake server at moments when nobody else used them, disk cache off, list(compile_partitions(...)) in turns by one
# process and by two. New processes that compile the single ops of mlp_1, mlp_2, mha_1, mha_2, mha_3 of inputs/graph/paper in int8, min and
# median of 3, s: after 15 ops 0.26 0.30 and 0.28 0.31, after 40 0.63 0.77 and 0.57 0.64, after all 97 1.78 2.42 and 1.28 1.53. With a
# worker that is ready, of 5, ms: MLP_2 in f32, 10 single ops 211 266 and 135 148, 5 partitions of post_ops 157 202 and 93 107; MHA_1, 7
# single ops 178 191 and 101 124, 5 of post_ops 167 174 and 110 127. What the partitions say they took adds up to an eighth more.
WORTH = 16
SILENCE_S = 120.0  # after which workers are given up: far above what the largest partition, or a start on a busy machine, takes

Made: TypeAlias = dict[int, Executable]  # by position among the orders


def compile_partitions(partitions: Sequence[Partition], target: Target | None = None) -> Iterator[Executable]:
    """The executables, in order; several processes make them. Partitions that are alike but for ids share one.

    Raises what compile_partition does, in the place of the first partition that it does it for. compile_s of an executable is the time
    that it took whoever compiled it, others at work beside him or not, and the time to link it; 0 for one that shares what another took.
    """
    is_shown = config().shows_stages or is_recorded()  # of every partition, what it is like or not
    jobs = config().compile_jobs or (target or current()).cores
    orders = [] if is_shown else _orders(partitions, target)
    distinct, given = list(dict.fromkeys(orders)), set[Order]()
    together = jobs > 1 and len(distinct) > 1
    made = _made_together(distinct, jobs) if together else {}
    for done, o in enumerate(orders):
        tell("compile", done, len(partitions))
        if o not in made:
            made[o] = (None if together else o.find()) or o.make()
        yield named(made[o], o.partition, took_s=0.0 if o in given else None)
        given.add(o)
    yield from (compile_partition(p, target) for p in islice(partitions, len(orders), None))


def _made_together(orders: Sequence[Order], jobs: int) -> dict[Order, Executable]:
    """Those that the disk has, and of the others what so many processes could make."""
    made = {o: e for o in orders if (e := o.find())}
    missing = [o for o in orders if o not in made]
    if len(missing) > 1:
        made |= {missing[i]: e for i, e in crew().make(missing, jobs).items()}
    return made


def settle() -> None:
    """Wait for processes that are starting to compile for this one, so that they do not disturb what is measured next."""
    if _crew is not None:
        _crew.settle()


def _orders(partitions: Sequence[Partition], target: Target | None) -> list[Order]:
    """Up to the first one that is refused."""
    found = []
    for p in partitions:
        try:
            found.append(order(p, target))
        except BenchgraphError:
            break
    return found


class Crew:
    """The workers of this process: none until they are worth it, then for its life. A thread that finds them taken goes without.

    One that is lost is not replaced: where the system has killed it for its memory, there is none for another.
    """

    def __init__(self) -> None:
        self.workers: list[Worker] = []
        self.tickets = Tickets()
        self._lost = self._asked = 0
        self._lock = threading.Lock()

    @undisturbed()
    def make(self, orders: Sequence[Order], jobs: int) -> Made:
        """Compile them on so many processes, this one included. What is missing is for the caller to compile, in order."""
        made: Made = {}
        if not self._lock.acquire(blocking=False):
            return made
        try:
            staff = self._staff(len(orders), jobs)
            while staff and len(made) < len(orders):
                start = len(made)
                found = _Shift(self, staff, orders[start : start + Tickets.MOST]).work()
                made |= {start + i: e for i, e in found.items()}
                if len(made) < min(start + Tickets.MOST, len(orders)):
                    break
            return made
        except BaseException:
            self.close()
            raise
        finally:
            self._lock.release()

    def settle(self) -> None:
        """Wait for workers that are starting."""
        with self._lock:
            _Shift(self, list(self.workers), ()).settle()

    def _staff(self, orders: int, jobs: int) -> list[Worker]:
        """Workers for so many orders, started if they are worth it and not there."""
        self._asked += orders
        most = min(jobs, orders) - 1
        worth = most if config().compile_jobs else min(most, self._asked // WORTH, _idle_cpus())
        try:
            while len(self.workers) < worth - self._lost:
                self.workers.append(Worker(self.tickets))
        except OSError as bad:
            self._lost = most
            remark(f"no process to compile in can be started ({bad.strerror or bad}): this one compiles alone")
        return self.workers[:most]

    def lose(self, worker: Worker, why: str) -> None:
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
        """Leave all to the process that this one is a fork of."""
        for worker in self.workers:
            worker.disown()
        self.tickets.close()


def _idle_cpus() -> int:
    """CPUs that had nothing to do of late, as far as the system tells. Where there are none, a worker takes its time from this process."""
    try:
        return max(0, ceil((os.cpu_count() or 1) - os.getloadavg()[0]))
    except OSError:
        return os.cpu_count() or 1


class _Shift:
    """Orders that workers and this process compile, each what its tickets say. staff: loses those that are lost."""

    def __init__(self, crew: Crew, staff: list[Worker], orders: Sequence[Order]) -> None:
        self.crew, self.staff, self.orders = crew, staff, orders
        self.made: Made = {}
        self.batch = _batch(orders)

    def work(self) -> Made:
        """All, but what could not be compiled, and what comes after that."""
        self.crew.tickets.issue(len(self.orders))
        for worker in self.staff:
            if worker.state is State.free:
                worker.give(self.batch)
        self._hear(0.0)
        while (ticket := self.crew.tickets.draw()) is not None:
            self._keep(ticket, self.orders[ticket].make)
            self._hear(0.0)
        while any(worker.state is State.busy for worker in self.staff):
            self._hear(SILENCE_S)
        return self.made

    def settle(self) -> None:
        """Until nobody is starting."""
        while any(worker.state is not State.free for worker in self.staff):
            self._hear(SILENCE_S)

    def _keep(self, ticket: int, make: Callable[[], Executable]) -> None:
        """After an error no more is begun: all that comes before has been, since tickets are drawn in order."""
        try:
            tell("compile", len(self.made), len(self.orders))
            self.made[ticket] = make()
        except Exception:
            self.crew.tickets.withdraw()

    def _hear(self, timeout: float) -> None:
        """What workers have to say; give up those who have said nothing for so long, in seconds, unless it is 0."""
        unheard = [worker for worker in self.staff if worker.state is not State.free]
        heard = wait([worker.pipe for worker in unheard], timeout)
        for worker in unheard:
            if worker.pipe in heard:
                self._attend(worker)
            elif timeout and not heard:
                self._lose(worker, f"was silent for {timeout:g} s")

    def _attend(self, worker: Worker) -> None:
        try:
            said = worker.receive()
        except Lost as lost:
            self._lose(worker, f"was killed by signal {lost.signal}" if lost.signal else str(lost))
            return
        if isinstance(said, Ready):
            if not said.is_same:
                self._lose(worker, "found other source files than this one has read")
            elif self.orders:
                worker.give(self.batch)
        elif isinstance(said, Answer):
            for text in said.remarks:
                remark(text)
            if said.made:
                self._keep(said.ticket, partial(self.orders[said.ticket].take, said.made, said.seconds))
            else:
                self.crew.tickets.withdraw()

    def _lose(self, worker: Worker, why: str) -> None:
        self.staff.remove(worker)
        self.crew.lose(worker, why)


def _batch(orders: Sequence[Order]) -> Batch:
    """For processes without our environment: the directory that the disk cache has for us is named."""
    disk = store()
    settings = replace(config(), compile_jobs=1, cache_dir="off" if disk is None else str(disk.directory))
    return Batch(settings, LAYOUTS.all(), tuple(pickle.dumps(replace(o, slot=None, work=())) for o in orders))


_crew: Crew | None = None
_founding = threading.Lock()


def crew() -> Crew:
    """This process's."""
    global _crew
    with _founding:
        if _crew is None:
            _crew = Crew()
        return _crew


@atexit.register
def dismiss() -> None:
    """End all workers of this process."""
    if _crew is not None:
        _crew.close()


def _forked() -> None:
    global _crew, _founding
    _founding = threading.Lock()
    if _crew is not None:
        _crew.disown()
        _crew = None


os.register_at_fork(after_in_child=_forked)
