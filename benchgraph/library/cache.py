"""A bounded cache, least recently used out first, that several threads may use: of compiled partitions, and of bound buffers."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from benchgraph.core.errors import InvalidArguments

V = TypeVar("V")


class Cache(Generic[V]):
    """At most `capacity` values; 0 keeps none. hits, misses: look-ups so far."""

    def __init__(self, capacity: int) -> None:
        self._values: OrderedDict[Hashable, V] = OrderedDict()
        self._lock = threading.Lock()
        self._capacity = capacity
        self.hits = self.misses = 0

    def __len__(self) -> int:
        return len(self._values)

    @property
    def capacity(self) -> int:
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
        """The value for a key, made if it is not there. Two threads that miss together both make it; one of the values is kept."""
        with self._lock:
            if key in self._values:
                self.hits += 1
                self._values.move_to_end(key)
                return self._values[key]
            self.misses += 1
        value = make()
        with self._lock:
            value = self._values.setdefault(key, value)
            self._trim()
        return value

    def _trim(self) -> None:
        while len(self._values) > self._capacity:
            self._values.popitem(last=False)
