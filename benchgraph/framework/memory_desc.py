"""Memory descriptors: a dtype, dims and a layout."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from math import prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments, Unimplemented
from benchgraph.core.layout import LAYOUTS, Layout, layout_id, plain
from benchgraph.core.tensor import LayoutType, LogicalTensor, PropertyType, Shape, dense_strides

Bytes: TypeAlias = npt.NDArray[np.uint8]
Values: TypeAlias = npt.NDArray[np.generic]


@dataclass(frozen=True)
class MemoryDesc:
    """oneDNN's memory descriptor. Made by `describe`, which gives each layout one form.

    The rank may differ from that of the array on the memory: row-major memory of the same elements is the same for any dims, and a grouped
    convolution's weights are 5-d blocks of a 4-d array.
    """

    dtype: DType
    shape: Shape
    layout: Layout
    _hash: int = field(init=False, repr=False, compare=False)  # signatures hash every desc at every execution

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.dtype.value, self.shape, self.layout)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        """By value; mostly it is the same object, since `describe` is cached."""
        if self is other:
            return True
        if not isinstance(other, MemoryDesc):
            return NotImplemented
        return (self.dtype, self.shape, self.layout) == (other.dtype, other.shape, other.layout)

    @cached_property
    def is_plain(self) -> bool:
        """Row-major; other layouts are opaque to code that does not know layouts."""
        return self.layout.is_plain

    @cached_property
    def elements(self) -> int:
        return prod(self.shape)

    @cached_property
    def nbytes(self) -> int:
        """The size of the memory, including padding."""
        return self.dtype.nbytes(self.layout.elements(self.shape))

    @cached_property
    def physical(self) -> Shape:
        """The dims of memory: outer axes, then blocks."""
        return self.layout.physical(self.shape)

    @cached_property
    def padded(self) -> Shape:
        """The dims, blocked ones rounded up to whole blocks."""
        sizes = dict(self.layout.blocks)
        return tuple(-(-d // sizes.get(axis, 1)) * sizes.get(axis, 1) for axis, d in enumerate(self.shape))

    @cached_property
    def by_axis(self) -> tuple[int, ...]:
        """The transposition of the physical dims (`array`) that puts each axis' outer dim and block side by side."""
        positions = {axis: [position] for position, axis in enumerate(self.layout.order)}
        for position, (axis, _) in enumerate(self.layout.blocks, start=self.layout.rank):
            positions[axis].append(position)
        return tuple(position for axis in range(self.layout.rank) for position in positions[axis])

    @cached_property
    def without_padding(self) -> tuple[slice, ...]:
        """The slices that cut the padding off."""
        return tuple(map(slice, self.shape))

    def array(self, data: Bytes) -> Values:
        """Memory of nbytes as an array of the physical dims; of s4 and u4 the bytes."""
        return data if self.dtype.is_packed else data.view(self.dtype.numpy).reshape(self.physical)

    def logical(self, id: int, property_type: PropertyType = PropertyType.variable) -> LogicalTensor:
        """As a logical tensor for the library: strided if row-major, else opaque."""
        if self.is_plain:
            return LogicalTensor(id, self.dtype, self.shape, dense_strides(self.shape), property_type=property_type)
        opaque, at = LayoutType.opaque, LAYOUTS.id(self.layout)
        return LogicalTensor(id, self.dtype, self.shape, layout_type=opaque, property_type=property_type, layout_id=at)

    def __str__(self) -> str:
        return f"{self.dtype.value} {'x'.join(map(str, self.shape)) or 'scalar'} {self.layout}"


@lru_cache(maxsize=4096)
def describe(dtype: DType, shape: Shape, layout: Layout | None = None) -> MemoryDesc:
    """The desc; row-major without a layout. A layout equivalent to row-major becomes row-major.

    Raises InvalidArguments for a layout of another rank, and Unimplemented for one of elements that share a byte.
    """
    if layout is None:
        return MemoryDesc(dtype, shape, plain(len(shape)))
    if layout.rank != len(shape):
        raise InvalidArguments(f"layout {layout} is for {layout.rank} dims, not {len(shape)}", fix="use a layout of the array's rank")
    layout = LAYOUTS.layout(layout_id(layout, shape))
    if dtype.is_packed and not layout.is_plain:
        raise Unimplemented(f"{dtype.value} in layout {layout}: two elements share a byte", fix="keep it row-major")
    return MemoryDesc(dtype, shape, layout)


def of_logical(t: LogicalTensor) -> MemoryDesc:
    """The desc of a logical tensor. Raises InvalidArguments for strides that are not row-major."""
    if t.layout_type is LayoutType.opaque:
        return describe(t.dtype, t.known_shape, LAYOUTS.layout(t.layout_id))
    if not t.is_equal(replace(t, strides=dense_strides(t.known_shape))):
        what = f"strides {t.known_strides} for dims {t.known_shape}"
        raise InvalidArguments(what, where=f"tensor {t.id}", fix="the framework's arrays are row-major")
    return describe(t.dtype, t.known_shape)
