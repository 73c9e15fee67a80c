"""Steps that many decompositions share: a value in another shape or dtype, a reduction, a chain of binary ops."""

from __future__ import annotations

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape, TensorType
from benchgraph.ops.spec import Decomposer


def reshaped(d: Decomposer, value: int, shape: Shape) -> int:
    """The value in another shape; itself when it has that shape."""
    if d.type(value).shape == shape:
        return value
    return d.op("StaticReshape", value, attrs=Attrs(shape=shape, special_zero=False))


def as_dtype(d: Decomposer, value: int, dtype: DType) -> int:
    """The value in another dtype, rounded and saturated as TypeCast does; itself when it has that dtype."""
    return value if d.type(value).dtype is dtype else d.op("TypeCast", value, dtype=dtype)


def stored(d: Decomposer, value: int, want: TensorType) -> int:
    """The value in the dtype and shape of an output."""
    return reshaped(d, as_dtype(d, value, want.dtype), want.shape)


def reduced(d: Decomposer, kind: str, value: int, axes: tuple[int, ...]) -> int:
    """A reduction to f32, axes kept as 1."""
    return d.op(kind, value, attrs=Attrs(axes=axes, keep_dims=True), dtype=DType.f32)


def in_steps(d: Decomposer, value: int, steps: tuple[tuple[str, int], ...], dtype: DType) -> int:
    """Binary ops on a running value, with an operand each; f32, and the last one rounds to dtype."""
    for n, (kind, operand) in enumerate(steps, start=1):
        value = d.op(kind, value, operand, dtype=dtype if n == len(steps) else DType.f32)
    return value
