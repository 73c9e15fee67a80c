"""Memory of a running op: handles of arrays and of temporaries, which one buffer per thread provides.

An op that needs more than the buffer gets single allocations, counted as spills, and the buffer grows to the needed size before the next
op. So only the first run of a model spills.
"""

from __future__ import annotations

import threading
from typing import Protocol

from benchgraph.core.errors import InvalidArguments
from benchgraph.framework.counters import counters
from benchgraph.framework.memory_desc import Bytes, MemoryDesc, Values
from benchgraph.framework.shared_storage import Chunk, allocate
from benchgraph.machine import target

POISON = 0xFF  # every float format reads it as NaN


def whole_lines(nbytes: int) -> int:
    """nbytes, rounded up to whole cache lines; at least one, so that every temporary has its own address."""
    return max(target.on_line(nbytes), target.LINE_BYTES)


class Array(Protocol):
    """The array of a handle (ndarray.NDArray)."""

    chunk: Chunk

    def where(self) -> str: ...


class Memory:
    """A handle of an array's memory or of a temporary, with its desc. It does not own the memory. of: the array, or a name for messages.

    Valid inside the op that it was made for, on that op's thread, while its array is not freed; any other use raises InvalidArguments.
    """

    __slots__ = ("_data", "_of", "_scope", "desc")

    def __init__(self, desc: MemoryDesc, data: Bytes, scope: Scope, of: Array | str) -> None:
        self.desc, self._data, self._scope, self._of = desc, data, scope, of

    @property
    def name(self) -> str:
        return self._of if isinstance(self._of, str) else self._of.where()

    @property
    def data(self) -> Bytes:
        if not self._scope.is_running:
            self._scope.check(f"the handle of {self.name} is used")
        if not isinstance(self._of, str) and self._of.chunk.current is None:
            fix = "free an array after the last op that uses it"
            raise InvalidArguments(f"the memory of {self.name} has been freed", where=self._scope.label, fix=fix)
        return self._data

    @property
    def array(self) -> Values:
        return self.desc.array(self.data)

    def as_desc(self, desc: MemoryDesc) -> Memory:
        """The same memory with another desc: both are row-major and of the same size."""
        assert self.desc.is_plain
        assert desc.is_plain
        assert desc.nbytes == self.desc.nbytes
        return Memory(desc, self._data, self._scope, self._of)


class Scope:
    """One op's run: handles are valid inside it, and messages name it. Made by TempSpace.op; a context manager."""

    __slots__ = ("_begin", "_space", "_spilled", "_thread", "is_open", "label")

    def __init__(self, space: TempSpace, label: str) -> None:
        self._space, self.label, self.is_open = space, label, False
        self._thread, self._begin = threading.get_ident(), 0
        self._spilled: list[Bytes] = []

    def alloc(self, desc: MemoryDesc, of: str = "") -> Memory:
        """Uninitialised temporary memory, aligned to cache lines, valid until the op ends. of: the array that it is for."""
        return Memory(desc, self.bytes(desc.nbytes), self, f"a temporary for array '{of}'" if of else "a temporary")

    def bytes(self, nbytes: int) -> Bytes:
        """As `alloc`, without a handle. Raises InvalidArguments after the op has ended, and on another thread."""
        if not self.is_running:
            self.check("temporary memory is asked for")
        return self._space.carve(nbytes, self._spilled)

    @property
    def is_running(self) -> bool:
        """Whether the op has not ended, and runs on this thread."""
        return self.is_open and threading.get_ident() == self._thread

    def check(self, what: str) -> None:
        """Raises InvalidArguments unless the op is running on this thread. what: what was attempted."""
        if not self.is_open:
            fix = "ask the array again, inside the op that uses it"
            raise InvalidArguments(f"{what} after the op has ended", where=self.label, fix=fix)
        if threading.get_ident() != self._thread:
            raise InvalidArguments(f"{what} on another thread", where=self.label, fix="let every thread run ops of its own")

    def __enter__(self) -> Scope:
        self._begin = self._space.begin()
        self.is_open = True
        return self

    def __exit__(self, *error: object) -> None:
        self.is_open = False
        self._space.end(self._begin, self._spilled)


class TempSpace:
    """The buffer of one thread. Ops may run inside ops: an inner one uses the memory after the outer one's temporaries.

    size: of the buffer. poisoned: whether memory is filled with NaN when its op ends, which exposes later uses.
    """

    def __init__(self, *, poisoned: bool = False) -> None:
        self._buffer: Bytes = allocate(0)
        self._views: dict[tuple[int, int], Bytes] = {}
        self._used = self._needed = self._depth = 0
        self.size, self.poisoned = 0, poisoned

    def op(self, label: str) -> Scope:
        """The scope of an op. label: for messages."""
        return Scope(self, label)

    def begin(self) -> int:
        """The start of an op's temporaries. The outermost op gets a buffer as large as any op so far has needed."""
        if not self._depth and self._needed > self.size:
            self.size = self._needed
            self._buffer, self._views = allocate(self.size), {}
        self._depth += 1
        return self._used

    def end(self, begin: int, spilled: list[Bytes]) -> None:
        if self.poisoned:
            for memory in (self._buffer[begin : min(self._used, self.size)], *spilled):
                memory.fill(POISON)
        spilled.clear()
        self._used, self._depth = begin, self._depth - 1

    def carve(self, nbytes: int, spilled: list[Bytes]) -> Bytes:
        """The next nbytes of the buffer. The same range is the same array object, by whose identity kernels find their bindings."""
        start, self._used = self._used, self._used + whole_lines(nbytes)
        self._needed = max(self._needed, self._used)
        counters().temp_bytes = max(counters().temp_bytes, self._used)
        if self._used > self.size:
            counters().spills += 1
            spilled.append(allocate(nbytes))
            return spilled[-1]
        key = start, nbytes
        if key not in self._views:
            self._views[key] = self._buffer[start : start + nbytes]
        return self._views[key]


class _PerThread(threading.local):
    def __init__(self) -> None:
        self.space = TempSpace()


_spaces = _PerThread()


def temp_space() -> TempSpace:
    return _spaces.space
