"""Rows of the table of numpy functions: element by element. Floats are computed in the dtype that they have, f32 when executed."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from benchgraph.fallback.function import Array, Function
from benchgraph.fallback.row import PICKS, Compute, NumpyOp, Shapes, given, move
from benchgraph.fallback.special import erf, sigmoid

# ONNX's numbers of data types, as attributes have them
TYPES = {1: "float32", 2: "uint8", 3: "int8", 6: "int32", 7: "int64", 9: "bool", 10: "float32", 11: "float64", 16: "float32"}


def one_each(f: Function, ins: Shapes, outs: Shapes) -> int:
    """The FLOPs of one operation for each element of the first result."""
    return prod(outs[0])


def _of(compute: Callable[..., Any], threshold: float = PICKS) -> NumpyOp:
    return NumpyOp(lambda f, ins: compute(*ins), one_each, threshold)


def _folded(compute: Callable[[Any, Any], Any]) -> Compute:
    """Of one or more operands."""

    def run(f: Function, ins: list[Any]) -> Any:
        result = ins[0]
        for other in ins[1:]:
            result = compute(result, other)
        return np.asarray(result)

    return run


def _divided(a: Array, b: Array) -> Any:
    """Quotients of integers are truncated towards zero."""
    if a.dtype.kind == "f":
        return a / b
    quotient = np.floor_divide(a, b)
    return quotient + ((quotient < 0) & (quotient * b != a))


def _modulo(f: Function, ins: list[Any]) -> Any:
    return (np.fmod if f.integer("fmod", 0) else np.mod)(*ins)


def _power(f: Function, ins: list[Any]) -> Any:
    base, exponent = ins
    return np.power(base, exponent).astype(base.dtype)


def _clipped(f: Function, ins: list[Any]) -> Any:
    low, high = given(ins, 1), given(ins, 2)
    bounded = ins[0] if low is None else np.maximum(ins[0], low)
    return bounded if high is None else np.minimum(bounded, high)


def _cast(f: Function, ins: list[Any]) -> Any:
    to = np.dtype(TYPES[f.integer("to")])
    if to.kind == "f" and ins[0].dtype.kind == "f":
        return ins[0]  # the tensor's dtype rounds
    return ins[0].astype(to)


def _infinite(f: Function, ins: list[Any]) -> Any:
    x, signs = ins[0], (f.integer("detect_negative", 1), f.integer("detect_positive", 1))
    return (np.isneginf(x) & bool(signs[0])) | (np.isposinf(x) & bool(signs[1]))


def _shrunk(f: Function, ins: list[Any]) -> Any:
    x, bias, limit = ins[0], f.real("bias", 0.0), f.real("lambd", 0.5)
    return np.where(x < -limit, x + bias, np.where(x > limit, x - bias, 0)).astype(x.dtype)


def _elu(x: Array, alpha: float) -> Any:
    return np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x).astype(x.dtype)


def _selu(f: Function, ins: list[Any]) -> Any:
    alpha, gamma = f.real("alpha", 1.67326319217681884765625), f.real("gamma", 1.05070102214813232421875)
    return (gamma * _elu(ins[0], alpha)).astype(ins[0].dtype)


def _celu(f: Function, ins: list[Any]) -> Any:
    x, alpha = ins[0], f.real("alpha", 1.0)
    return (np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(np.minimum(x, 0) / alpha))).astype(x.dtype)


def _thresholded(f: Function, ins: list[Any]) -> Any:
    return np.where(ins[0] > f.real("alpha", 1.0), ins[0], 0).astype(ins[0].dtype)


def _mean(f: Function, ins: list[Any]) -> Any:
    return sum(ins[1:], ins[0]) / len(ins)


_EXACT: dict[str, Callable[..., Any]] = {
    "Abs": np.abs, "Neg": np.negative, "Sign": np.sign, "Floor": np.floor, "Ceil": np.ceil, "Round": np.rint, "Not": np.logical_not,
    "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor, "Equal": np.equal, "Less": np.less, "Greater": np.greater,
    "LessOrEqual": np.less_equal, "GreaterOrEqual": np.greater_equal, "BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor, "BitwiseNot": np.invert, "IsNaN": np.isnan,
}  # fmt: skip
_ROUNDED: dict[str, Callable[..., Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _divided, "Sqrt": np.sqrt, "Reciprocal": np.reciprocal, "Exp": np.exp,
    "Log": np.log, "Sin": np.sin, "Cos": np.cos, "Tan": np.tan, "Asin": np.arcsin, "Acos": np.arccos, "Atan": np.arctan, "Sinh": np.sinh,
    "Cosh": np.cosh, "Tanh": np.tanh, "Asinh": np.arcsinh, "Acosh": np.arccosh, "Atanh": np.arctanh, "Erf": erf,
    "Sigmoid": sigmoid, "Softsign": lambda x: x / (1 + np.abs(x)),
}  # fmt: skip
POINTWISE: dict[str, NumpyOp] = {
    **{kind: _of(compute) for kind, compute in _EXACT.items()},
    **{kind: _of(compute, 10.0) for kind, compute in _ROUNDED.items()},
    "Max": NumpyOp(_folded(np.maximum), one_each, PICKS),
    "Min": NumpyOp(_folded(np.minimum), one_each, PICKS),
    "Sum": NumpyOp(_folded(np.add), one_each),
    "Mean": NumpyOp(_mean, one_each),
    "Mod": NumpyOp(_modulo, one_each),
    "Pow": NumpyOp(_power, one_each),
    "Clip": NumpyOp(_clipped, one_each, PICKS),
    "Relu": NumpyOp(lambda f, ins: np.maximum(ins[0], 0), one_each, PICKS),
    "Cast": move(_cast),
    "IsInf": NumpyOp(_infinite, one_each, PICKS),
    "Shrink": NumpyOp(_shrunk, one_each),
    "Selu": NumpyOp(_selu, one_each),
    "Celu": NumpyOp(_celu, one_each),
    "ThresholdedRelu": NumpyOp(_thresholded, one_each, PICKS),
    "Where": move(lambda f, ins: np.where(*ins), carries=(1, 2)),
}
