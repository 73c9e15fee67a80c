"""The table: ATen op -> ops of the library.

A row, which translates one ATen op, is a function of a draft and of the op's arguments by name (`self` is src): tensors are logical
tensors, other arguments are as in the FX graph. It appends ops and returns their results, or raises Unmapped with the reason why PyTorch
runs the node. It need not check what the library's rows check (dtypes, attributes, shapes): `Draft.op` does.

NaN behaves as in PyTorch. The library's ReLU, Maximum and Minimum drop NaN as oneDNN does, unless our attribute propagate_nan is set, as
the rows here do; its other ops keep NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.torch.draft import DTYPES, Draft, Row, Unmapped
from benchgraph.torch.nn_rows import NN_ROWS
from benchgraph.torch.product_rows import PRODUCT_ROWS

aten = torch.ops.aten
Operand = LogicalTensor | float | int


def unary(kind: str, **attrs: Any) -> Callable[..., LogicalTensor]:
    """dst = kind(src)."""
    return lambda d, src: d.op(kind, src, **attrs)


def _rsqrt(d: Draft, src: LogicalTensor) -> LogicalTensor:
    return d.op("Reciprocal", d.op("Sqrt", src))


def _lift(d: Draft, x: Operand) -> LogicalTensor:
    """An operand; a number becomes a constant in f32, as PyTorch computes."""
    if isinstance(x, LogicalTensor):
        return x
    if isinstance(x, bool) or not isinstance(x, int | float):
        raise Unmapped(f"an operand is a {type(x).__name__}")
    return d.literal(x)


def _promoted(a: Operand, b: Operand) -> DType:
    """The dtype of a op b in PyTorch: the common one, or f32 if one of them is. A 0-d tensor has lower priority."""
    tensors = [t for t in (a, b) if isinstance(t, LogicalTensor)]
    full = [t for t in tensors if t.shape] or tensors
    dtypes = {t.dtype for t in full}
    if not all(t.dtype.is_float for t in tensors):
        raise Unmapped("operands that are no floats")
    if len(dtypes) > 1 and DType.f32 not in dtypes:
        raise Unmapped(f"operands of {' and '.join(sorted(t.value for t in dtypes))}")
    return dtypes.pop() if len(dtypes) == 1 else DType.f32


def _combined(d: Draft, kind: str, a: Operand, b: Operand, alpha: float) -> LogicalTensor:
    dtype = _promoted(a, b)
    if alpha != 1:
        b = alpha * b if isinstance(b, int | float) else d.op("Multiply", b, d.literal(alpha))
    return d.op(kind, _lift(d, a), _lift(d, b), dtype=dtype)


def binary(kind: str) -> Row:
    """dst = kind(src, alpha * other)."""
    return lambda d, src, other, alpha=1: _combined(d, kind, src, other, alpha)


def _rsub(d: Draft, src: Operand, other: Operand, alpha: float = 1) -> LogicalTensor:
    return _combined(d, "Subtract", other, src, alpha)


def _comparison(kind: str, *, swapped: bool = False) -> Row:
    """A comparison: boolean results, operands of one dtype."""

    def row(d: Draft, src: Operand, other: Operand) -> LogicalTensor:
        tensors = [t for t in (src, other) if isinstance(t, LogicalTensor)]
        a, b = (t if isinstance(t, LogicalTensor) else d.literal(t, tensors[0].dtype) for t in (src, other))
        if {a.dtype, b.dtype} == {DType.bf16, DType.f32} or not tensors[0].dtype.is_float:
            raise Unmapped(f"a comparison of {a.dtype.value} with {b.dtype.value}")
        return d.op(kind, *((b, a) if swapped else (a, b)), dtype=DType.boolean)

    return row


def _elu(d: Draft, src: LogicalTensor, alpha: float, scale: float, input_scale: float) -> LogicalTensor:
    if (scale, input_scale) != (1, 1):
        raise Unmapped(f"scales {scale} and {input_scale}")
    return d.op("Elu", src, alpha=float(alpha))


def _softplus(d: Draft, src: LogicalTensor, beta: float, threshold: float) -> LogicalTensor:
    if threshold < 20:  # above it PyTorch is linear; from 20 on the two are equal in f32
        raise Unmapped(f"a threshold of {threshold}")
    return d.op("SoftPlus", src, beta=float(beta))


def _clamp(d: Draft, src: LogicalTensor, min: float | None = None, max: float | None = None) -> LogicalTensor:
    """NaN stays, a missing bound is infinite, and with both the wrong way round everything becomes max."""
    low, high = -math.inf if min is None else float(min), math.inf if max is None else float(max)
    if math.isnan(low) or math.isnan(high):
        raise Unmapped("a bound that is NaN")
    return d.op("Clamp", src, min=low if low < high else high, max=high)


def _extreme(kind: str) -> Row:
    """The maximum or minimum of two tensors, NaN if either is."""
    return lambda d, src, other: d.op(kind, src, other, dtype=_promoted(src, other), propagate_nan=True)


_POWERS: Mapping[float, Callable[..., LogicalTensor]] = {2: unary("Square"), 0.5: unary("Sqrt"), -1: unary("Reciprocal"), -0.5: _rsqrt}


def _pow(d: Draft, src: LogicalTensor, exponent: float) -> LogicalTensor:
    """PyTorch computes x**0.5 by sqrt in f32 and bf16 (NaN for -inf, -0 for -0), as the library's Pow does with beta 0.5, but by pow in f16
    (inf for -inf, 0 for -0)."""
    if src.dtype is DType.f16 and abs(exponent) == 0.5:
        inverse = d.op("Pow", src, beta=-0.5)
        return inverse if exponent < 0 else d.op("Reciprocal", inverse)
    power = _POWERS.get(exponent)
    return power(d, src) if power is not None else d.op("Pow", src, beta=float(exponent))


def reduction(kind: str) -> Row:
    """dst = src reduced along dim; along all axes if there is no dim."""

    def row(
        d: Draft, src: LogicalTensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, dtype: torch.dtype | None = None
    ) -> LogicalTensor:
        if dtype is not None and DTYPES.get(dtype) is not src.dtype:
            raise Unmapped(f"a reduction of {src.dtype.value} in {dtype}")
        axes = (dim,) if isinstance(dim, int) else tuple(dim or range(src.ndims))
        return d.op(kind, src, axes=axes, keep_dims=keepdim) if axes else d.op("Reorder", src)

    return row


def _softmax(kind: str) -> Row:
    """A row of only -inf gives NaN."""
    return lambda d, src, dim, half_to_float: d.op(kind, src, axis=dim, dtype=DType.f32 if half_to_float else src.dtype)


def _to_copy(d: Draft, src: LogicalTensor, dtype: torch.dtype | None, device: torch.device | None, **layout: Any) -> LogicalTensor:
    to = src.dtype if dtype is None else DTYPES.get(dtype, DType.undef)
    if device is not None and device.type != "cpu":
        raise Unmapped(f"a copy to {device}")
    return d.op("Reorder", src) if to is src.dtype else d.op("TypeCast", src, dtype=to)


_UNARY = {
    aten.abs: "Abs", aten.exp: "Exp", aten.hardswish: "HardSwish", aten.log: "Log", aten.mish: "Mish", aten.reciprocal: "Reciprocal",
    aten.round: "Round", aten.sigmoid: "Sigmoid", aten.sqrt: "Sqrt", aten.tanh: "Tanh",
}  # fmt: skip
_BINARY = {
    aten.add.Tensor: "Add", aten.sub.Tensor: "Subtract", aten.mul.Tensor: "Multiply", aten.div.Tensor: "Divide",
    aten.add.Scalar: "Add", aten.sub.Scalar: "Subtract", aten.mul.Scalar: "Multiply", aten.div.Scalar: "Divide",
}  # fmt: skip
_REDUCTIONS = {
    aten.sum.dim_IntList: "ReduceSum", aten.mean.dim: "ReduceMean", aten.sum.default: "ReduceSum", aten.mean.default: "ReduceMean",
    aten.amax.default: "ReduceMax", aten.amin.default: "ReduceMin", aten.prod.dim_int: "ReduceProd",
}  # fmt: skip

ROWS: Mapping[Any, Row] = {
    **{op.default: unary(kind) for op, kind in _UNARY.items()},
    **{op: binary(kind) for op, kind in _BINARY.items()},
    **{op: reduction(kind) for op, kind in _REDUCTIONS.items()},
    aten.rsub.Scalar: _rsub,
    aten.rsub.Tensor: _rsub,
    aten.ge.Tensor: _comparison("GreaterEqual"),
    aten.ge.Scalar: _comparison("GreaterEqual"),
    aten.le.Tensor: _comparison("GreaterEqual", swapped=True),
    aten.le.Scalar: _comparison("GreaterEqual", swapped=True),
    aten.where.self: lambda d, condition, src, other: d.op("Select", condition, src, other, dtype=src.dtype),
    aten.relu.default: unary("ReLU", propagate_nan=True),
    aten.maximum.default: _extreme("Maximum"),
    aten.minimum.default: _extreme("Minimum"),
    aten.neg.default: lambda d, src: d.op("Multiply", src, d.literal(-1.0)),
    aten.rsqrt.default: _rsqrt,
    aten.square.default: unary("Square"),
    aten.silu.default: lambda d, src: d.op("Multiply", src, d.op("Sigmoid", src)),
    aten.gelu.default: lambda d, src, approximate: d.op("GELU", src, mode="gelu_tanh" if approximate == "tanh" else "gelu_erf"),
    aten.elu.default: _elu,
    aten.leaky_relu.default: lambda d, src, negative_slope: d.op("LeakyReLU", src, alpha=float(negative_slope)),
    aten.softplus.default: _softplus,
    aten.hardsigmoid.default: unary("HardSigmoid", alpha=1 / 6, beta=0.5),
    aten.hardtanh.default: lambda d, src, min_val, max_val: _clamp(d, src, min_val, max_val),
    aten.clamp.default: _clamp,
    aten.clamp_min.default: _clamp,
    aten.clamp_max.default: _clamp,
    aten.pow.Tensor_Scalar: _pow,
    aten._softmax.default: _softmax("SoftMax"),
    aten._log_softmax.default: _softmax("LogSoftmax"),
    aten.cat.default: lambda d, tensors, dim: d.op("Concat", *tensors, axis=dim),
    aten.clone.default: lambda d, src, memory_format: d.op("Reorder", src),
    aten._to_copy.default: _to_copy,
    **PRODUCT_ROWS,
    **NN_ROWS,
}
