"""Dims and strides set by the user, and dense strides in any order of axes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from benchgraph.core.errors import InvalidArguments
from benchgraph.core.tensor import LogicalTensor, Shape, dense_strides


@dataclass(frozen=True)
class NewShape:
    """A change of a tensor. dims: None keeps them. layout: '' is row-major if dims are given, else keeps the strides; a tag such as 'acdb'
    lists the axes from the outermost to the innermost; strides are in elements and need not be dense.
    """

    dims: Shape | None = None
    layout: str | Shape = ""

    def __str__(self) -> str:
        """In --in-shapes's syntax."""
        dims = "" if self.dims is None else "x".join(map(str, self.dims)) or "-"
        layout = self.layout if isinstance(self.layout, str) else "x".join(map(str, self.layout))
        return f"{dims}*{layout}" if layout else dims

    def strides_of(self, id: int, dims: Shape) -> Shape:
        """The new strides of tensor `id` with these dims. Raises InvalidArguments for a layout of another rank."""
        where = f"tensor {id}"
        if not isinstance(self.layout, str):
            if len(self.layout) != len(dims):
                what = f"{len(self.layout)} strides for {len(dims)} dims"
                raise InvalidArguments(what, where=where, fix="give one stride, in elements, per dim")
            return self.layout
        if not self.layout:
            return dense_strides(dims)
        axes = [ord(letter) - ord("a") for letter in self.layout]
        if sorted(axes) != list(range(len(dims))):
            letters = "".join(chr(ord("a") + axis) for axis in range(len(dims)))
            what = f"the tag '{self.layout}' for {len(dims)} dims"
            raise InvalidArguments(what, where=where, fix=f"give each letter of '{letters}' once")
        return strides_in(dims, axes)


def strides_in(shape: Shape, axes: Iterable[int]) -> Shape:
    """Dense strides with the axes in this order, the outermost first; a dim of 0 counts as 1.

    >>> strides_in((2, 3, 4), (0, 2, 1))
    (12, 1, 3)
    """
    strides, step = [0] * len(shape), 1
    for axis in reversed(list(axes)):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def axes_of(t: LogicalTensor) -> list[int]:
    """The axes of a tensor of known shape from the outermost to the innermost; with equal strides, one of size 1 is further in."""
    shape, strides = t.known_shape, t.known_strides
    return sorted(range(len(shape)), key=lambda axis: (-strides[axis], shape[axis] == 1, axis))


def resized(t: LogicalTensor, shape: Shape) -> LogicalTensor:
    """The tensor with other dims, in its order of axes.

    Strides stay, including padding, if only dim 0 changes and is the outermost. The stride of a batch of 1 is arbitrary, so it becomes the
    outermost.
    """
    if not t.has_known_shape:
        return t.with_shape(shape)
    old = t.known_shape
    if shape == old:
        return t
    if t.strides is None or len(shape) != len(old):
        return t.with_shape(shape, None if t.strides is None else dense_strides(shape))
    inner = 1 + sum((d - 1) * s for d, s in zip(shape[1:], t.strides[1:], strict=True))
    if shape[1:] == old[1:] and t.strides[0] >= inner:
        return t.with_shape(shape, t.strides)
    strides = t.strides
    order = sorted(range(len(shape)), key=lambda axis: (-inf if axis == 0 and old[0] == 1 else -strides[axis], old[axis] == 1, axis))
    return t.with_shape(shape, strides_in(shape, order))
