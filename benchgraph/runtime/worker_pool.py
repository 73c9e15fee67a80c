"""Worker threads: fork and join of parallel regions without any library.

- The loop of a worker is LLVM IR, which a Python thread enters through ctypes and leaves at shutdown, so no region waits for the GIL.
- Each worker has a mailbox on its own cache lines. The caller writes the region, increments the ticket of each worker that it needs, runs
  share 0 itself and waits until `pending` is 0. Only then may the region be written again, so a late worker never sees part of a newer one.
- A waiting thread spins for about SPIN_US, then sets its `sleeping` flag and waits on its semaphore, which leaves its processor to others.
  Either side may reset the flag: the one that does decides whether there is a post to wait for. A delayed thread may reset the flag of a
  later sleep and wake its thread too early, so a worker checks its ticket again, a caller `pending`.
- A second caller, or a nested region, finds the pool locked and runs its region inline, as thread 0. Shutdown keeps the lock, so that it
  waits for a running region and later ones run inline.
- The code is compiled without optimisation, which saves 11 ms; a region takes as long, since it is all atomic operations.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
import weakref
from contextlib import suppress
from typing import Any

import numpy as np

from benchgraph.codegen.intrinsics import FAST_COMPILE
from benchgraph.core.errors import NO_THREAD, InvalidArguments
from benchgraph.machine.target import ISAS
from benchgraph.runtime.code import Code, load
from benchgraph.runtime.memory import aligned

SPIN_US = 50  # waking up by the semaphore takes 5 to 50 us, so spinning pays for shorter gaps
_HEAD_BYTES = 256  # the region at 0, i64 at _SPINS_AT and _THREADS_AT, the caller's box at 128: pending in place of a ticket
_SPINS_AT, _THREADS_AT = 64, 72
_MEMORY = "benchgraph_pool"
_BOX_BYTES = 128  # ticket i64 at 0, sleeping i32 at 8, sem_t at 16 (32 bytes in glibc and musl)
_REGION = "{ptr, ptr, i64, i64, i32, i32}"  # body, ctx, tasks, shares, lock, stop
_BOXES = f"{{[{_HEAD_BYTES - _BOX_BYTES} x i8], [0 x [{_BOX_BYTES} x i8]]}}"  # box 0 would be the caller's

_POOL = """
@{pool} = external global i8
declare i32 @sem_wait(ptr)
declare i32 @sem_post(ptr)
declare i32 @sched_yield()
declare i64 @llvm.smin.i64(i64, i64)
{pause_declaration}

define internal void @share(ptr %pool, i64 %id) {{
  %body = load ptr, ptr %pool
  %ctx.at = getelementptr {region}, ptr %pool, i64 0, i32 1
  %ctx = load ptr, ptr %ctx.at
  %tasks.at = getelementptr {region}, ptr %pool, i64 0, i32 2
  %tasks = load i64, ptr %tasks.at
  %shares.at = getelementptr {region}, ptr %pool, i64 0, i32 3
  %shares = load i64, ptr %shares.at
  %next = add i64 %id, 1
  %first = mul i64 %id, %tasks
  %last = mul i64 %next, %tasks
  %begin = sdiv i64 %first, %shares
  %end = sdiv i64 %last, %shares
  call void %body(ptr %ctx, i64 %begin, i64 %end, i64 %id)
  ret void
}}

define void @worker(ptr %pool, i64 %id, i64 %spins) {{
entry:
  %box = getelementptr {boxes}, ptr %pool, i64 0, i32 1, i64 %id
  %sleeping = getelementptr i8, ptr %box, i64 8
  %semaphore = getelementptr i8, ptr %box, i64 16
  %pending = getelementptr i8, ptr %pool, i64 128
  %stop.at = getelementptr {region}, ptr %pool, i64 0, i32 5
  br label %idle
idle:
  %seen = phi i64 [0, %entry], [%ticket, %work], [%ticket, %tell]
  br label %spin
spin:
  %n = phi i64 [0, %idle], [%n.next, %again], [0, %roused]
  %polled = load atomic i64, ptr %box acquire, align 8
  %called = icmp ne i64 %polled, %seen
  br i1 %called, label %wake, label %again
again:
  {pause}
  %n.next = add i64 %n, 1
  %patient = icmp slt i64 %n.next, %spins
  br i1 %patient, label %spin, label %doze
doze:
  store atomic i32 1, ptr %sleeping seq_cst, align 4
  %last = load atomic i64, ptr %box seq_cst, align 8
  %late = icmp ne i64 %last, %seen
  br i1 %late, label %retract, label %sleep
retract:
  %mine = atomicrmw xchg ptr %sleeping, i32 0 seq_cst
  %unposted = icmp eq i32 %mine, 1
  br i1 %unposted, label %wake, label %sleep
sleep:
  %rc = call i32 @sem_wait(ptr %semaphore)
  %interrupted = icmp ne i32 %rc, 0
  br i1 %interrupted, label %sleep, label %roused
roused:
  %now = load atomic i64, ptr %box acquire, align 8
  %early = icmp eq i64 %now, %seen
  br i1 %early, label %spin, label %wake
wake:
  %ticket = load atomic i64, ptr %box acquire, align 8
  %stop = load atomic i32, ptr %stop.at acquire, align 4
  %leave = icmp ne i32 %stop, 0
  br i1 %leave, label %exit, label %work
work:
  call void @share(ptr %pool, i64 %id)
  %left = atomicrmw sub ptr %pending, i64 1 seq_cst
  %is.last = icmp eq i64 %left, 1
  br i1 %is.last, label %tell, label %idle
tell:
  call void @rouse(ptr %pending)
  br label %idle
exit:
  ret void
}}

define internal void @rouse(ptr %box) {{
  %sleeping = getelementptr i8, ptr %box, i64 8
  %look = load atomic i32, ptr %sleeping seq_cst, align 4
  %maybe = icmp eq i32 %look, 1
  br i1 %maybe, label %take, label %done
take:
  %was = atomicrmw xchg ptr %sleeping, i32 0 seq_cst
  %asleep = icmp eq i32 %was, 1
  br i1 %asleep, label %post, label %done
post:
  %semaphore = getelementptr i8, ptr %box, i64 16
  call i32 @sem_post(ptr %semaphore)
  br label %done
done:
  ret void
}}

define void @stop(ptr %pool) {{
entry:
  %stop.at = getelementptr {region}, ptr %pool, i64 0, i32 5
  %lock = getelementptr {region}, ptr %pool, i64 0, i32 4
  %threads.at = getelementptr i8, ptr %pool, i64 {threads_at}
  %threads = load i64, ptr %threads.at
  br label %try
try:
  %n = phi i64 [0, %entry], [%n.next, %again]
  %locked = cmpxchg ptr %lock, i32 0, i32 1 acquire monotonic
  %mine = extractvalue {{i32, i1}} %locked, 1
  br i1 %mine, label %free, label %wait
wait:
  {pause}
  %often = and i64 %n, 4095
  %long = icmp eq i64 %often, 4095
  br i1 %long, label %yield, label %again
yield:
  call i32 @sched_yield()
  br label %again
again:
  %n.next = add i64 %n, 1
  br label %try
free:
  store atomic i32 1, ptr %stop.at seq_cst, align 4
  br label %each
each:
  %id = phi i64 [1, %free], [%next, %each]
  %box = getelementptr {boxes}, ptr %pool, i64 0, i32 1, i64 %id
  %ticket = atomicrmw add ptr %box, i64 1 seq_cst
  call void @rouse(ptr %box)
  %next = add i64 %id, 1
  %more = icmp slt i64 %next, %threads
  br i1 %more, label %each, label %done
done:
  ret void
}}

define void @spin_for(i64 %times) {{
entry:
  br label %loop
loop:
  %n = phi i64 [0, %entry], [%next, %loop]
  {pause}
  %next = add i64 %n, 1
  %more = icmp slt i64 %next, %times
  br i1 %more, label %loop, label %done
done:
  ret void
}}

define void @{name}(ptr %body, ptr %ctx, i64 %tasks) {{
entry:
  %lock = getelementptr {region}, ptr @{pool}, i64 0, i32 4
  %pending = getelementptr i8, ptr @{pool}, i64 128
  %sleeping = getelementptr i8, ptr %pending, i64 8
  %semaphore = getelementptr i8, ptr %pending, i64 16
  %spins.at = getelementptr i8, ptr @{pool}, i64 {spins_at}
  %threads.at = getelementptr i8, ptr @{pool}, i64 {threads_at}
  %many = icmp sgt i64 %tasks, 1
  br i1 %many, label %try, label %few
try:
  %locked = cmpxchg ptr %lock, i32 0, i32 1 acquire monotonic
  %mine = extractvalue {{i32, i1}} %locked, 1
  br i1 %mine, label %fork, label %alone
fork:
  %threads = load i64, ptr %threads.at
  %shares = call i64 @llvm.smin.i64(i64 %tasks, i64 %threads)
  store ptr %body, ptr @{pool}
  %ctx.at = getelementptr {region}, ptr @{pool}, i64 0, i32 1
  store ptr %ctx, ptr %ctx.at
  %tasks.at = getelementptr {region}, ptr @{pool}, i64 0, i32 2
  store i64 %tasks, ptr %tasks.at
  %shares.at = getelementptr {region}, ptr @{pool}, i64 0, i32 3
  store i64 %shares, ptr %shares.at
  %workers = sub i64 %shares, 1
  store atomic i64 %workers, ptr %pending release, align 8
  br label %each
each:
  %id = phi i64 [1, %fork], [%next, %each]
  %box = getelementptr {boxes}, ptr @{pool}, i64 0, i32 1, i64 %id
  %ticket = atomicrmw add ptr %box, i64 1 seq_cst
  call void @rouse(ptr %box)
  %next = add i64 %id, 1
  %more = icmp slt i64 %next, %shares
  br i1 %more, label %each, label %own
own:
  call void @share(ptr @{pool}, i64 0)
  br label %join
join:
  %n = phi i64 [0, %own], [%n.next, %wait], [0, %sleep]
  %left = load atomic i64, ptr %pending acquire, align 8
  %over = icmp eq i64 %left, 0
  br i1 %over, label %unlock, label %wait
wait:
  {pause}
  %n.next = add i64 %n, 1
  %spins = load i64, ptr %spins.at
  %patient = icmp slt i64 %n.next, %spins
  br i1 %patient, label %join, label %doze
doze:
  store atomic i32 1, ptr %sleeping seq_cst, align 4
  %last = load atomic i64, ptr %pending seq_cst, align 8
  %late = icmp eq i64 %last, 0
  br i1 %late, label %retract, label %sleep
retract:
  %own.nap = atomicrmw xchg ptr %sleeping, i32 0 seq_cst
  %unposted = icmp eq i32 %own.nap, 1
  br i1 %unposted, label %unlock, label %sleep
sleep:
  %rc = call i32 @sem_wait(ptr %semaphore)
  br label %join
unlock:
  store atomic i32 0, ptr %lock release, align 4
  ret void
few:
  %any = icmp eq i64 %tasks, 1
  br i1 %any, label %alone, label %done
alone:
  call void %body(ptr %ctx, i64 0, i64 %tasks, i64 0)
  br label %done
done:
  ret void
}}
"""


def _pause() -> tuple[str, str]:
    """(declaration, instruction) of the processor's hint for spin loops; empty where LLVM has no name for it."""
    if os.uname().machine not in ("x86_64", "amd64"):
        return "", ""
    return "declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"


def too_many_threads(threads: int, most: int) -> InvalidArguments:
    """The error if only `most` threads can be started, this one included."""
    what = f"this system lets only {most} of {threads} threads start"
    return InvalidArguments(what, where="thread runtime", fix=f"use --threads={most} or BENCHGRAPH_THREADS={most}, or fewer")


class Pool:
    """`threads - 1` workers, and the compiled function `name` that runs regions on them. Lives as long as the process.

    Workers start with the pool, stop at exit, and start again in the child of a fork. A spare pool starts them in such a child only.
    """

    def __init__(self, threads: int, name: str, *, is_spare: bool = False) -> None:
        """Raises InvalidArguments if so many threads cannot be started."""
        self._threads = threads
        self._memory = aligned(_HEAD_BYTES + _BOX_BYTES * (threads - 1))
        declaration, pause = _pause()
        text = _POOL.format(
            name=name,
            pool=_MEMORY,
            region=_REGION,
            boxes=_BOXES,
            spins_at=_SPINS_AT,
            threads_at=_THREADS_AT,
            pause_declaration=declaration,
            pause=pause,
        )
        self.code: Code = load(text, ISAS["portable"], {_MEMORY: self._memory.ctypes.data}, opt=FAST_COMPILE)
        self._worker = self._function("worker", ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        self._stop = self._function("stop", ctypes.c_void_p)
        self._spins = self._calibrate()
        self._workers: list[threading.Thread] = []
        if not is_spare and (started := self._start()) < threads:
            self.close()
            raise too_many_threads(threads, started)
        atexit.register(self.close)
        _pools.add(self)

    def close(self) -> None:
        """Stop the workers, once a running region is done; later regions run inline. Idempotent."""
        if self._workers:
            self._stop(self._memory.ctypes.data)
        for worker in self._workers:
            worker.join()
        self._workers = []

    def _function(self, name: str, *args: Any) -> Any:
        return ctypes.CFUNCTYPE(None, *args)(self.code.address(name))

    def _calibrate(self) -> int:
        """How many pauses take SPIN_US (one takes 40 to 140 cycles, depending on the processor)."""
        spin, times = self._function("spin_for", ctypes.c_int64), 2000
        start = time.perf_counter_ns()
        spin(times)
        return max(1, times * SPIN_US * 1000 // max(1, time.perf_counter_ns() - start))

    def _start(self) -> int:
        """Start as many workers as the system allows. Returns how many threads regions have now, their caller included."""
        self._memory[:] = np.uint8(0)
        self._set(_SPINS_AT, self._spins)
        libc = ctypes.CDLL(None)
        for id in range(self._threads):
            semaphore = self._memory.ctypes.data + _HEAD_BYTES + _BOX_BYTES * (id - 1) + 16
            libc.sem_init(ctypes.c_void_p(semaphore), 0, 0)
        self._workers = []
        with suppress(*NO_THREAD):
            for id in range(1, self._threads):
                args = (self._memory.ctypes.data, id, self._spins)
                worker = threading.Thread(target=self._worker, args=args, name=f"benchgraph-{id}", daemon=True)
                worker.start()
                self._workers.append(worker)
        self._set(_THREADS_AT, started := len(self._workers) + 1)
        return started

    def _set(self, at: int, number: int) -> None:
        self._memory[at : at + 8].view(np.int64)[0] = number


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _after_fork() -> None:
    """A forked child has the pool's memory but none of its threads, and one of them may have held the lock."""
    for pool in list(_pools):
        pool._start()


os.register_at_fork(after_in_child=_after_fork)
