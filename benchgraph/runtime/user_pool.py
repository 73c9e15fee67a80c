"""Parallel regions on a user's thread pool, in Python.

The same machine code is linked a second time with `benchgraph_parallel` bound to a callback into Python, which splits the region into at
most as many shares as the pool has threads and the code was compiled for. A share is compiled code that runs without the GIL, so shares run
in parallel.

An exception cannot pass through compiled code. So the first failure is kept, later regions of the same call do nothing, and the failure is
raised when the compiled function returns. A region never ends while one of its shares runs, whatever the pool does.
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
    """The interface of a user's pool; oneDNN's threadpool interface in Python."""

    @property
    def num_threads(self) -> int:
        """The number of threads, which limits the tasks of a parallel_for; with 0 the caller does the work."""

    def parallel_for(self, n: int, task: Callable[[int], None]) -> None:
        """Call task(0) to task(n - 1), each once, on any threads, and return when all are done. Exceptions of tasks are raised."""


class _Region:
    """One parallel loop: which of its shares have begun, how many run, and how many are done."""

    def __init__(self, run: Callable[[int], None], n: int) -> None:
        self._run, self._has_begun, self._running, self._is_closed = run, [False] * n, 0, False
        self._done = 0
        self._changed = threading.Condition()

    def task(self, i: int) -> None:
        with self._changed:
            if self._is_closed:
                raise RuntimeError(f"task {i} was called after parallel_for had returned")
            if not 0 <= i < len(self._has_begun) or self._has_begun[i]:
                raise RuntimeError(f"task {i} was called twice, or is none of the {len(self._has_begun)}")
            self._has_begun[i] = True
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
        """Let no more shares begin, and wait for those that run. Returns how many are not done."""
        with self._changed:
            self._is_closed = True
            self._changed.wait_for(lambda: not self._running)
        return len(self._has_begun) - self._done


class _Regions:
    """The parallel regions of one call of compiled code. threads: the limit of shares, each of which needs an arena."""

    def __init__(self, pool: ThreadPool, threads: int) -> None:
        self.pool, self.threads = pool, threads
        self.failure: BaseException | None = None

    def run(self, body: int, ctx: int, tasks: int) -> None:
        if self.failure is None and tasks > 0:
            try:
                self._run(_BODY(body), ctx, tasks)
            except BaseException as bad:  # none may reach compiled code
                self.failure = bad

    def _run(self, body: Callable[[int, int, int, int], None], ctx: int, tasks: int) -> None:
        num_threads = self.pool.num_threads
        if not isinstance(num_threads, Integral) or num_threads < 0:
            raise ValueError(f"num_threads is {num_threads!r} now")
        n = min(tasks, self.threads, int(num_threads))
        if n <= 1:  # a pool without threads
            body(ctx, 0, tasks, 0)
            return
        region = _Region(lambda i: body(ctx, i * tasks // n, (i + 1) * tasks // n, i), n)
        try:
            self.pool.parallel_for(n, region.task)
        finally:
            left = region.close()
        if left:
            raise RuntimeError(f"parallel_for returned after {n - left} of {n} tasks")


class _ThreadState(threading.local):
    """The pool that this thread executes on, and the regions of the compiled function that it is in."""

    pool: ThreadPool | None = None
    regions: _Regions | None = None


_thread = _ThreadState()


def _enter(body: int, ctx: int, tasks: int) -> None:
    """benchgraph_parallel. A region inside a share, on a thread of the pool, runs serially."""
    if _thread.regions is not None:
        _thread.regions.run(body, ctx, tasks)
    elif tasks > 0:
        _BODY(body)(ctx, 0, tasks, 0)


_ENTER = _REGION(_enter)  # lives as long as the code that calls it


class _OnPool(Executable):
    """An executable whose functions run on the pool of `on_pool` and raise its failures."""

    def __init__(self, origin: Executable) -> None:
        threads = origin.code.threads
        address = ctypes.cast(_ENTER, ctypes.c_void_p).value or 0
        code = link(origin.code.units, origin.code.isa, {PARALLEL: address}, threads)
        super().__init__(code, origin.module, origin.signature, origin.compile_s, init_digest=origin.init_digest)
        self.main = _guarded(self.main, threads)
        self._init = None if self._init is None else _guarded(self._init, threads)


def _guarded(entry: Any, threads: int) -> Callable[[Any], None]:
    def call(argument: Any) -> None:
        if _thread.pool is None:
            raise RuntimeError("code for a user's thread pool was called outside of on_pool")
        outer, _thread.regions = _thread.regions, _Regions(_thread.pool, threads)
        try:
            entry(argument)
            failure = _thread.regions.failure
        finally:
            _thread.regions = outer
        if isinstance(failure, Exception):
            what = f"the stream's thread pool failed: {type(failure).__name__}: {failure}"
            raise ExecutionFailed(what, where="execute", fix="outputs are incomplete; mend the pool and execute again") from failure
        if failure is not None:
            raise failure  # KeyboardInterrupt or SystemExit

    return call


_linked: WeakKeyDictionary[Executable, Executable] = WeakKeyDictionary()
_linking = forks.lock()


def for_pool(executable: Executable) -> Executable:
    """The same code for users' pools, to be bound as usual and called within `on_pool`. Linking takes a millisecond, once."""
    with _linking:
        linked = _linked.get(executable)
        if linked is None:
            linked = _linked[executable] = _OnPool(executable)
        return linked


@contextmanager
def on_pool(pool: ThreadPool) -> Iterator[None]:
    """Within the block, this thread's calls of code from `for_pool` use this pool."""
    outer, _thread.pool = _thread.pool, pool
    try:
        yield
    finally:
        _thread.pool = outer
