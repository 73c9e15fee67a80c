"""What init computes once and later executions read: packed weights, folded scales, tables; and the cache in which executables share it."""

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
from benchgraph.core.target import on_line
from benchgraph.runtime.memory import Allocator, Use, allocate
from benchgraph.tir.ir import Tensor

Array = NDArray[np.generic]
MEGABYTE = 1 << 20


class Constants:
    """The constants of one set of constant input buffers. ready: init has run; lock: held while it does.

    They lie in one piece of memory in their order, each on a cache line: what is fetched ahead beyond the end of one is the next.
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
    """constants, and what keeps them valid. watches: call when memory they were computed from is freed. held: memory nobody can watch."""

    constants: Constants
    watches: tuple[weakref.ref[object], ...]
    held: tuple[object, ...]


class ConstantCache:
    """Constants by what computes them and the addresses it reads, for executables that compute the same from the same buffers.

    They stay until the memory they were computed from is freed, or the capacity is set again: later memory at the same address is not
    mistaken for it. What is changed in place counts as constant, as in oneDNN. When the cache is full it takes nothing more in. capacity:
    megabytes, or a function that says when it is first needed; 0 keeps nothing. hits, misses: look-ups so far.
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
        """Forget everything and keep at most this much from now on. Raises InvalidArguments for a negative number."""
        if megabytes < 0:
            raise InvalidArguments(f"a constant-tensor cache of {megabytes} MB", fix="use 0 to switch it off")
        with self._lock:
            self._capacity = megabytes
            self._entries.clear()

    @property
    def nbytes(self) -> int:
        return sum(e.constants.nbytes for e in list(self._entries.values()))

    def get(self, key: Hashable, nbytes: int, sources: Sequence[Array], make: Callable[[], Constants]) -> Constants | None:
        """The constants for a key, possibly not computed yet; None when the cache is off, or has no room for them.

        nbytes: of the constants; sources: what they are computed from. Who comes first makes them; others get the same, and wait on their
        lock while they are computed.
        """
        if not self.capacity:
            return None
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self.hits += 1
                return found.constants
            self.misses += 1
            if self.nbytes + nbytes > self.capacity * MEGABYTE:
                return None
            made = make()
            owners = [_owner(array) for array in sources]
            watched = [o for o in owners if _can_be_watched(o)]
            watches = tuple(weakref.ref(o, lambda _: self._entries.pop(key, None)) for o in watched)  # no lock: it may be held by us
            self._entries[key] = _Entry(made, watches, tuple(o for o in owners if not _can_be_watched(o)))
            return made


def _owner(array: Array) -> object:
    """What holds the memory of an array: the array it is a view of, or what that one took from elsewhere."""
    owner: object = array
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    return owner


def _can_be_watched(owner: object) -> bool:
    return type(owner).__weakrefoffset__ != 0


constant_tensors = ConstantCache(lambda: config().constant_tensor_cache_capacity)
