"""The table: ONNX op -> ops of the library.

A row is a function of a draft and of the node. It appends ops and returns the first result, or raises Unmapped with the reason. It need
not check what the library's rows check: `Draft.op` does.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor, Shape
from benchgraph.importers.onnx.draft import Draft, Node, Row, Unmapped, axes_of, shape_of
from benchgraph.importers.onnx.nn_rows import NN_ROWS


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
    return d.op("Multiply", d.tensor(node, 0), d.literal(-1.0))


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
    return d.op("PReLU", x, _reshaped(d, slope, shape), data_format="NCX", per_channel_broadcast=False)


def _selected(d: Draft, node: Node) -> LogicalTensor:
    return d.op("Select", *d.tensors(node), dtype=d.tensor(node, 1).dtype)


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


# ---- layout ops -----------------------------------------------------------------------------------------------------


def _reshaped(d: Draft, x: LogicalTensor, shape: Shape) -> LogicalTensor:
    return x if shape == shape_of(x) else d.op("StaticReshape", x, shape=shape, special_zero=False)


def _reshape(d: Draft, node: Node) -> LogicalTensor:
    shape, special = d.integers(node, 1), not node.get("allowzero", 0)
    return d.op("StaticReshape", d.tensor(node, 0), shape=shape, special_zero=special)


def _flatten(d: Draft, node: Node) -> LogicalTensor:
    x, axis = d.tensor(node, 0), node.get("axis", 1)
    shape = shape_of(x)
    axis = axis + len(shape) if axis < 0 else axis
    return _reshaped(d, x, (prod(shape[:axis]), prod(shape[axis:])))


def _squeeze(d: Draft, node: Node) -> LogicalTensor:
    x = d.tensor(node, 0)
    shape = shape_of(x)
    gone = axes_of(d.integers(node, 1), len(shape)) if node.has(1) else tuple(i for i, size in enumerate(shape) if size == 1)
    return _reshaped(d, x, tuple(size for i, size in enumerate(shape) if i not in gone))


def _unsqueeze(d: Draft, node: Node) -> LogicalTensor:
    x, axes = d.tensor(node, 0), d.integers(node, 1)
    rank = len(shape_of(x)) + len(axes)
    new, sizes = axes_of(axes, rank), iter(shape_of(x))
    return _reshaped(d, x, tuple(1 if i in new else next(sizes) for i in range(rank)))


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
_LAYOUTS: dict[str, Row] = {
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transposed,
    "Concat": _concat,
    "Identity": _same,
    "Dropout": _dropout,
}
ROWS: dict[str, Callable[[Draft, Node], LogicalTensor]] = {
    **_POINTWISE,
    **_REDUCTIONS,
    **_LAYOUTS,
    **NN_ROWS,
    "MatMul": _matmul,
    "Gemm": _gemm,
}
