"""Logical tensors: what a tensor is, without its data. Immutable; a new one with the same id carries new facts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from math import prod
from typing import TypeAlias

from benchgraph.core.dtypes import DType

UNKNOWN_DIM = -(2**63)  # DNNL_GRAPH_UNKNOWN_DIM
MAX_NDIMS = 12  # DNNL_MAX_NDIMS

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
    """What shape inference and costs need of a tensor: its dtype and its dims (all known)."""

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


@dataclass(frozen=True)
class LogicalTensor:
    """A tensor's metadata.

    shape: None when even the rank is unknown; dims of unknown size are UNKNOWN_DIM.
    strides: in elements, None when unknown (row-major is meant once the shape is known).
    layout_id: only for opaque layouts.
    """

    id: int
    dtype: DType
    shape: Shape | None = None
    strides: Shape | None = None
    layout_type: LayoutType = LayoutType.strided
    property_type: PropertyType = PropertyType.undef
    layout_id: int = 0

    @property
    def is_constant(self) -> bool:
        return self.property_type is PropertyType.constant

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
        if 0 in self.known_shape:
            return 0
        return 1 + sum((d - 1) * s for d, s in zip(self.known_shape, self.known_strides, strict=True))

    @property
    def nbytes(self) -> int:
        return self.dtype.nbytes(self.storage_elements)

    def with_shape(self, shape: Shape, strides: Shape | None = None) -> LogicalTensor:
        return replace(self, shape=shape, strides=strides)
