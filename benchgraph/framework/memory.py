"""Handles: memory as an op sees it while it runs."""

from __future__ import annotations

from typing import Protocol

from benchgraph.core.errors import InvalidArguments
from benchgraph.framework.chunk import Chunk
from benchgraph.framework.desc import Bytes, MemoryDesc, Values


class RunningOp(Protocol):
    """The op that a handle was made in (temp_space.Scope)."""

    label: str

    @property
    def is_running(self) -> bool: ...
    def check(self, what: str) -> None: ...


class Array(Protocol):
    """The array that a handle was made of (ndarray.NDArray)."""

    chunk: Chunk

    def where(self) -> str: ...


class Memory:
    """Memory of an array, or temporary memory, with how it is to be read. It references and never owns.

    Valid inside the op it was made in, on that op's thread, while its array is not freed; using it elsewhere raises InvalidArguments.
    """

    __slots__ = ("_data", "_of", "_scope", "desc")

    def __init__(self, desc: MemoryDesc, data: Bytes, scope: RunningOp, of: Array | str) -> None:
        self.desc, self._data, self._scope, self._of = desc, data, scope, of

    @property
    def name(self) -> str:
        """What messages call it: the array, or what the temporary is for."""
        return self._of if isinstance(self._of, str) else self._of.where()

    @property
    def data(self) -> Bytes:
        """The bytes."""
        if not self._scope.is_running:
            self._scope.check(f"the handle of {self.name} is used")
        if not isinstance(self._of, str) and self._of.chunk.current is None:
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
        return Memory(desc, self._data, self._scope, self._of)
