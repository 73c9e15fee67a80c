"""Storage shared by arrays, published in immutable versions.

A chunk publishes one Store at a time, so that a reader who takes it once has a buffer with its layout, whatever is published meanwhile.
Conversions and assignments publish a new buffer; only an op that writes to the array may write to the present one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache

from benchgraph.core.errors import InvalidArguments
from benchgraph.framework.memory_desc import Bytes, MemoryDesc, describe
from benchgraph.framework.reorder import convert
from benchgraph.library.engine import Engine


@cache
def default_engine() -> Engine:
    """The CPU as configured at the first call."""
    return Engine()


def allocate(nbytes: int) -> Bytes:
    """Memory of the library's engine, aligned to cache lines, uninitialised. Raises OutOfMemory."""
    return default_engine().allocate(nbytes)[:nbytes]


class Store:
    """A published state, immutable. data: the part of buffer that desc describes. version: how often values, not layouts, were changed."""

    __slots__ = ("buffer", "data", "desc", "version")

    def __init__(self, buffer: Bytes, desc: MemoryDesc, version: int = 0, data: Bytes | None = None) -> None:
        self.buffer, self.desc, self.version = buffer, desc, version
        self.data: Bytes = _first(buffer, desc.nbytes) if data is None else data


def _first(buffer: Bytes, nbytes: int) -> Bytes:
    return buffer if nbytes == buffer.size else buffer[:nbytes]


class Chunk:
    """current: the published Store; None when the memory has been freed. storage: the array it was made for, row-major.

    growable: whether the buffer may be replaced by a larger one. borrowed: the user's memory, never replaced. frozen: nothing may write to
    it.
    """

    def __init__(self, store: Store, *, growable: bool = True, borrowed: bool = False, frozen: bool = False) -> None:
        self.current: Store | None = store
        self._lent = False
        self._parts: dict[int, Bytes] = {}  # views of the current buffer by size, so that equal views are one array
        self.growable, self.borrowed, self.frozen = growable, borrowed, frozen
        self.storage = describe(store.desc.dtype, store.desc.shape)
        self.lock = threading.RLock()

    @property
    def is_free(self) -> bool:
        return self.current is None

    def store(self, where: str) -> Store:
        """The published Store. Raises InvalidArguments when the memory has been freed. where: the op and array, for errors."""
        store = self.current
        if store is None:
            raise InvalidArguments("its memory has been freed", where=where, fix="free an array after the last op that uses it")
        return store

    def free(self) -> None:
        """Release the memory. A Store taken before keeps it alive."""
        with self.lock:
            self.current = None

    def lend(self, where: str) -> Store:
        """The published Store for a reader that treats it as constant: its buffer is never written again, later values get another one."""
        with self.lock:
            self._lent = not (self.borrowed or self.frozen)
            return self.store(where)

    @property
    def can_be_constant(self) -> bool:
        """Whether `lend` can guarantee that: not for memory that its owner may write."""
        return self.frozen or not self.borrowed

    def writable(self, desc: MemoryDesc, where: str, *, fresh: bool = False) -> Store | None:
        """A Store with this desc to be written and then published; None if the memory is too small and cannot be replaced.

        fresh: not in the published buffer if possible. Raises InvalidArguments for frozen memory.
        """
        with self.lock:
            old = self.store(where)
            if self.frozen:
                raise InvalidArguments("its memory is frozen: it is constant to its owner", where=where, fix="write to a copy")
            size = old.buffer.size
            if desc.nbytes > size and not self.growable:
                return None
            is_new = desc.nbytes > size or self._lent or (fresh and not self.borrowed)
            buffer = allocate(max(size, desc.nbytes)) if is_new else old.buffer
            if is_new:
                return Store(buffer, desc, old.version)
            return old if desc is old.desc else Store(buffer, desc, old.version, self._part(buffer, desc.nbytes))

    def _part(self, buffer: Bytes, nbytes: int) -> Bytes:
        if nbytes not in self._parts:
            self._parts[nbytes] = _first(buffer, nbytes)
        return self._parts[nbytes]

    def publish(self, store: Store, where: str, *, written: bool = True) -> None:
        """Publish a Store. written: its values are new."""
        with self.lock:
            old = self.store(where)
            if store.buffer is not old.buffer:
                self._lent, self._parts = False, {}
            if written or store is not old:
                self.current = Store(store.buffer, store.desc, old.version + written, store.data)

    def convert(self, desc: MemoryDesc, where: str) -> bool:
        """Change the layout permanently; values and version stay. False if it is so already, or the memory cannot be replaced."""
        with self.lock:
            old = self.store(where)
            if old.desc == desc or (old.desc.is_plain and desc.is_plain) or self.borrowed:
                return False
            if desc.nbytes > old.buffer.size and not self.growable:
                return False
            new = Store(allocate(max(old.buffer.size, desc.nbytes)), desc, old.version)
            convert(old.data, old.desc, new.data, desc)
            self.publish(new, where, written=False)
            return True

    def to_default(self, where: str) -> bool:
        """Make the layout row-major permanently. Whether there was anything to do."""
        desc = self.store(where).desc
        return not desc.is_plain and self.convert(describe(desc.dtype, desc.shape), where)

    def replaced(self, write: Callable[[Bytes], None], where: str) -> None:
        """Publish a copy of the row-major memory, changed by `write`."""
        with self.lock:
            self.to_default(where)
            old = self.store(where)
            new = self.writable(old.desc, where, fresh=True)
            assert new is not None
            if new.buffer is not old.buffer:
                new.buffer[...] = old.buffer
            write(new.buffer)
            self.publish(new, where)
