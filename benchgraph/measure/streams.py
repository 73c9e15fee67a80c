"""--num-streams: executions at the same time, to measure throughput instead of latency.

benchgraph executes synchronously, so a stream is a thread that executes one chain after another. N streams share the machine: each runs
code compiled for an N-th of the threads, on inputs, outputs and constants of its own. A sample starts all of them at once and ends with the
last one; its time divided by all executions is the time per execution of the machine.
"""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from benchgraph.core.arrays import Array
from benchgraph.core.config import config, override
from benchgraph.core.errors import NO_THREAD, InvalidArguments
from benchgraph.core.implementation import Implementation
from benchgraph.library.protocol import Chain
from benchgraph.runtime.threads import omp_functions


def threads_per_stream(streams: int, threads: int, *, is_single: bool) -> int:
    """An equal share of the threads, rounded down. is_single: samples are single executions.

    Raises InvalidArguments for what cannot be measured with so many streams.
    """
    where = f"--num-streams={streams}"
    if streams == 1:
        return threads
    if is_single:
        what = "a sample of a cold cache, and of mode S, is one execution, too short to start several streams at once"
        raise InvalidArguments(what, where=where, fix="use one stream")
    if streams > threads:
        raise InvalidArguments(f"there are {threads} threads, and a stream takes one at least", where=where, fix="ask for fewer streams")
    if threads // streams > 1 and _runtime() == "threadpool":
        what = "the threadpool runtime has one team, which streams of several threads would have to share"
        raise InvalidArguments(what, where=where, fix=f"set BENCHGRAPH_RUNTIME=omp, or --num-streams={threads}")
    return threads // streams


def _runtime() -> str:
    """The thread runtime of streams with several threads: OpenMP, if available, has a team for each."""
    named = config().runtime
    return named if named != "auto" else "omp" if omp_functions() else "threadpool"


def for_streams(streams: int, each: int) -> AbstractContextManager[object]:
    """Inside, code is compiled for so many threads, with a runtime that supports so many streams."""
    if streams == 1:
        return nullcontext()
    return override(threads=each, runtime=_runtime() if each > 1 else config().runtime)


class Streams:
    """Several chains as one (library.protocol.Chain): run(times) executes each that often, all at the same time.

    A stream keeps its thread from run to run, and so its team of OpenMP threads.
    """

    implementations: Sequence[tuple[Implementation, ...]] = ()

    def __init__(self, chains: Sequence[Chain]) -> None:
        self._chains = tuple(chains)
        self._orders: list[queue.SimpleQueue[int]] = [queue.SimpleQueue() for _ in self._chains]
        self._done: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        weakref.finalize(self, _dismiss, self._orders)
        for n, (chain, orders) in enumerate(zip(self._chains, self._orders, strict=True)):
            try:
                threading.Thread(target=_serve, args=(chain, orders, self._done), daemon=True).start()
            except NO_THREAD as bad:
                what = f"this system lets only {n} of {len(self._chains)} threads of streams start"
                raise InvalidArguments(what, where="--num-streams", fix="ask for fewer streams") from bad

    @property
    def constants(self) -> Sequence[Array]:
        return [array for chain in self._chains for array in chain.constants]

    @property
    def notes(self) -> Sequence[str]:
        """Of one chain: they are alike."""
        return self._chains[0].notes

    def run(self, times: int) -> None:
        """Raises, when all have finished, what one of them raised."""
        for orders in self._orders:
            orders.put(times)
        errors = [self._done.get() for _ in self._chains]
        for bad in errors:
            if bad is not None:
                raise bad


_END = -1


def _serve(chain: Chain, orders: queue.SimpleQueue[int], done: queue.SimpleQueue[BaseException | None]) -> None:
    while (times := orders.get()) != _END:
        try:
            chain.run(times)
            done.put(None)
        except BaseException as bad:  # passed on to the waiting thread
            done.put(bad)


def _dismiss(orders: list[queue.SimpleQueue[int]]) -> None:
    for each in orders:
        each.put(_END)
