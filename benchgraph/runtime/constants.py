"""Constants that init computes once (packed weights, folded scales, tables), and the cache in which executables share them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from benchgraph.core import forks
from benchgraph.core.config import config
from benchgraph.core.errors import InvalidArguments
from benchgraph.machine.target import on_line
from benchgraph.runtime.memory import Allocator, Use, allocate
from benchgraph.tir.ir import Tensor

Array = NDArray[np.generic]
MEGABYTE = 1 << 20


class Constants:
    """The constants of one set of constant input buffers. ready: init has run; lock: held while it runs.

    They are stored in order in one buffer, each aligned to a cache line, so that prefetches past the end of one load the next.
    """

    def __init__(self, tensors: Sequence[Tensor], literals: Sequence[Array | None], allocator: Allocator | None, *, ready: bool) -> None:
        ends = [*accumulate((on_line(t.nbytes) for t in tensors), initial=0)]
        memory = allocate(ends[-1], Use.persistent, allocator) if tensors else np.empty(0, np.uint8)
        self.buffers = [memory[start : start + t.nbytes] for start, t in zip(ends, tensors, strict=False)]
        for buffer, data in zip(self.buffers, literals, strict=True):
            if data is not None:
                source = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
                buffer[: source.size] = source
        self.lock = forks.lock()
        self.ready = ready

    @property
    def nbytes(self) -> int:
        return sum(b.nbytes for b in self.buffers)


@dataclass(frozen=True, eq=False)
class _Entry:
    """watches: remove the entry when memory of its sources is freed. kept_alive: memory that cannot be watched."""

    constants: Constants
    watches: tuple[weakref.ref[object], ...]
    kept_alive: tuple[object, ...]


class ConstantCache:
    """Constants by init function and addresses of its inputs, for executables that compute the same from the same buffers.

    Entries stay until memory of their sources is freed, so that other memory at the same address is not mistaken for it, or the capacity is
    set. Changes in place are not noticed, as in oneDNN. A full cache takes no more. capacity: megabytes, or a function called when first
    needed; 0 keeps nothing. hits, misses: look-ups so far.
    """

    def __init__(self, capacity: int | Callable[[], int]) -> None:
        self._capacity = capacity
        self._entries: dict[Hashable, _Entry] = {}
        self._lock = forks.lock()
        self.hits = self.misses = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def capacity(self) -> int:
        if not isinstance(self._capacity, int):
            self._capacity = self._capacity()
        return self._capacity

    @capacity.setter
    def capacity(self, megabytes: int) -> None:
        """Clear the cache and limit it. Raises InvalidArguments for a negative number."""
        if megabytes < 0:
            raise InvalidArguments(f"a constant-tensor cache of {megabytes} MB", fix="use 0 to switch it off")
        with self._lock:
            self._capacity = megabytes
            self._entries.clear()

    @property
    def nbytes(self) -> int:
        return sum(e.constants.nbytes for e in list(self._entries.values()))

    def get(self, key: Hashable, nbytes: int, sources: Sequence[Array], make: Callable[[], Constants]) -> Constants | None:
        """The constants for a key, possibly not computed yet; None if the cache is off, or has no room for them.

        nbytes: of the constants; sources: what they are computed from. Callers share the object, and wait on its lock while it is computed.
        """
        if not self.capacity:
            return None
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self.hits += 1
                return entry.constants
            self.misses += 1
            if self.nbytes + nbytes > self.capacity * MEGABYTE:
                return None
            constants = make()
            owners = [_owner(array) for array in sources]
            watched = [o for o in owners if _can_be_watched(o)]
            # The callbacks do not take the lock, as this thread may hold it.
            watches = tuple(weakref.ref(o, lambda _: self._entries.pop(key, None)) for o in watched)
            self._entries[key] = _Entry(constants, watches, tuple(o for o in owners if not _can_be_watched(o)))
            return constants


def _owner(array: Array) -> object:
    """The object that owns the memory of an array."""
    owner: object = array
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    return owner


def _can_be_watched(owner: object) -> bool:
    return type(owner).__weakrefoffset__ != 0


constant_tensors = ConstantCache(lambda: config().constant_tensor_cache_capacity)
