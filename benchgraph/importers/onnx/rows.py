"""The table: ONNX op -> ops of the library.

A row is a function of a draft and of the node. It appends ops and returns the first result, or raises Unmapped with the reason. It need
not check what the library's rows check: `Draft.op` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.importers.onnx.attention_rows import ATTENTION_ROWS
from benchgraph.importers.onnx.contrib_rows import CONTRIB_ROWS
from benchgraph.importers.onnx.draft import DATA_TYPES, Draft, Node, Row, Unmapped, axes_of, shape_of
from benchgraph.importers.onnx.layout_rows import LAYOUT_ROWS, broadcast_to, reshaped
from benchgraph.importers.onnx.nn_rows import NN_ROWS
from benchgraph.importers.onnx.quantised_rows import QUANTISED_ROWS
from benchgraph.ops.spec import F


def unary(kind: str, **attrs: Any) -> Row:
    """dst = kind(src)."""
    return lambda d, node: d.op(kind, d.tensor(node, 0), **attrs)


def with_numbers(kind: str, /, **names: tuple[str, float]) -> Row:
    """A pointwise op with numbers: the library's name -> ONNX's, and its default."""

    def row(d: Draft, node: Node) -> LogicalTensor:
        attrs = {name: float(node.get(*given)) for name, given in names.items()}
        return d.op(kind, d.tensor(node, 0), **attrs)

    return row


def joined(kind: str, **attrs: Any) -> Row:
    """A binary op of two or more operands, from left to right; of one it is the operand itself."""

    def row(d: Draft, node: Node) -> LogicalTensor:
        first, *others = d.tensors(node)
        for t in others:
            first = d.op(kind, first, t, **attrs)
        return first

    return row


def _negated(d: Draft, node: Node) -> LogicalTensor:
    x = d.tensor(node, 0)
    return d.op("Multiply", x, d.literal(-1.0, x.dtype))


def _mean(d: Draft, node: Node) -> LogicalTensor:
    return d.op("Multiply", joined("Add")(d, node), d.literal(1 / len(d.tensors(node))))


def _clipped(d: Draft, node: Node) -> LogicalTensor:
    """A bound that is left out is infinite; with both the wrong way round everything becomes max."""
    low, high = d.scalar(node, 1, -np.inf), d.scalar(node, 2, np.inf)
    return d.op("Clamp", d.tensor(node, 0), min=min(low, high), max=high)


def _power(d: Draft, node: Node) -> LogicalTensor:
    """The exponent is an attribute."""
    return d.op("Pow", d.tensor(node, 0), beta=d.scalar(node, 1, 0.0))


def _gelu(d: Draft, node: Node) -> LogicalTensor:
    mode = {b"none": "gelu_erf", b"tanh": "gelu_tanh"}[node.get("approximate", b"none")]
    return d.op("GELU", d.tensor(node, 0), mode=mode)


def _swish(d: Draft, node: Node) -> LogicalTensor:
    x, alpha = d.tensor(node, 0), float(node.get("alpha", 1.0))
    gate = x if alpha == 1 else d.op("Multiply", x, d.literal(alpha))
    return d.op("Multiply", x, d.op("Sigmoid", gate))


def _prelu(d: Draft, node: Node) -> LogicalTensor:
    """A slope with fewer dims has those behind."""
    x, slope = d.tensors(node)
    shape = (1,) * (len(shape_of(x)) - len(shape_of(slope))) + shape_of(slope)
    return d.op("PReLU", x, reshaped(d, slope, shape), data_format="NCX", per_channel_broadcast=False)


def _selected(d: Draft, node: Node) -> LogicalTensor:
    """A condition of more elements than either source, as of two numbers, needs one of them in its shape."""
    condition, a, b = d.tensors(node)
    shape = np.broadcast_shapes(*map(shape_of, (condition, a, b)))
    if shape != np.broadcast_shapes(shape_of(a), shape_of(b)):
        a, b = (broadcast_to(d, a, shape), b) if a.id in d.data or b.id not in d.data else (a, broadcast_to(d, b, shape))
    return d.op("Select", condition, a, b, dtype=a.dtype)


def _cast(d: Draft, node: Node) -> LogicalTensor:
    return _converted(d, d.tensor(node, 0), DATA_TYPES.get(node.get("to"), DType.undef))


def _cast_like(d: Draft, node: Node) -> LogicalTensor:
    return _converted(d, d.tensor(node, 0), d.tensor(node, 1).dtype)


def _converted(d: Draft, x: LogicalTensor, dtype: DType) -> LogicalTensor:
    """To floats; floats are cut off towards 0 by no op."""
    if x.dtype is dtype:
        return x
    if dtype not in F:
        raise Unmapped("a cast to another type than f32, f16 and bf16")
    if x.dtype is DType.boolean:
        return d.op("Select", x, broadcast_to(d, d.literal(1.0, dtype), shape_of(x)), d.literal(0.0, dtype), dtype=dtype)
    if x.dtype is DType.s32:
        return d.cast(d.op("Add", x, d.literal(0.0), dtype=DType.f32), dtype)
    if x.dtype.is_packed:
        return d.cast(d.op("DynamicDequantize", x, d.literal([1.0]), qtype="per_tensor"), dtype)
    if x.dtype not in F:
        return d.cast(d.op("Dequantize", x, dtype=DType.f32, qtype="per_tensor", scales=(1.0,)), dtype)
    return d.cast(x, dtype)


def _selu(d: Draft, node: Node) -> LogicalTensor:
    elu = d.op("Elu", d.tensor(node, 0), alpha=float(node.get("alpha", 1.6732632)))
    return d.op("Multiply", elu, d.literal(float(node.get("gamma", 1.05070098))))


def _celu(d: Draft, node: Node) -> LogicalTensor:
    """alpha * Elu(x / alpha), with 1 for Elu's own alpha."""
    x, alpha = d.tensor(node, 0), float(node.get("alpha", 1.0))
    return d.op("Multiply", d.op("Elu", d.op("Multiply", x, d.literal(1 / alpha)), alpha=1.0), d.literal(alpha))


def _softsign(d: Draft, node: Node) -> LogicalTensor:
    x = d.tensor(node, 0)
    return d.op("Divide", x, d.op("Add", d.op("Abs", x), d.literal(1.0, x.dtype)))


def comparison(swapped: bool) -> Row:
    def row(d: Draft, node: Node) -> LogicalTensor:
        a, b = d.tensors(node)
        return d.op("GreaterEqual", *((b, a) if swapped else (a, b)), dtype=DType.boolean)

    return row


def _softmax(kind: str) -> Row:
    return lambda d, node: d.op(kind, d.tensor(node, 0), axis=node.get("axis", -1))


# ---- products -------------------------------------------------------------------------------------------------------


def _matmul(d: Draft, node: Node) -> LogicalTensor:
    return d.op("MatMul", *d.tensors(node))


def _gemm(d: Draft, node: Node) -> LogicalTensor:
    """alpha * A * B + beta * C."""
    turned = {f"transpose_{x}": bool(node.get(f"trans{x.upper()}", 0)) for x in "ab"}
    product = d.op("MatMul", d.tensor(node, 0), d.tensor(node, 1), **turned)
    if (alpha := float(node.get("alpha", 1.0))) != 1:
        product = d.op("Multiply", product, d.literal(alpha))
    if not node.has(2):
        return product
    added = d.tensor(node, 2)
    if (beta := float(node.get("beta", 1.0))) != 1:
        added = d.op("Multiply", added, d.literal(beta))
    return d.op("Add", product, added)


# ---- reductions -----------------------------------------------------------------------------------------------------


def reduction(kind: str, *before: str) -> Row:
    """Axes are an input since opset 13 (ReduceSum) and 18; before they are an attribute. before: ops on src."""

    def row(d: Draft, node: Node) -> LogicalTensor:
        x = d.tensor(node, 0)
        rank = len(shape_of(x))
        axes = d.integers(node, 1) if node.has(1) else tuple(node.get("axes", ()))
        if not axes and node.get("noop_with_empty_axes", 0):
            raise Unmapped("it reduces no axis")
        for each in before:
            x = d.op(each, x)
        return d.op(kind, x, axes=axes_of(axes or range(rank), rank), keep_dims=bool(node.get("keepdims", 1)))

    return row


KEEPS_NAN: dict[str, Any] = {"propagate_nan": True}  # as ONNX has it, and oneDNN does not

_POINTWISE: dict[str, Row] = {
    **{kind: unary(kind) for kind in ("Abs", "Exp", "HardSwish", "Log", "Mish", "Reciprocal", "Round", "Sigmoid", "Sqrt", "Tanh")},
    "Relu": unary("ReLU", **KEEPS_NAN),
    "Softplus": unary("SoftPlus", beta=1.0),
    "Elu": with_numbers("Elu", alpha=("alpha", 1.0)),
    "LeakyRelu": with_numbers("LeakyReLU", alpha=("alpha", 0.01)),
    "HardSigmoid": with_numbers("HardSigmoid", alpha=("alpha", 0.2), beta=("beta", 0.5)),
    "Neg": _negated,
    "Clip": _clipped,
    "Pow": _power,
    "Gelu": _gelu,
    "Swish": _swish,
    "PRelu": _prelu,
    "Where": _selected,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Selu": _selu,
    "Celu": _celu,
    "Softsign": _softsign,
    "GreaterOrEqual": comparison(swapped=False),
    "LessOrEqual": comparison(swapped=True),
    "Add": joined("Add"),
    "Sub": joined("Subtract"),
    "Mul": joined("Multiply"),
    "Div": joined("Divide"),
    "Sum": joined("Add"),
    "Mean": _mean,
    "Max": joined("Maximum", **KEEPS_NAN),
    "Min": joined("Minimum", **KEEPS_NAN),
}
_REDUCTIONS: dict[str, Row] = {
    **{f"Reduce{name}": reduction(f"Reduce{name}") for name in ("L1", "L2", "Max", "Mean", "Min", "Prod", "Sum")},
    "ReduceSumSquare": reduction("ReduceSum", "Square"),
    "Softmax": _softmax("SoftMax"),
    "LogSoftmax": _softmax("LogSoftmax"),
}
ROWS: dict[str, Callable[[Draft, Node], LogicalTensor]] = {
    **_POINTWISE,
    **_REDUCTIONS,
    **LAYOUT_ROWS,
    **NN_ROWS,
    **QUANTISED_ROWS,
    **ATTENTION_ROWS,
    **CONTRIB_ROWS,
    "MatMul": _matmul,
    "Gemm": _gemm,
}
