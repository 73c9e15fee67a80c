"""A bounded cache, least recently used out first, that several threads may use: of compiled partitions, and of bound buffers."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

from benchgraph.core.config import config
from benchgraph.core.errors import InvalidArguments
from benchgraph.runtime.executable import Executable

V = TypeVar("V")


class Cache(Generic[V]):
    """At most `capacity` values; 0 keeps none. hits, misses: look-ups so far; one that waits for another thread's value is a hit.

    capacity may be a function, asked when the capacity is first needed.
    """

    def __init__(self, capacity: int | Callable[[], int]) -> None:
        self._values: OrderedDict[Hashable, V] = OrderedDict()
        self._pending: dict[Hashable, Future[V]] = {}
        self._lock = threading.Lock()
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
        """Shrinking drops the least recently used. Raises InvalidArguments for a negative number."""
        if capacity < 0:
            raise InvalidArguments(f"a cache of capacity {capacity}", fix="use 0 to switch it off")
        with self._lock:
            self._capacity = capacity
            self._trim()

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """The value for a key, made if it is not there. A thread that finds another one making it waits and shares the value.

        What `make` raises reaches its caller alone: threads that waited try again. With capacity 0 every caller makes its own.
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

    def _trim(self) -> None:
        while len(self._values) > self.capacity:
            self._values.popitem(last=False)


compiled_partitions: Cache[Executable] = Cache(lambda: config().compiled_partition_cache_capacity)


def get_compiled_partition_cache_capacity() -> int:
    """How many compiled partitions are kept for reuse."""
    return compiled_partitions.capacity


def set_compiled_partition_cache_capacity(capacity: int) -> None:
    """Keep at most this many compiled partitions; 0 clears and disables. Raises InvalidArguments for a negative number."""
    compiled_partitions.capacity = capacity
