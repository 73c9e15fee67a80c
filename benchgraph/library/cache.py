"""A thread-safe cache of bounded size, least recently used out first: of compiled partitions, and of bound buffers.

The key of a compiled partition is made in library/partition.py.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

from benchgraph.core import forks
from benchgraph.core.config import config
from benchgraph.core.errors import InvalidArguments
from benchgraph.runtime.constants import constant_tensors
from benchgraph.runtime.executable import Executable

V = TypeVar("V")
UNLIMITED_MB = 2**44 - 1  # the whole address space


class Cache(Generic[V]):
    """At most `capacity` values, 0 for none; capacity may be a function, called when it is first needed.

    hits, misses: look-ups so far; one that waits for another thread's value is a hit.
    """

    def __init__(self, capacity: int | Callable[[], int]) -> None:
        self._values: OrderedDict[Hashable, V] = OrderedDict()
        self._pending: dict[Hashable, Future[V]] = {}
        self._lock = forks.lock()
        self._capacity = capacity
        self.hits = self.misses = 0

    def __len__(self) -> int:
        return len(self._values)

    @property
    def capacity(self) -> int:
        if not isinstance(self._capacity, int):
            self._capacity = self._capacity()
        return self._capacity

    @capacity.setter
    def capacity(self, capacity: int) -> None:
        """Drop the least recently used values beyond the capacity. Raises InvalidArguments for a negative number."""
        if capacity < 0:
            raise InvalidArguments(f"a cache of capacity {capacity}", fix="use 0 to switch it off")
        with self._lock:
            self._capacity = capacity
            self._trim()

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """The value for a key, made if it is not there, or shared with a thread that is making it.

        An exception of `make` is raised in its caller only: waiting threads try again. With capacity 0 every caller makes its own.
        """
        while True:
            with self._lock:
                if key in self._values:
                    self.hits += 1
                    self._values.move_to_end(key)
                    return self._values[key]
                pending = self._pending.get(key)
                if pending is None:
                    self.misses += 1
                    mine: Future[V] = Future()
                    if self.capacity:
                        self._pending[key] = mine
                    break
            if pending.exception() is None:
                with self._lock:
                    self.hits += 1
                return pending.result()
        return self._made(key, make, mine)

    def _made(self, key: Hashable, make: Callable[[], V], announced: Future[V]) -> V:
        try:
            value = make()
        except BaseException as bad:
            with self._lock:
                self._pending.pop(key, None)
            announced.set_exception(bad)
            raise
        with self._lock:
            self._pending.pop(key, None)
            self._values[key] = value
            self._trim()
        announced.set_result(value)
        return value

    def forget_pending(self) -> None:
        """Drop pending values, whose threads do not exist in a forked child."""
        self._pending.clear()

    def _trim(self) -> None:
        while len(self._values) > self.capacity:
            self._values.popitem(last=False)


compiled_partitions: Cache[Executable] = Cache(lambda: config().compiled_partition_cache_capacity)
os.register_at_fork(after_in_child=compiled_partitions.forget_pending)  # the child lacks the threads that were making them


def get_compiled_partition_cache_capacity() -> int:
    """The number of compiled partitions that are kept for reuse."""
    return compiled_partitions.capacity


def set_compiled_partition_cache_capacity(capacity: int) -> None:
    """Keep at most this many compiled partitions; 0 clears and disables. Raises InvalidArguments for a negative number."""
    compiled_partitions.capacity = capacity


def get_constant_tensor_cache_capacity(engine_kind: str = "cpu") -> int:
    """MB of constants (such as packed weights) that compiled partitions share. 0: each has its own."""
    _check_kind(engine_kind)
    return constant_tensors.capacity


def set_constant_tensor_cache_capacity(engine_kind: str, megabytes: int) -> None:
    """Clear the cache of constants and set its size in MB; 0 disables it. InvalidArguments for a negative number, or another engine."""
    _check_kind(engine_kind)
    constant_tensors.capacity = megabytes


def get_constant_tensor_cache() -> int:
    """1 if constants are shared, else 0. Deprecated in oneDNN in favour of the capacity."""
    return int(constant_tensors.capacity > 0)


def set_constant_tensor_cache(flag: int) -> None:
    """1: share constants without limit; 0: share none. Deprecated in oneDNN: set a capacity. InvalidArguments for a negative flag."""
    if flag < 0:
        raise InvalidArguments(f"the flag is {flag}", where="set_constant_tensor_cache", fix="use 1 for on, 0 for off")
    constant_tensors.capacity = UNLIMITED_MB if flag else 0


def _check_kind(engine_kind: str) -> None:
    if engine_kind != "cpu":
        raise InvalidArguments(f"there is no engine {engine_kind!r}", where="constant tensor cache", fix="use 'cpu'")
