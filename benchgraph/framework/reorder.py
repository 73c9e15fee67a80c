"""Values in and out of layouts, and from one layout to another: numpy copies, padding written as zeros."""

from __future__ import annotations

import numpy as np

from benchgraph.core.arrays import pack, unpack
from benchgraph.core.tensor import Shape, dense_strides
from benchgraph.framework.context import counters
from benchgraph.framework.desc import Bytes, MemoryDesc, Values, describe


def load(data: Bytes, desc: MemoryDesc) -> Values:
    """The elements in the desc's dims, row-major: the memory itself when it is plain, else a copy. s4 and u4: a byte each, a copy."""
    if desc.dtype.is_packed:
        return unpack(data, desc.dtype, desc.shape, dense_strides(desc.shape))
    if desc.is_plain:
        return desc.array(data)
    padded, pads = _padded(desc), tuple(slice(d) for d in desc.shape)
    return np.ascontiguousarray(_by_axis(data, desc).reshape(padded)[pads])


def store(values: Values, data: Bytes, desc: MemoryDesc) -> None:
    """Write elements, in the desc's dims, into memory of its layout."""
    if desc.dtype.is_packed:
        data[...] = pack(values, desc.dtype, dense_strides(desc.shape))
        return
    if desc.is_plain:
        desc.array(data)[...] = values
        return
    padded = _padded(desc)
    if padded != desc.shape:
        values = np.pad(values, [(0, p - d) for p, d in zip(padded, desc.shape, strict=True)])
    target = _by_axis(data, desc)
    target[...] = values.reshape(target.shape)


def convert(src: Bytes, src_desc: MemoryDesc, dst: Bytes, dst_desc: MemoryDesc) -> None:
    """Copy values between memories of one dtype and as many elements, in whatever layouts and ranks."""
    if src_desc == dst_desc or (src_desc.is_plain and dst_desc.is_plain):
        dst[...] = src
        return
    counters().reorders += 1
    counters().reorder_bytes += dst_desc.nbytes
    store(load(src, src_desc).reshape(dst_desc.shape), dst, dst_desc)


def default(data: Bytes, desc: MemoryDesc) -> Bytes:
    """The values in row-major bytes: the memory itself when it is plain, else a copy."""
    if desc.is_plain:
        return data
    flat = describe(desc.dtype, desc.shape)
    made = np.empty(flat.nbytes, np.uint8)
    convert(data, desc, made, flat)
    return made


def _padded(desc: MemoryDesc) -> Shape:
    sizes = dict(desc.layout.blocks)
    return tuple(-(-d // sizes.get(axis, 1)) * sizes.get(axis, 1) for axis, d in enumerate(desc.shape))


def _by_axis(data: Bytes, desc: MemoryDesc) -> Values:
    """Memory as a view whose dims are, axis by axis, the outer steps and then the block, if the axis has one."""
    layout = desc.layout
    places = {axis: [place] for place, axis in enumerate(layout.order)}
    for place, (axis, _) in enumerate(layout.blocks, start=layout.rank):
        places[axis].append(place)
    return desc.array(data).transpose([place for axis in range(layout.rank) for place in places[axis]])
