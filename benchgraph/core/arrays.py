"""Logical tensors as numpy arrays.

numpy has no dtype of four bits, so a tensor of s4 or u4 has two forms, and only `pack` and `unpack` here convert between them:

    packed     uint8 of shape (nbytes,), the memory itself: element i, counted along the strides from 0, is in byte i // 2, in the low
               nibble when i is even, in the high one when it is odd. What oneDNN, files, Tensors and compiled partitions hold.
    elements   one to a byte (int8, uint8) in the tensor's shape. Used by fills, references and comparisons.

For every other dtype the two are the same array, of the tensor's dtype, shape and strides.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.tensor import LayoutType, LogicalTensor, Shape, reach

Array: TypeAlias = NDArray[np.generic]

_LOW = 15  # the bits of the low nibble


def view(memory: NDArray[np.uint8], tensor: LogicalTensor) -> NDArray[np.generic]:
    """The tensor in the first bytes of this memory: packed if it has that form, bytes if its layout is opaque."""
    bytes = memory[: tensor.nbytes]
    return bytes if tensor.is_bytes else _strided(bytes, tensor.dtype, tensor.known_shape, tensor.known_strides)


def elements(array: NDArray[np.generic], tensor: LogicalTensor) -> NDArray[np.generic]:
    """The elements of the tensor's array from `view`: a copy if it is packed, else the array itself. InvalidArguments if it is opaque."""
    if tensor.layout_type is LayoutType.opaque:
        where, fix = f"tensor {tensor.id}", "let a Reorder write it to a strided one"
        raise InvalidArguments("its layout is opaque", where=where, fix=fix)
    if not tensor.dtype.is_packed:
        return array
    return unpack(array.view(np.uint8), tensor.dtype, tensor.known_shape, tensor.known_strides)


def put(array: NDArray[np.generic], tensor: LogicalTensor, values: NDArray[np.generic]) -> None:
    """Write elements into the tensor's array from `view`. Nibbles between the strides of a packed one become 0."""
    array[...] = pack(values, tensor.dtype, tensor.known_strides) if tensor.dtype.is_packed else values


def pack(values: NDArray[np.generic], dtype: DType, strides: Shape) -> NDArray[np.uint8]:
    """Elements of s4 or u4 as ceil(n / 2) bytes, n being the elements that the strides (in elements) reach.

    values: any integer type, in the tensor's shape. Nibbles without an element are 0. Raises InvalidArguments for a value outside of the
    dtype's range.
    """
    least, most = dtype.range
    if values.size and not (least <= values.min() and values.max() <= most):
        what = f"values from {values.min()} to {values.max()} for {dtype.value}"
        raise InvalidArguments(what, where="pack", fix=f"keep them within {least:g} to {most:g}")
    count = reach(values.shape, strides)
    nibbles = np.zeros(count + count % 2, np.uint8)
    _strided(nibbles, DType.u8, values.shape, strides)[...] = values  # keeps the low bits of negative values
    nibbles &= _LOW
    return nibbles[0::2] | np.left_shift(nibbles[1::2], 4, dtype=np.uint8)


def unpack(packed: NDArray[np.uint8], dtype: DType, shape: Shape, strides: Shape) -> NDArray[np.generic]:
    """The elements of an s4 or u4 tensor of this shape and strides (in elements), one to a byte; a copy, with the same strides."""
    bytes = packed[: dtype.nbytes(reach(shape, strides))]
    nibbles = np.empty(2 * bytes.size, np.uint8)
    np.bitwise_and(bytes, _LOW, out=nibbles[0::2])
    np.right_shift(bytes, 4, out=nibbles[1::2])
    if dtype is DType.s4:
        nibbles ^= 8  # 8 to 15 mean -8 to -1: flip the sign bit, then subtract it
        nibbles -= 8
    return _strided(nibbles, dtype, shape, strides)


def _strided(memory: NDArray[np.uint8], dtype: DType, shape: Shape, strides: Shape) -> NDArray[np.generic]:
    """An array of the dtype, shape and strides (in elements) over bytes. as_strided does not support ml_dtypes' float8_e5m2."""
    size = dtype.numpy.itemsize
    return np.ndarray(shape, dtype.numpy, buffer=memory, strides=[s * size for s in strides])
