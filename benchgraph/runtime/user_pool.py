"""Parallel regions on a thread pool of the user's, in Python.

The same machine code is linked a second time with `benchgraph_parallel` bound to a callback into Python, which cuts the region into as
many shares as the pool has threads, but no more than the code was compiled for, and hands them to the pool. A share is compiled code that
runs without the GIL, so the pool's threads do run at once. What a stream without a pool executes knows nothing of this. A share costs some
microseconds more than on our own threads.

An exception cannot pass through compiled code. So the first failure is kept, later regions of the same call do nothing, and the failure is
raised when the compiled function returns. A region never ends while a share of it still runs, whatever the pool did.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from benchgraph.codegen.emit import PARALLEL
from benchgraph.core import forks
from benchgraph.core.errors import ExecutionFailed
from benchgraph.runtime.code import link
from benchgraph.runtime.executable import Executable

_REGION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
_BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class ThreadPool(Protocol):
    """What a stream asks of a user's threads; oneDNN's threadpool interface in Python."""

    @property
    def num_threads(self) -> int:
        """How many threads work at once, and so how many tasks a parallel_for has at most; 0 leaves the work to the caller."""

    def parallel_for(self, n: int, task: Callable[[int], None]) -> None:
        """Call task(0) to task(n - 1), each once, on any threads, and return when all are done. What a task raises is to be raised."""


class _Region:
    """One parallel loop: which shares have begun, how many run, and how many are done."""

    def __init__(self, run: Callable[[int], None], n: int) -> None:
        self._run, self._begun, self._running, self._is_closed = run, [False] * n, 0, False
        self._done = 0
        self._changed = threading.Condition()

    def task(self, i: int) -> None:
        with self._changed:
            if self._is_closed:
                raise RuntimeError(f"task {i} was called after parallel_for had returned")
            if not 0 <= i < len(self._begun) or self._begun[i]:
                raise RuntimeError(f"task {i} was called twice, or is none of the {len(self._begun)}")
            self._begun[i] = True
            self._running += 1
        try:
            self._run(i)
            with self._changed:
                self._done += 1
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def close(self) -> int:
        """Let no share begin any more, and wait for those that run. Returns how many were not done."""
        with self._changed:
            self._is_closed = True
            self._changed.wait_for(lambda: not self._running)
        return len(self._begun) - self._done


class _Regions:
    """The parallel regions of one call of compiled code. threads: how many shares may run at once, each in an arena of its own."""

    def __init__(self, pool: ThreadPool, threads: int) -> None:
        self.pool, self.threads = pool, threads
        self.failure: BaseException | None = None

    def run(self, body: int, ctx: int, tasks: int) -> None:
        if self.failure is None and tasks > 0:
            try:
                self._run(_BODY(body), ctx, tasks)
            except BaseException as bad:  # of any kind: it must not reach compiled code
                self.failure = bad

    def _run(self, body: Callable[[int, int, int, int], None], ctx: int, tasks: int) -> None:
        given = self.pool.num_threads
        if not isinstance(given, Integral) or given < 0:
            raise ValueError(f"num_threads is {given!r} now")
        n = min(tasks, self.threads, int(given))
        if n <= 1:  # a pool that has no threads (any more) leaves the work to its caller
            body(ctx, 0, tasks, 0)
            return
        region = _Region(lambda i: body(ctx, i * tasks // n, (i + 1) * tasks // n, i), n)
        try:
            self.pool.parallel_for(n, region.task)
        finally:
            left = region.close()
        if left:
            raise RuntimeError(f"parallel_for returned after {n - left} of {n} tasks")


class _Here(threading.local):
    """This thread's pool, while it executes on one, and the regions of the compiled function it is in."""

    pool: ThreadPool | None = None
    regions: _Regions | None = None


_here = _Here()


def _enter(body: int, ctx: int, tasks: int) -> None:
    """benchgraph_parallel, called by compiled code; by a share itself, on a thread of the pool's, it is that share's work."""
    if _here.regions is not None:
        _here.regions.run(body, ctx, tasks)
    elif tasks > 0:
        _BODY(body)(ctx, 0, tasks, 0)


_ENTER = _REGION(_enter)  # for the life of the process, as the code that calls it


class _OnPool(Executable):
    """An executable whose functions run on the pool of `on_pool` and raise what went wrong there."""

    def __init__(self, origin: Executable) -> None:
        threads = origin.code.threads
        address = ctypes.cast(_ENTER, ctypes.c_void_p).value or 0
        code = link(origin.code.units, origin.code.isa, {PARALLEL: address}, threads)
        super().__init__(code, origin.module, origin.signature, origin.compile_s, computes=origin.computes)
        self.main = _guarded(self.main, threads)
        self._init = None if self._init is None else _guarded(self._init, threads)


def _guarded(entry: Any, threads: int) -> Callable[[Any], None]:
    def call(argument: Any) -> None:
        if _here.pool is None:
            raise RuntimeError("code for a user's thread pool was called outside of on_pool")
        outer, _here.regions = _here.regions, _Regions(_here.pool, threads)
        try:
            entry(argument)
            failure = _here.regions.failure
        finally:
            _here.regions = outer
        if isinstance(failure, Exception):
            what = f"the stream's thread pool failed: {type(failure).__name__}: {failure}"
            raise ExecutionFailed(what, where="execute", fix="outputs are incomplete; mend the pool and execute again") from failure
        if failure is not None:
            raise failure  # KeyboardInterrupt and its like

    return call


_loaded: WeakKeyDictionary[Executable, Executable] = WeakKeyDictionary()
_loading = forks.lock()


def for_pool(executable: Executable) -> Executable:
    """The same code for users' pools, to be bound as usual and called inside `on_pool`. Linked once, in about a millisecond."""
    with _loading:
        found = _loaded.get(executable)
        if found is None:
            found = _loaded[executable] = _OnPool(executable)
        return found


@contextmanager
def on_pool(pool: ThreadPool) -> Iterator[None]:
    """Inside the with block, this thread's calls of code from `for_pool` use this pool."""
    outer, _here.pool = _here.pool, pool
    try:
        yield
    finally:
        _here.pool = outer
