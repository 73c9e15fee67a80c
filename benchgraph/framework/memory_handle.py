"""Handles: memory for an op while it runs."""

from __future__ import annotations

from typing import Protocol

from benchgraph.core.errors import InvalidArguments
from benchgraph.framework.memory_desc import Bytes, MemoryDesc, Values
from benchgraph.framework.shared_storage import Chunk


class RunningOp(Protocol):
    """The op that a handle was made for (temp_space.Scope)."""

    label: str

    @property
    def is_running(self) -> bool: ...
    def check(self, what: str) -> None: ...


class Array(Protocol):
    """The array of a handle (ndarray.NDArray)."""

    chunk: Chunk

    def where(self) -> str: ...


class Memory:
    """Memory of an array, or temporary memory, with its desc. It does not own the memory.

    Valid inside the op that it was made for, on that op's thread, while its array is not freed; any other use raises InvalidArguments.
    """

    __slots__ = ("_data", "_of", "_scope", "desc")

    def __init__(self, desc: MemoryDesc, data: Bytes, scope: RunningOp, of: Array | str) -> None:
        self.desc, self._data, self._scope, self._of = desc, data, scope, of

    @property
    def name(self) -> str:
        """Its name in messages: the array, or the temporary's purpose."""
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
