"""The attribute `axis`: one dim of src, counted from the end when negative; and shapes along axes."""

from __future__ import annotations

from benchgraph.core.attrs import Attrs
from benchgraph.core.errors import InvalidShape
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops.spec import Call


def axis_of(attrs: Attrs, rank: int, name: str = "axis") -> int:
    """The attribute as 0 <= axis < rank. Raises InvalidShape."""
    axis = attrs.integer(name)
    if not -rank <= axis < rank:
        fix = f"use {-rank} to {rank - 1}" if rank else "give src a rank"
        raise InvalidShape(f"{name} {axis} is out of range for src of rank {rank}", fix=fix)
    return axis % rank


def axis_of_call(call: Call) -> int:
    """The axis of the first input."""
    return axis_of(call.attrs, len(call.ins[0].shape))


def extent(call: Call) -> int:
    """The size of the first input along its axis."""
    return call.ins[0].shape[axis_of_call(call)]


def infer_same(attrs: Attrs, ins: tuple[TensorType, ...]) -> tuple[Shape, ...]:
    """dst has the shape of src. Raises InvalidShape for an axis out of range."""
    axis_of(attrs, len(ins[0].shape))
    return (ins[0].shape,)


def kept(shape: Shape, axes: tuple[int, ...]) -> Shape:
    """The shape with 1 along these axes."""
    return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
