"""The gradient of weights in parts: each sums the windows of one block, so that what a block reads stays in a core's cache for all taps.

    part[b, t, k, c] = sum over n, o of block b of src[n, o*s + t*d, k] * dst[n, o, c]        channels last, no padding
    wei[t, k, c]     = sum over b of part[b, t, k, c]

As one sum, every tap would read all of src and dst again from memory. Blocks depend only on shapes and their parts are added in a fixed
order, so the bits of a result do not depend on threads.

Rows of the product are the channels k. Where they are few, the taps along x become channels (im2col along x): src is copied to
[N, .., windows, taps*C], whose windows have size 1 and stride 1.

Dot products of narrow floats take several windows along x at a time. They read a transposed src: x last, and under a stride s elements
that are s apart are neighbours, [N, .., channels, s, X / s].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np

from benchgraph.core.divisors import divisors
from benchgraph.core.tensor import Shape
from benchgraph.ops.convolution.depthwise import in_block, positions
from benchgraph.ops.convolution.problem import Problem, by_weights, channel
from benchgraph.ops.laws import Reals
from benchgraph.ops.spec import Indices
from benchgraph.tir.build import add, floordiv, mod, mul

BLOCK = 1 << 16  # elements of src and dst that a block reads: 256 KiB, half of a small L2
READ_PER_SUM = 4  # fewest elements read for each element of the parts: below, writing and adding the parts costs what they save
# With fewer rows than this, a microkernel call waits for its loads of dst. With more, copying all of src does not pay.
FEW_CHANNELS = 8


def joins_taps(p: Problem) -> bool:
    """Whether the taps along x should become channels."""
    return p.groups == 1 and p.group_in < FEW_CHANNELS and p.kernel[-1] > 1


def joined(p: Problem) -> Problem:
    """The same problem over a source with the taps along x as channels: [N, .., windows, taps*C]."""
    w, channels = p.windows, p.kernel[-1] * p.group_in
    kernel = (*p.kernel[:-1], 1)
    plain = replace(w, kernel=kernel, strides=(*w.strides[:-1], 1), dilations=(*w.dilations[:-1], 1))
    return replace(p, src=(*p.src[:-2], p.dst[-2], channels), wei=(*kernel, channels, p.dst[-1]), windows=plain)


def blocks(p: Problem) -> Shape:
    """Images and windows of a part along each dim; they divide those of dst. All of them, where parts would cost more than they save.

    A block is as large as the cache allows, grown along the innermost dims first.
    """
    dims = p.dst[:-1]
    per_window = p.dst[-1] + p.src[-1] * prod(p.windows.strides)
    most = prod(dims) * per_window // (READ_PER_SUM * prod(p.wei))  # parts
    allowed = [block for block in _nested(dims) if prod(dims) <= most * prod(block)] or [dims]
    fitting = [block for block in allowed if prod(block) * per_window <= BLOCK]
    return fitting[-1] if fitting else allowed[0]


def _nested(dims: Shape) -> Iterator[Shape]:
    """Blocks of growing size: all of the inner dims, a divisor of one, 1 of the outer ones."""
    for axis in range(len(dims) - 1, -1, -1):
        for size in divisors(dims[axis]):
            yield (*(1,) * axis, size, *dims[axis + 1 :])


def counts(p: Problem, sizes: Shape) -> Shape:
    """Blocks along images and windows."""
    return tuple(n // size for n, size in zip(p.dst[:-1], sizes, strict=True))


def parts_shape(p: Problem, sizes: Shape) -> Shape:
    """[blocks.., taps.., channels, OC]."""
    return (*counts(p, sizes), *p.wei)


def contraction(p: Problem, sizes: Shape, at: Indices, over: Indices, *, is_transposed: bool) -> tuple[Indices, Indices]:
    """The index of src and of dst for an element of a part and for the reduced axes."""
    (n, *o), (*t, k, c) = in_block(sizes, at, over)
    *others, x = positions(p, tuple(o), tuple(t))
    if not is_transposed:
        return (n, *others, x, channel(p, c, k)), (n, *o, c)
    stride, reach = p.windows.strides[-1], mul(t[-1], p.windows.dilations[-1])
    return (n, *others, channel(p, c, k), mod(reach, stride), add(o[-1], floordiv(reach, stride))), (n, *o, c)


def transposed_layout(p: Problem) -> tuple[Shape, Shape, Shape]:
    """How to transpose src: its shape with x as long as the windows need, the shape with x split by the stride, and the order of dims."""
    stride, rank = p.windows.strides[-1], len(p.src)
    length = p.dst[-2] + (p.windows.reach[-1] - 1) // stride
    before, channels = p.src[:-2], p.src[-1]
    order = (*range(rank - 2), rank, rank - 1, rank - 2)
    return (*before, length * stride, channels), (*before, length, stride, channels), order


def untransposed(src: Reals) -> Reals:
    """A transposed src with its channels last again."""
    back = np.moveaxis(src, (-1, -3), (-3, -1))
    return back.reshape(*back.shape[:-3], back.shape[-3] * back.shape[-2], back.shape[-1])


def parts(p: Problem, sizes: Shape, src: Reals, dst: Reals) -> Reals:
    """The reference: by weights, with a dst that is 0 outside of the block. Both are finite."""
    sums = np.zeros(parts_shape(p, sizes))
    for at in np.ndindex(*counts(p, sizes)):
        block = tuple(slice(i * size, (i + 1) * size) for i, size in zip(at, sizes, strict=True))
        alone = np.zeros(p.dst)
        alone[block] = dst[block]
        sums[at] = by_weights(p, src, alone)
    return sums
