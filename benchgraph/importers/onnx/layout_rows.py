"""Rows of the table of rows.py: the same elements at other indices, or several times."""

from __future__ import annotations

from itertools import accumulate
from math import prod

import numpy as np

from benchgraph.core.tensor import LogicalTensor, Shape
from benchgraph.importers.onnx.draft import Draft, Node, Row, Unmapped, axes_of, shape_of
from benchgraph.importers.onnx.parts import TAKEN_OUT, Part, part_of
from benchgraph.ops.concat import MOST


def reshaped(d: Draft, x: LogicalTensor, shape: Shape) -> LogicalTensor:
    return x if shape == shape_of(x) else d.op("StaticReshape", x, shape=shape, special_zero=False)


def _reshape(d: Draft, node: Node) -> LogicalTensor:
    """Of values in that shape already, of whatever type, nothing."""
    x, shape, special = d.tensor(node, 0), d.integers(node, 1), not node.get("allowzero", 0)
    own = shape_of(x)
    sizes = [own[i] if special and size == 0 and i < len(own) else size for i, size in enumerate(shape)]
    given = prod(size for size in sizes if size != -1)
    if given and own == tuple(prod(own) // given if size == -1 else size for size in sizes):
        return x
    return d.op("StaticReshape", x, shape=shape, special_zero=special)


def _flatten(d: Draft, node: Node) -> LogicalTensor:
    x, axis = d.tensor(node, 0), node.get("axis", 1)
    shape = shape_of(x)
    axis = axis + len(shape) if axis < 0 else axis
    return reshaped(d, x, (prod(shape[:axis]), prod(shape[axis:])))


def _squeeze(d: Draft, node: Node) -> LogicalTensor:
    x = d.tensor(node, 0)
    shape = shape_of(x)
    gone = axes_of(d.integers(node, 1), len(shape)) if node.has(1) else tuple(i for i, size in enumerate(shape) if size == 1)
    return reshaped(d, x, tuple(size for i, size in enumerate(shape) if i not in gone))


def _unsqueeze(d: Draft, node: Node) -> LogicalTensor:
    x, axes = d.tensor(node, 0), d.integers(node, 1)
    rank = len(shape_of(x)) + len(axes)
    new, sizes = axes_of(axes, rank), iter(shape_of(x))
    return reshaped(d, x, tuple(1 if i in new else next(sizes) for i in range(rank)))


def _transposed(d: Draft, node: Node) -> LogicalTensor:
    x = d.tensor(node, 0)
    return d.op("StaticTranspose", x, order=tuple(node.get("perm", range(len(shape_of(x)))[::-1])))


def _concat(d: Draft, node: Node) -> LogicalTensor:
    return d.op("Concat", *d.tensors(node), axis=node.get("axis"))


def _same(d: Draft, node: Node) -> LogicalTensor:
    return d.tensor(node, 0)


def _dropout(d: Draft, node: Node) -> LogicalTensor:
    """At inference nothing is dropped."""
    if d.scalar(node, 2, 0.0):
        raise Unmapped("it drops at random, in training mode")
    if len(node.outputs) > 1 and node.outputs[1]:
        raise Unmapped("its mask is a result")
    return d.tensor(node, 0)


def broadcast_to(d: Draft, x: LogicalTensor, shape: Shape) -> LogicalTensor:
    """x repeated along dims of size 1; a constant has its data so."""
    if shape == shape_of(x):
        return x
    if x.id in d.data:
        return d.literal(np.broadcast_to(d.data[x.id], shape), x.dtype)
    x = reshaped(d, x, (1,) * (len(shape) - len(shape_of(x))) + shape_of(x))
    counts = tuple(1 if size == own else size for size, own in zip(shape, shape_of(x), strict=True))
    return _repeated(d, x, counts)


def _repeated(d: Draft, x: LogicalTensor, counts: Shape) -> LogicalTensor:
    """x several times along each dim: by Concat, which has a bound, or, of dims of size 1, a product with ones."""
    for axis, count in enumerate(counts):
        if count == 1:
            continue
        if count <= MOST:
            x = d.op("Concat", *(x,) * count, axis=axis)
        elif shape_of(x)[axis] == 1:
            ones = tuple(count if i == axis else 1 for i in range(len(counts)))
            x = d.op("Multiply", x, d.literal(np.broadcast_to(np.float64(1), ones), x.dtype))
        else:
            raise Unmapped(f"{count} times the same along axis {axis}, where Concat takes {MOST}")
    return x


def _expand(d: Draft, node: Node) -> LogicalTensor:
    x = d.tensor(node, 0)
    return broadcast_to(d, x, np.broadcast_shapes(shape_of(x), d.integers(node, 1)))


def _tile(d: Draft, node: Node) -> LogicalTensor:
    return _repeated(d, d.tensor(node, 0), d.integers(node, 1))


def _padded(d: Draft, node: Node) -> LogicalTensor:
    """Constants around src, by Concat."""
    x, pads = d.tensor(node, 0), d.integers(node, 1)
    shape = shape_of(x)
    axes = axes_in_order(d.integers(node, 3), len(shape)) if node.has(3) else tuple(range(len(shape)))
    if node.get("mode", b"constant") != b"constant" or min(pads, default=0) < 0:
        raise Unmapped("padding with other elements than a constant, or less than none")
    value = d.scalar(node, 2, 0.0)
    for axis, before, after in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        own = shape_of(x)
        sides = [(*own[:axis], size, *own[axis + 1 :]) for size in (before, after)]
        first, last = ([d.literal(np.broadcast_to(np.float64(value), side), x.dtype)] if side[axis] else [] for side in sides)
        if first or last:
            x = d.op("Concat", *first, x, *last, axis=axis)
    return x


def axes_in_order(axes: Shape, rank: int) -> Shape:
    """Axes counted from the front, in their own order."""
    axes_of(axes, rank)
    return tuple(a % rank for a in axes)


def _sliced(d: Draft, node: Node) -> LogicalTensor:
    """Everything: no op leaves elements out."""
    x = d.tensor(node, 0)
    shape = shape_of(x)
    starts, ends = d.integers(node, 1), d.integers(node, 2)
    axes = axes_in_order(d.integers(node, 3), len(shape)) if node.has(3) else tuple(range(len(starts)))
    steps = d.integers(node, 4) if node.has(4) else (1,) * len(starts)
    kept = [range(shape[a])[slice(*part)] for a, *part in zip(axes, starts, ends, steps, strict=True)]
    for axis, each in zip(axes, kept, strict=True):
        x = _part(d, node, x, axis, each)
    return x


def _part(d: Draft, node: Node, x: LogicalTensor, axis: int, indices: range) -> LogicalTensor:
    """Adjacent elements along an axis, where nothing needs others."""
    if indices != range(shape_of(x)[axis]) and (indices.step != 1 or not indices or not TAKEN_OUT.issuperset(d.readers[node.inputs[0]])):
        raise Unmapped("a part of a tensor, which no op takes out")
    return part_of(d, x, Part(axis, indices.start, indices.stop))


def _split(d: Draft, node: Node) -> LogicalTensor:
    x, count = d.tensor(node, 0), len(node.outputs)
    shape = shape_of(x)
    axis = node.get("axis", 0) % len(shape)
    even = -(-shape[axis] // count)
    sizes = d.integers(node, 1) if node.has(1) else (*(even,) * (count - 1), shape[axis] - even * (count - 1))
    ends = list(accumulate(sizes))
    parts = [_part(d, node, x, axis, range(end - size, end)) for size, end in zip(sizes, ends, strict=True)]
    for name, part in zip(node.outputs, parts, strict=True):
        if name:
            d.define(name, part)
    return parts[0]


def _gathered(d: Draft, node: Node) -> LogicalTensor:
    """Adjacent elements along the axis, in order."""
    x, indices = d.tensor(node, 0), d.array(node, 1)
    shape = shape_of(x)
    axis = node.get("axis", 0) % len(shape)
    taken = [i % shape[axis] for i in np.ravel(indices).tolist()]
    part = range(taken[0], taken[0] + len(taken)) if taken else range(0)
    if taken != [*part]:
        raise Unmapped("elements at some indices, which no op takes out")
    return reshaped(d, _part(d, node, x, axis, part), (*shape[:axis], *indices.shape, *shape[axis + 1 :]))


def _depth_to_space(d: Draft, node: Node) -> LogicalTensor:
    x, size = d.tensor(node, 0), node.get("blocksize")
    n, c, h, w = shape_of(x)
    is_crd = node.get("mode", b"DCR") == b"CRD"
    apart = (n, c // size**2, size, size, h, w) if is_crd else (n, size, size, c // size**2, h, w)
    order = (0, 1, 4, 2, 5, 3) if is_crd else (0, 3, 4, 1, 5, 2)
    turned = d.op("StaticTranspose", reshaped(d, x, apart), order=order)
    return reshaped(d, turned, (n, c // size**2, h * size, w * size))


def _space_to_depth(d: Draft, node: Node) -> LogicalTensor:
    x, size = d.tensor(node, 0), node.get("blocksize")
    n, c, h, w = shape_of(x)
    apart = reshaped(d, x, (n, c, h // size, size, w // size, size))
    order = (0, 1, 3, 5, 2, 4) if node.get("mode", b"DCR") == b"CRD" else (0, 3, 5, 1, 2, 4)
    return reshaped(d, d.op("StaticTranspose", apart, order=order), (n, c * size**2, h // size, w // size))


LAYOUT_ROWS: dict[str, Row] = {
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transposed,
    "Concat": _concat,
    "Identity": _same,
    "Dropout": _dropout,
    "Expand": _expand,
    "Tile": _tile,
    "Pad": _padded,
    "Slice": _sliced,
    "Split": _split,
    "Gather": _gathered,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
}
