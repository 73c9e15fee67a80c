"""Handles: memory as an op sees it while it runs."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from benchgraph.core.errors import InvalidArguments
from benchgraph.framework.desc import Bytes, MemoryDesc, Values
from benchgraph.library.engine import Engine

if TYPE_CHECKING:
    from benchgraph.framework.chunk import Chunk
    from benchgraph.framework.temp_space import Scope


@cache
def _engine() -> Engine:
    return Engine()


def allocate(nbytes: int) -> Bytes:
    """Memory of the library's engine, on a cache line, with undefined contents. Raises OutOfMemory."""
    return _engine().allocate(nbytes)[:nbytes]


class Memory:
    """Memory of an array, or temporary memory, with how it is to be read. It references and never owns.

    Valid inside the op it was made in, on that op's thread, while its array is not freed; using it elsewhere raises InvalidArguments.
    """

    __slots__ = ("_chunk", "_data", "_scope", "desc", "name")

    def __init__(self, desc: MemoryDesc, data: Bytes, scope: Scope, name: str, chunk: Chunk | None = None) -> None:
        self.desc, self.name, self._data, self._scope, self._chunk = desc, name, data, scope, chunk

    @property
    def data(self) -> Bytes:
        """The bytes."""
        if not self._scope.is_open:
            fix = "ask the array again, inside the op that uses it"
            raise InvalidArguments(f"the handle of {self.name} is used after the op has ended", where=self._scope.label, fix=fix)
        self._scope.check(f"the handle of {self.name} is used")
        if self._chunk is not None and self._chunk.is_free:
            fix = "free an array after the last op that uses it"
            raise InvalidArguments(f"the memory of {self.name} has been freed", where=self._scope.label, fix=fix)
        return self._data

    @property
    def array(self) -> Values:
        """The bytes as an array of the physical dims."""
        return self.desc.array(self.data)

    def as_desc(self, desc: MemoryDesc) -> Memory:
        """The same memory read otherwise: both row-major, and as many bytes."""
        assert self.desc.is_plain
        assert desc.is_plain
        assert desc.nbytes == self.desc.nbytes
        return Memory(desc, self._data, self._scope, self.name, self._chunk)
