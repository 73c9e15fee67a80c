"""Logical tensors: what a tensor is, without its data. Immutable; a new one with the same id carries new facts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from math import prod
from operator import index
from typing import TypeAlias

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.layout import LAYOUTS
from benchgraph.core.printable import quoted

UNKNOWN_NDIMS = -1  # DNNL_GRAPH_UNKNOWN_NDIMS
UNKNOWN_DIM = -(2**63)  # DNNL_GRAPH_UNKNOWN_DIM
UNKNOWN_SIZE = 2**64 - 1  # SIZE_MAX, oneDNN's size of a tensor whose layout is not known
MAX_NDIMS = 12  # DNNL_MAX_NDIMS
MAX_ID = 2**64 - 1  # ids are size_t
MAX_DIM = MAX_BYTES = 2**63 - 1  # dims are int64_t, and so are distances between addresses

Shape: TypeAlias = tuple[int, ...]


class LayoutType(Enum):
    undef = "undef"
    any = "any"
    strided = "strided"
    opaque = "opaque"


class PropertyType(Enum):
    undef = "undef"
    variable = "variable"
    constant = "constant"
    host_scalar = "host_scalar"


@dataclass(frozen=True)
class TensorType:
    """The dtype and the known dims of a tensor, for shape inference and costs."""

    dtype: DType
    shape: Shape

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.dtype.nbytes(self.elements)


def dense_strides(shape: Shape) -> Shape:
    """Row-major strides in elements; a dim of size 0 counts as 1, as oneDNN does.

    >>> dense_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides, step = [], 1
    for dim in reversed(shape):
        strides.append(step)
        step *= max(dim, 1)
    return tuple(reversed(strides))


HOST_SCALARS = (DType.f32, DType.s32, DType.s64)  # what a host scalar may be in oneDNN Graph


def reach(shape: Shape, strides: Shape) -> int:
    """Elements from the first to one past the last one that the strides reach; 0 when there is none.

    >>> reach((2, 3), (8, 2))
    13
    """
    return 0 if 0 in shape else 1 + sum((d - 1) * s for d, s in zip(shape, strides, strict=True))


@dataclass(frozen=True)
class LogicalTensor:
    """A tensor's metadata. Another one with the same id may add what was unknown: dims, the layout that a partition chose.

    shape: any sequence; None if the rank is unknown; UNKNOWN_DIM for dims of unknown size.
    strides: in elements; None if unknown, which means row-major once the shape is known.
    layout_id: only for opaque layouts. property_type: undef means variable; a host_scalar is a single number that the user passes by value.
    Raises InvalidArguments for more than 12 dims, a negative one, strides of another rank, a host scalar with dims.
    """

    id: int
    dtype: DType
    shape: Shape | None = None
    strides: Shape | None = None
    layout_type: LayoutType = LayoutType.strided
    property_type: PropertyType = PropertyType.undef
    layout_id: int = 0

    def __post_init__(self) -> None:
        where = f"logical tensor {self.id}"
        _check_kinds(self, where)
        for name in ("shape", "strides"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _integers(value, name, where))
        if self.shape is None and self.strides is not None:
            fix = "give the dims, UNKNOWN_DIM where one is unknown"
            raise InvalidArguments(f"strides {self.strides} without dims", where=where, fix=fix)
        if self.shape is not None:
            _check_dims(self.shape, where)
            if self.strides is not None and len(self.strides) != len(self.shape):
                what = f"{len(self.strides)} strides for {len(self.shape)} dims"
                raise InvalidArguments(what, where=where, fix="give one stride, in elements, per dim")
        if self.layout_id and self.layout_type is not LayoutType.opaque:
            what = f"layout id {self.layout_id} with a layout that is {self.layout_type.value}"
            raise InvalidArguments(what, where=where, fix="only opaque layouts have an id")
        if self.property_type is PropertyType.host_scalar and (self.shape != () or self.dtype not in HOST_SCALARS):
            known = " or ".join(d.value for d in HOST_SCALARS)
            raise InvalidArguments("a host scalar that is no single number", where=where, fix=f"give it shape () and dtype {known}")

    @classmethod
    def of_rank(
        cls,
        id: int,
        dtype: DType,
        ndims: int,
        layout_type: LayoutType = LayoutType.strided,
        property_type: PropertyType = PropertyType.undef,
    ) -> LogicalTensor:
        """A tensor of which only the rank is known, or not even that (UNKNOWN_NDIMS)."""
        if not UNKNOWN_NDIMS <= ndims <= MAX_NDIMS:
            where, fix = f"logical tensor {id}", f"use 0 to {MAX_NDIMS}, or {UNKNOWN_NDIMS} for an unknown rank"
            raise InvalidArguments(f"{ndims} dims", where=where, fix=fix)
        shape = None if ndims == UNKNOWN_NDIMS else (UNKNOWN_DIM,) * ndims
        return cls(id, dtype, shape, layout_type=layout_type, property_type=property_type)

    @property
    def ndims(self) -> int:
        return UNKNOWN_NDIMS if self.shape is None else len(self.shape)

    def get_dims(self) -> Shape:
        """The dims, UNKNOWN_DIM where a size is unknown. Raises InvalidArguments when the rank is."""
        if self.shape is None:
            fix = "give it a shape, or query it after compile"
            raise InvalidArguments("its rank is unknown", where=f"logical tensor {self.id}", fix=fix)
        return self.shape

    def get_strides(self) -> Shape:
        """The strides in elements, UNKNOWN_DIM where unknown. InvalidArguments when the layout is not strided or the rank unknown."""
        if self.layout_type is not LayoutType.strided:
            what = f"its layout is {self.layout_type.value}"
            raise InvalidArguments(what, where=f"logical tensor {self.id}", fix="only strided layouts have strides")
        dims = self.get_dims()
        if self.strides is None and UNKNOWN_DIM in dims:
            return (UNKNOWN_DIM,) * len(dims)
        return self.known_strides

    def get_layout_id(self) -> int:
        """The id of an opaque layout. Raises InvalidArguments for any other."""
        if self.layout_type is not LayoutType.opaque:
            what = f"its layout is {self.layout_type.value}"
            raise InvalidArguments(what, where=f"logical tensor {self.id}", fix="only opaque layouts have an id")
        return self.layout_id

    def get_mem_size(self) -> int:
        """Bytes of memory for the tensor; UNKNOWN_SIZE while dims or layout are unknown. Opaque: the size of its physical layout.

        Strided: the largest dim * stride (a dim of 1 counts as dense), as in oneDNN, including padding after the last row; at least
        what overlapping strides reach. Two s4 or u4 share a byte.
        """
        if not self.is_settled:
            return UNKNOWN_SIZE
        if self.layout_type is LayoutType.opaque:
            return self.nbytes
        spans = (d * (1 if d == 1 else s) for d, s in zip(self.known_shape, self.known_strides, strict=True))
        return self.dtype.nbytes(max(self.storage_elements, *spans, 0) if self.storage_elements else 0)

    def is_equal(self, other: LogicalTensor) -> bool:
        """Whether a tensor of one may be used as the other without a reorder: same id, dtype, dims, property and physical layout."""
        same = (self.id, self.is_constant, self.is_host_scalar) == (other.id, other.is_constant, other.is_host_scalar)
        return same and self.is_stored_like(other)

    def is_stored_like(self, other: LogicalTensor) -> bool:
        """Whether dtype, dims and physical layout are the same; a strided tensor may have the layout of an opaque one."""
        return (self.dtype, self.shape, self._physical) == (other.dtype, other.shape, other._physical)

    @property
    def _physical(self) -> tuple[LayoutType, Shape | int | None]:
        """Equal for equal layouts: strides along dims of more than one element, if there are any; else the type and the id."""
        strides = None
        if self.layout_type is LayoutType.strided and self.shape is not None:
            strides = self.get_strides()
        elif self.layout_type is LayoutType.opaque and self.has_known_shape and LAYOUTS.knows(self.layout_id):
            strides = LAYOUTS.layout(self.layout_id).strides(self.known_shape)
        if strides is None or self.shape is None:
            return self.layout_type, self.layout_id
        return LayoutType.strided, tuple(0 if d == 1 else s for d, s in zip(self.shape, strides, strict=True))

    @property
    def is_bytes(self) -> bool:
        """Whether its array is one of bytes, as numpy has none for two elements in a byte, or for opaque layouts."""
        return self.dtype.is_packed or self.layout_type is LayoutType.opaque

    @property
    def is_settled(self) -> bool:
        """Whether dims and layout are known, so that each element has a known address."""
        return self.has_known_shape and self.layout_type in (LayoutType.strided, LayoutType.opaque)

    @property
    def is_constant(self) -> bool:
        return self.property_type is PropertyType.constant

    @property
    def is_host_scalar(self) -> bool:
        return self.property_type is PropertyType.host_scalar

    @property
    def has_known_shape(self) -> bool:
        return self.shape is not None and UNKNOWN_DIM not in self.shape

    @property
    def known_shape(self) -> Shape:
        """The dims; raises ValueError when one of them is unknown (call after shape inference)."""
        if self.shape is None or UNKNOWN_DIM in self.shape:
            raise ValueError(f"logical tensor {self.id} has unknown dims {self.shape}")
        return self.shape

    @property
    def known_strides(self) -> Shape:
        """The strides in elements, row-major where none are given."""
        return self.strides if self.strides is not None else dense_strides(self.known_shape)

    @property
    def type(self) -> TensorType:
        return TensorType(self.dtype, self.known_shape)

    @property
    def storage_elements(self) -> int:
        """Elements from the first to one past the last one that the strides reach."""
        if self.layout_type is LayoutType.opaque:
            return LAYOUTS.layout(self.layout_id).elements(self.known_shape)
        return reach(self.known_shape, self.known_strides)

    @property
    def nbytes(self) -> int:
        """The size of its memory; of s4 and u4 half a byte per element, rounded up."""
        return self.dtype.nbytes(self.storage_elements)

    def with_shape(self, shape: Shape, strides: Shape | None = None) -> LogicalTensor:
        return replace(self, shape=shape, strides=strides)


def check_memory(t: LogicalTensor, *, is_written: bool) -> None:
    """InvalidArguments for a strided tensor with negative strides, larger than any memory, or, if written, with elements that overlap."""
    if t.layout_type in (LayoutType.any, LayoutType.opaque):
        return
    shape, strides = t.known_shape, t.known_strides
    if min(strides, default=0) < 0:
        what = f"strides {strides} of tensor {t.id} run backwards"
        raise InvalidArguments(what, fix="use strides of 0 or more, counted in elements from the first one")
    most = max([reach(tuple(max(d, 1) for d in shape), strides), *strides])
    if t.dtype.nbytes(most) > MAX_BYTES:
        what = f"tensor {t.id} of shape {shape} with strides {strides} is larger than any memory"
        raise InvalidArguments(what, fix="make its dims or strides smaller")
    if is_written and 0 not in shape:
        _check_places(t.id, shape, strides)


def _check_places(id: int, shape: Shape, strides: Shape) -> None:
    """Raises InvalidArguments unless each stride exceeds the extent of all dims with smaller strides."""
    inner = 1
    for stride, dim in sorted((s, d) for s, d in zip(strides, shape, strict=True) if d > 1):
        if stride < inner:
            what = f"elements of output {id} overlap: shape {shape} with strides {strides}"
            raise InvalidArguments(what, fix=f"let the dim of {dim} step over the {inner} elements of the dims inside it")
        inner += (dim - 1) * stride


def _check_kinds(t: LogicalTensor, where: str) -> None:
    if not isinstance(t.id, int) or not 0 <= t.id <= MAX_ID:
        raise InvalidArguments(f"the id is {t.id!r}", where=where, fix=f"use an integer from 0 to {MAX_ID}")
    for name, kind in (("dtype", DType), ("layout_type", LayoutType), ("property_type", PropertyType)):
        if not isinstance(value := getattr(t, name), kind):
            raise InvalidArguments(f"{name} is {value!r}", where=where, fix=f"use one of {', '.join(map(str, kind))}")


def _integers(values: object, name: str, where: str) -> Shape:
    try:
        return tuple(map(index, values))  # type: ignore[call-overload]
    except TypeError as bad:
        raise InvalidArguments(f"{name} is {values!r}", where=where, fix="give a sequence of integers") from bad


def _check_dims(shape: Shape, where: str) -> None:
    if len(shape) > MAX_NDIMS:
        raise InvalidArguments(f"{len(shape)} dims", where=where, fix=f"oneDNN allows {MAX_NDIMS}")
    for dim in shape:
        if dim < 0 and dim != UNKNOWN_DIM:
            raise InvalidArguments(f"a dim of {dim}", where=where, fix="a dim is 0 or more; UNKNOWN_DIM stands for an unknown one")
        if dim > MAX_DIM:
            raise InvalidArguments(f"a dim of {quoted(dim)}", where=where, fix=f"a dim is {MAX_DIM} at most")
