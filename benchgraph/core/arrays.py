"""Logical tensors as numpy arrays over raw memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.tensor import LogicalTensor


def storage_bytes(tensor: LogicalTensor) -> int:
    """Bytes from the first element to the end of the last one that the strides reach; s4 and u4 take a byte each in numpy."""
    return tensor.storage_elements * tensor.dtype.numpy.itemsize


def view(memory: NDArray[np.uint8], tensor: LogicalTensor) -> NDArray[np.generic]:
    """The tensor in the first bytes of this memory: its dtype, shape and strides."""
    dtype = tensor.dtype.numpy
    strides = [s * dtype.itemsize for s in tensor.known_strides]  # not as_strided: it has no name for ml_dtypes' float8_e5m2
    return np.ndarray(tensor.known_shape, dtype, buffer=memory[: storage_bytes(tensor)], strides=strides)
