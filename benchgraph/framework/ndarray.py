"""Arrays of the framework: a window of a chunk of memory, which may have one of the library's layouts.

normal   the window is the chunk, row-major
opaque   the chunk is blocked or has another order of axes; `numpy` gives the values row-major
view     slice, at, reshape: part of a chunk. Readers of a view of an opaque chunk convert a copy, the first writer converts the chunk
reused   as_array: the whole chunk as an array of another shape and dtype, for memory planners
"""

from __future__ import annotations

from math import prod

import numpy as np
import numpy.typing as npt

from benchgraph.core.dtypes import GRAPH_DTYPES, DType
from benchgraph.core.errors import InvalidArguments, InvalidDataType, InvalidShape, Unimplemented
from benchgraph.core.layout import Layout
from benchgraph.core.tensor import Shape
from benchgraph.framework.memory_desc import Bytes, MemoryDesc, Values, describe
from benchgraph.framework.reorder import convert, default, load, store
from benchgraph.framework.shared_storage import Chunk, Store, allocate
from benchgraph.framework.temp_space import Memory, Scope

_OF_NUMPY = {d.numpy: d for d in GRAPH_DTYPES if d is not DType.undef and not d.is_packed}


class NDArray:
    """chunk: the memory. plain_desc: the row-major desc of the array's dtype and shape. name: for messages. byte_offset: the start of the
    window, in bytes of the row-major chunk. reused: made by as_array.

    Ops get handles, in any layout, from memory, try_memory and reordered (to read) and request.output (to write), each of which takes the
    op's scope. All other code uses numpy, copy_from, slice, at, reshape and as_array.
    """

    __slots__ = ("_window", "byte_offset", "chunk", "dtype", "name", "plain_desc", "reused", "shape")

    def __init__(self, chunk: Chunk, shape: Shape, dtype: DType, name: str = "", *, byte_offset: int = 0, reused: bool = False) -> None:
        self.chunk, self.shape, self.dtype, self.name = chunk, shape, dtype, name or "an array"
        self.byte_offset, self.reused, self.plain_desc = byte_offset, reused, describe(dtype, shape)
        self._window: tuple[Bytes, Bytes] | None = None

    # ---- making ----------------------------------------------------------------------------------------------------

    @classmethod
    def empty(cls, shape: Shape, dtype: DType = DType.f32, name: str = "") -> NDArray:
        """Uninitialised. Raises OutOfMemory."""
        desc = describe(dtype, tuple(shape))
        return cls(Chunk(Store(allocate(desc.nbytes), desc)), desc.shape, dtype, name)

    @classmethod
    def of(cls, values: npt.ArrayLike, dtype: DType | None = None, name: str = "", layout: Layout | None = None) -> NDArray:
        """A copy of these values, by default in numpy's dtype and row-major. InvalidDataType for numpy dtypes that the library lacks."""
        array = np.asarray(values)
        desc = describe(dtype or _dtype(array, name), array.shape, layout)
        made = Store(allocate(desc.nbytes), desc, 1)
        store(_cast(array, desc.dtype), made.data, desc)
        return cls(Chunk(made), desc.shape, desc.dtype, name)

    @classmethod
    def over(cls, memory: Values, name: str = "", *, frozen: bool = False) -> NDArray:
        """An array on the user's memory: contiguous, row-major, used in place and never replaced.

        frozen: nothing changes it, the user included, so that the library may keep what it computes from it. InvalidArguments for
        unsuitable memory.
        """
        where = f"array '{name}'"
        if not isinstance(memory, np.ndarray):
            raise InvalidArguments(f"its memory is a {type(memory).__name__}", where=where, fix="give a numpy array")
        if not memory.flags.c_contiguous or not (frozen or memory.flags.writeable):
            what = "is read-only" if memory.flags.c_contiguous else f"has byte strides {memory.strides}"
            raise InvalidArguments(f"its memory {what}", where=where, fix="give contiguous, writeable memory, or a copy: NDArray.of")
        desc = describe(_dtype(memory, name), memory.shape)
        chunk = Chunk(Store(memory.reshape(-1).view(np.uint8), desc), growable=False, borrowed=True, frozen=frozen)
        return cls(chunk, desc.shape, desc.dtype, name)

    # ---- properties ------------------------------------------------------------------------------------------------

    def where(self, op: str = "") -> str:
        """The beginning of messages."""
        return f"{op}: array '{self.name}'" if op else f"array '{self.name}'"

    @property
    def is_view(self) -> bool:
        """Whether the chunk may be larger than the window."""
        return not self.reused and (self.byte_offset != 0 or self.plain_desc.nbytes != self.chunk.storage.nbytes)

    @property
    def is_opaque(self) -> bool:
        return not self.live_store().desc.is_plain

    def live_store(self, op: str = "") -> Store:
        """The Store that its chunk publishes. Raises InvalidArguments when the memory has been freed."""
        return self.chunk.current or self.chunk.store(self.where(op))

    @property
    def desc(self) -> MemoryDesc:
        """The desc of its chunk; if row-major, with the array's dims."""
        desc = self.live_store().desc
        return self.plain_desc if desc.is_plain else desc

    @property
    def version(self) -> int:
        """How often values were written, not counting changes of layout."""
        return self.live_store().version

    def overlaps(self, other: NDArray) -> bool:
        """Whether writing one may change the other."""
        if self.chunk is not other.chunk:
            both_borrowed = self.chunk.borrowed and other.chunk.borrowed  # two arrays on the same memory of the user's
            return both_borrowed and bool(np.may_share_memory(self.window(self.readable_store()), other.window(other.readable_store())))
        if self.is_opaque:
            return True
        return (
            self.byte_offset < other.byte_offset + other.plain_desc.nbytes and other.byte_offset < self.byte_offset + self.plain_desc.nbytes
        )

    def is_same_window(self, other: NDArray) -> bool:
        return self.chunk is other.chunk and (self.byte_offset, self.plain_desc.nbytes) == (other.byte_offset, other.plain_desc.nbytes)

    # ---- values ----------------------------------------------------------------------------------------------------

    def numpy(self) -> Values:
        """The values, row-major: an independent copy. s4 and u4: a byte per element."""
        return load(self._default(self.readable_store()), self.plain_desc).copy()

    def values(self, scope: Scope) -> Values:
        """The values for a numpy kernel: the memory itself if it is row-major, else a copy."""
        published = self.readable_store(scope.label)
        return load(self._default(published), self.plain_desc)

    def to_default(self) -> NDArray:
        """The array itself if it is row-major, else a row-major copy."""
        if not self.is_opaque:
            return self
        return NDArray.of(self.numpy(), self.dtype, self.name)

    def copy_from(self, values: npt.ArrayLike | NDArray) -> None:
        """Assign. Readers see all of the new values or all of the old ones; the layout stays. Raises InvalidShape, InvalidArguments."""
        given = values.numpy() if isinstance(values, NDArray) else np.asarray(values)
        where = self.where()
        if given.shape != self.shape:
            raise InvalidShape(f"values of shape {given.shape} for {self.shape}", where=where, fix="give values of the array's shape")
        exact = _cast(given, self.dtype)
        with self.chunk.lock:
            if self.is_view:
                self.chunk.replaced(lambda memory: store(exact, self.part(memory), self.plain_desc), where)
                return
            desc = self.desc if self.holds(self.desc) else self.plain_desc
            made = self.chunk.writable(desc, where, fresh=True)
            assert made is not None, "the layout it has fits"
            store(exact.reshape(desc.shape), made.data, desc)
            self.chunk.publish(made, where)

    def reorder_(self, layout: Layout | MemoryDesc) -> bool:
        """Change the layout permanently, in place; values and version stay. Returns whether this call did it.

        False also if the memory cannot hold the layout. Raises InvalidArguments for a view, and the errors of `check_desc`.
        """
        desc = layout if isinstance(layout, MemoryDesc) else describe(self.dtype, self.shape, layout)
        self.check_desc(desc)
        if self.is_view:
            raise InvalidArguments("a view has no layout of its own", where=self.where(), fix="convert the array it is a view of")
        with self.chunk.lock:
            if self.live_store().desc.is_plain:  # with the array's own dims, since the chunk's may differ
                published = self.readable_store()
                self.chunk.publish(Store(published.buffer, self.plain_desc, published.version), self.where(), written=False)
            return self.chunk.convert(desc, self.where())

    def to_default_(self) -> bool:
        """Make the layout row-major permanently, that of the whole chunk for a view. Returns whether this call did it."""
        return self.chunk.to_default(self.where())

    def free(self) -> None:
        """Release the memory of all arrays that share it."""
        self.chunk.free()

    # ---- windows ---------------------------------------------------------------------------------------------------

    def slice(self, begin: int, end: int) -> NDArray:
        """Rows begin to end - 1, sharing memory.

        Raises InvalidArguments for rows out of range, Unimplemented for s4 and u4 whose rows have an odd number of elements.
        """
        if not self.shape or not 0 <= begin <= end <= self.shape[0]:
            what = f"rows {begin} to {end} of shape {self.shape}"
            raise InvalidArguments(what, where=self.where(), fix="give rows that there are")
        row = describe(self.dtype, self.shape[1:])
        if self.dtype.is_packed and row.elements % 2:
            raise Unimplemented(f"a row of {row.elements} {self.dtype.value} ends inside a byte", where=self.where(), fix="copy the rows")
        at = self.byte_offset + begin * row.nbytes
        return NDArray(self.chunk, (end - begin, *self.shape[1:]), self.dtype, f"{self.name}[{begin}:{end}]", byte_offset=at)

    def at(self, index: int) -> NDArray:
        row = self.slice(index, index + 1)
        return NDArray(self.chunk, self.shape[1:], self.dtype, f"{self.name}[{index}]", byte_offset=row.byte_offset)

    def reshape(self, shape: Shape) -> NDArray:
        """The same elements with other dims, sharing memory. Raises InvalidShape."""
        if prod(shape) != self.plain_desc.elements:
            raise InvalidShape(f"shape {self.shape} cannot be seen as {shape}", where=self.where(), fix="keep the number of elements")
        return NDArray(self.chunk, tuple(shape), self.dtype, self.name, byte_offset=self.byte_offset)

    def as_array(self, shape: Shape, dtype: DType, name: str = "") -> NDArray:
        """The memory from its beginning as another array, for memory planners. They share it: after one is written, the other's values are
        meaningless.

        The memory no longer grows. Raises InvalidArguments for a view and if the memory is too small.
        """
        need = describe(dtype, tuple(shape))
        size = self.live_store().buffer.size
        if self.is_view or need.nbytes > size:
            what = "a view" if self.is_view else f"{size} bytes"
            raise InvalidArguments(f"{what} cannot be reused as {need}", where=self.where(), fix="reuse a whole array that is large enough")
        self.chunk.growable = False
        return NDArray(self.chunk, need.shape, dtype, name or self.name, reused=True)

    # ---- handles, for ops ------------------------------------------------------------------------------------------

    def memory(self, scope: Scope, published: Store | None = None) -> Memory:
        """The memory as stored in `published`, by default the published Store. Raises InvalidArguments for a view of an opaque chunk."""
        published = published or self.readable_store(scope.label)
        if published.desc.is_plain:
            return Memory(self.plain_desc, self.window(published), scope, self)
        if self.is_view:
            what = f"it is a view of memory in layout {published.desc.layout}"
            raise InvalidArguments(what, where=self.where(scope.label), fix="use reordered(), or convert the array with to_default_()")
        return Memory(published.desc, published.data, scope, self)

    def try_memory(self, desc: MemoryDesc, scope: Scope, published: Store | None = None) -> Memory | None:
        """The memory if it has this desc, or both are row-major; else None. The chunk does not change."""
        published = published or self.readable_store(scope.label)
        self.check_desc(desc, scope.label)
        if not published.desc.is_plain and (self.is_view or published.desc != desc):
            return None
        memory = self.memory(scope, published)
        if memory.desc is desc or memory.desc == desc:
            return memory
        return memory.as_desc(desc) if desc.is_plain and memory.desc.is_plain else None

    def reordered(self, desc: MemoryDesc, scope: Scope, published: Store | None = None) -> Memory:
        """The memory if it has this desc, else a temporary copy with it. The chunk does not change."""
        published = published or self.readable_store(scope.label)
        memory = self.try_memory(desc, scope, published)
        if memory is not None:
            return memory
        temp = scope.alloc(desc, self.name)
        if self.is_view and not published.desc.is_plain:
            convert(self._default(published), self.plain_desc, temp.data, desc)
        else:
            mine = self.memory(scope, published)
            convert(mine.data, mine.desc, temp.data, desc)
        return temp

    def check_desc(self, desc: MemoryDesc, op: str = "") -> None:
        """Raises InvalidDataType or InvalidShape unless memory with this desc can hold this array's values."""
        if desc is self.plain_desc:
            return
        if desc.dtype is not self.dtype:
            what = f"it is {self.dtype.value}, the op has {desc.dtype.value}"
            raise InvalidDataType(what, where=self.where(op), fix="give an array of the op's dtype")
        if desc.elements != self.plain_desc.elements:
            what = f"its shape is {self.shape}, the op has {desc.shape}"
            raise InvalidShape(what, where=self.where(op), fix="give an array of the op's shape")

    def readable_store(self, op: str = "") -> Store:
        """The published Store, for reading. Raises InvalidArguments if the memory is freed, or has another array's values."""
        published = self.live_store(op)
        if not published.desc.is_plain and not self.is_view and not self.holds(published.desc):
            what = f"its memory holds another array, {published.desc}"
            raise InvalidArguments(what, where=self.where(op), fix="write it before it is read: as_array shares the memory")
        return published

    # ---- internals -------------------------------------------------------------------------------------------------

    def holds(self, desc: MemoryDesc) -> bool:
        """Whether memory with this desc can be this array's."""
        return desc.dtype is self.dtype and desc.elements == self.plain_desc.elements

    def window(self, published: Store) -> Bytes:
        """The window of row-major memory; the same array object while the buffer is the same."""
        window = self._window  # read once: another thread may replace it
        if window is None or window[0] is not published.buffer:
            window = self._window = published.buffer, self.part(published.buffer)
        return window[1]

    def part(self, memory: Bytes) -> Bytes:
        is_whole = self.byte_offset == 0 and self.plain_desc.nbytes == memory.size
        return memory if is_whole else memory[self.byte_offset : self.byte_offset + self.plain_desc.nbytes]

    def _default(self, published: Store) -> Bytes:
        """The window in row-major bytes: memory, or a copy. Raises InvalidArguments for a window beyond what an opaque chunk holds."""
        if published.desc.is_plain:
            return self.window(published)
        flat = default(published.data, published.desc)
        if self.byte_offset + self.plain_desc.nbytes > flat.size:
            what = f"it lies beyond the {published.desc} that its memory holds"
            raise InvalidArguments(what, where=self.where(), fix="write the whole array first")
        return self.part(flat)

    def __repr__(self) -> str:
        state = "freed" if self.chunk.is_free else "view" if self.is_view else str(self.desc.layout)
        return f"NDArray({self.name!r}, {self.plain_desc.dtype.value}, {self.shape}, {state})"


def _dtype(array: Values, name: str) -> DType:
    if array.dtype not in _OF_NUMPY:
        known = ", ".join(str(d) for d in _OF_NUMPY)
        raise InvalidDataType(f"no dtype is numpy's {array.dtype}", where=f"array '{name}'", fix=f"use {known}")
    return _OF_NUMPY[array.dtype]


def _cast(values: Values, dtype: DType) -> Values:
    """Values in a dtype. Converted values are row-major; what a float dtype does not hold becomes infinity, or NaN in f8_e4m3."""
    if values.dtype == dtype.numpy:
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ascontiguousarray(values.astype(dtype.numpy)).reshape(values.shape)
