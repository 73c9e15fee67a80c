"""Tensors: a logical tensor with memory."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benchgraph.core.arrays import storage_bytes, view
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.tensor import LayoutType, LogicalTensor, PropertyType
from benchgraph.library.engine import Engine


class Tensor:
    """Data of a logical tensor whose dims are known and whose layout is strided.

    handle: a numpy array of the dtype, shape and strides that the logical tensor says, used in place; None: the engine allocates, and
    frees with the tensor. `array` is that memory; writing to it is writing to the tensor.
    """

    def __init__(self, logical: LogicalTensor, engine: Engine, handle: NDArray[np.generic] | None = None) -> None:
        where = f"Tensor {logical.id}"
        if logical.property_type is PropertyType.host_scalar:
            raise InvalidArguments("it is a host scalar", where=where, fix="use Tensor.scalar")
        if not logical.has_known_shape or logical.layout_type is not LayoutType.strided:
            fix = "ask the compiled partition for its logical tensor"
            raise InvalidArguments("its dims must be known and its layout strided", where=where, fix=fix)
        self.logical, self.engine = logical, engine
        self.array = view(engine.allocate(storage_bytes(logical)), logical) if handle is None else _checked(logical, handle, where)

    @classmethod
    def scalar(cls, logical: LogicalTensor, value: ArrayLike, engine: Engine | None = None) -> Tensor:
        """The tensor of a host scalar, holding a copy of the value. Raises InvalidArguments for any other logical tensor."""
        if logical.property_type is not PropertyType.host_scalar or logical.shape != ():
            raise InvalidArguments("it is no host scalar of rank 0", where=f"Tensor {logical.id}", fix="use Tensor(...)")
        self = cls.__new__(cls)
        self.logical, self.engine = logical, engine or Engine()
        self.array = np.array(value, logical.dtype.numpy).reshape(())
        return self


def _checked(logical: LogicalTensor, handle: NDArray[np.generic], where: str) -> NDArray[np.generic]:
    want = tuple(s * logical.dtype.numpy.itemsize for s in logical.known_strides)
    if handle.dtype != logical.dtype.numpy or handle.shape != logical.known_shape:
        got = f"a {handle.dtype} array of shape {handle.shape}"
        raise InvalidArguments(got, where=where, fix=f"give {logical.dtype.numpy} of shape {logical.known_shape}")
    if prod(handle.shape) and any(d != 1 and s != w for d, s, w in zip(handle.shape, handle.strides, want, strict=True)):
        raise InvalidArguments(f"an array with byte strides {handle.strides}", where=where, fix=f"give one with strides {want}")
    return handle
