"""Loads, stores and converts values between layouts: numpy copies, padding written as zeros."""

from __future__ import annotations

import numpy as np

from benchgraph.core.arrays import pack, unpack
from benchgraph.core.tensor import dense_strides
from benchgraph.framework.counters import counters
from benchgraph.framework.memory_desc import Bytes, MemoryDesc, Values, describe


def load(data: Bytes, desc: MemoryDesc) -> Values:
    """The elements with the desc's dims, row-major: the memory itself if it is plain, else a copy. s4 and u4: a byte each, a copy."""
    if desc.dtype.is_packed:
        return unpack(data, desc.dtype, desc.shape, dense_strides(desc.shape))
    if desc.is_plain:
        return desc.array(data)
    return np.ascontiguousarray(_by_axis(data, desc).reshape(desc.padded)[desc.without_padding])


def store(values: Values, data: Bytes, desc: MemoryDesc) -> None:
    """Write elements with the desc's dims to memory of its layout."""
    if desc.dtype.is_packed:
        data[...] = pack(values, desc.dtype, dense_strides(desc.shape))
        return
    if desc.is_plain:
        desc.array(data)[...] = values
        return
    if desc.padded != desc.shape:
        whole = np.zeros(desc.padded, values.dtype)
        whole[desc.without_padding] = values
        values = whole
    target = _by_axis(data, desc)
    target[...] = values.reshape(target.shape)


def convert(src: Bytes, src_desc: MemoryDesc, dst: Bytes, dst_desc: MemoryDesc) -> None:
    """Copy values between memories of the same dtype and number of elements, in any layouts and ranks."""
    if src_desc == dst_desc or (src_desc.is_plain and dst_desc.is_plain):
        dst[...] = src
        return
    counters().reorders += 1
    counters().reorder_bytes += dst_desc.nbytes
    store(load(src, src_desc).reshape(dst_desc.shape), dst, dst_desc)


def default(data: Bytes, desc: MemoryDesc) -> Bytes:
    """The values in row-major bytes: the memory itself if it is plain, else a copy."""
    if desc.is_plain:
        return data
    flat = describe(desc.dtype, desc.shape)
    made = np.empty(flat.nbytes, np.uint8)
    convert(data, desc, made, flat)
    return made


def _by_axis(data: Bytes, desc: MemoryDesc) -> Values:
    """Memory as a view whose dims are, axis by axis, the outer dim and then the block."""
    return desc.array(data).transpose(desc.by_axis)
