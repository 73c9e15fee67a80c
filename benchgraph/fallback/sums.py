"""Rows of the table of numpy functions: reductions, products, sorting."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from benchgraph.fallback.function import Array, Function
from benchgraph.fallback.moves import axes_of, integers
from benchgraph.fallback.row import PICKS, SUMS, NumpyOp, Shapes, nothing


def _each_input(f: Function, ins: Shapes, outs: Shapes) -> int:
    return prod(ins[0])


def _reduced(compute: Callable[..., Any], threshold: float = SUMS) -> NumpyOp:
    def run(f: Function, ins: list[Any]) -> Any:
        axes = axes_of(f, ins, 1)
        if not axes and f.integer("noop_with_empty_axes", 0):
            return compute(ins[0], axis=(), keepdims=True)
        result = compute(ins[0], axis=axes or None, keepdims=bool(f.integer("keepdims", 1)))
        return np.asarray(result).astype(ins[0].dtype)

    return NumpyOp(run, _each_input, threshold)


def _norm1(x: Array, **how: Any) -> Any:
    return np.sum(np.abs(x), **how)


def _norm2(x: Array, **how: Any) -> Any:
    return np.sqrt(np.sum(np.square(x), **how))


def _squares(x: Array, **how: Any) -> Any:
    return np.sum(np.square(x), **how)


def _best(of: Callable[..., Any], sign: int, x: Array, **how: Any) -> Any:
    """Of nothing: the least, or the largest number of the type."""
    if x.size:
        return of(x, **how)
    if x.dtype.kind == "f":
        return of(x, initial=sign * np.inf, **how)
    low, high = (0, 1) if x.dtype == np.bool_ else (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
    return of(x, initial=low if sign < 0 else high, **how)


def _log_sum(x: Array, **how: Any) -> Any:
    return np.log(np.sum(x, **how))


def _log_sum_exp(x: Array, *, axis: Any, keepdims: bool) -> Any:
    from scipy.special import logsumexp  # takes 0.2 s to import, and only this needs it

    return logsumexp(x, axis=tuple(range(x.ndim)) if axis is None else axis, keepdims=keepdims)


def _position(best: Callable[..., Any]) -> NumpyOp:
    """The position of the largest or least element; the first, or the last, of equal ones."""

    def run(f: Function, ins: list[Any]) -> Any:
        x, axis = ins[0], f.integer("axis", 0)
        is_last = bool(f.integer("select_last_index"))
        found = x.shape[axis] - 1 - best(np.flip(x, axis), axis=axis) if is_last else best(x, axis=axis)
        return np.expand_dims(found, axis) if f.integer("keepdims", 1) else found

    return NumpyOp(run, _each_input, PICKS)


def _running_sum(f: Function, ins: list[Any]) -> Any:
    x, axis = ins[0], integers(ins[1])[0]
    x = np.flip(x, axis) if f.integer("reverse", 0) else x
    total = np.cumsum(x, axis, dtype=x.dtype)
    if f.integer("exclusive", 0):
        total = total - x
    return np.flip(total, axis) if f.integer("reverse", 0) else total


def _top(f: Function, ins: list[Any]) -> Any:
    """The k largest or least, in order, and their positions; of equal ones the first."""
    x, count, axis = ins[0], integers(ins[1])[0], f.integer("axis", -1)
    if f.integer("largest", 1):
        last = x.shape[axis] - 1
        order = np.flip(last - np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis, kind="stable")
    found = np.take(order, range(count), axis)
    return np.take_along_axis(x, found, axis), found


def _norm_of_rows(f: Function, ins: list[Any]) -> Any:
    """Divided by the norm along an axis; rows of zeros stay so."""
    x, axis = ins[0], f.integer("axis", -1)
    norm = (_norm1 if f.integer("p", 2) == 1 else _norm2)(x, axis=axis, keepdims=True)
    return np.divide(x, norm, out=np.zeros_like(x), where=norm != 0)


def _norm_of_channels(f: Function, ins: list[Any]) -> Any:
    """The norm over all axes behind the channels."""
    x, p = ins[0], f.integer("p", 2)
    return np.sum(np.abs(x) ** p, axis=tuple(range(2, x.ndim)), keepdims=True) ** (1 / p)


def _einsum(f: Function, ins: list[Any]) -> Any:
    return np.einsum(f.string("equation").replace(" ", ""), *ins, optimize=True)


def _einsum_flops(f: Function, ins: Shapes, outs: Shapes) -> int:
    """A multiplication and an addition for each combination of all indices; an ellipsis counts as the dims that it stands for."""
    terms = f.string("equation").replace(" ", "").split("->")[0].split(",")
    sizes = dict[str, int]()
    for term, shape in zip(terms, ins, strict=False):
        before, dots, after = term.partition("...")
        names = [*before, *(f".{i}" for i in range(len(shape) - len(before) - len(after)) if dots), *after]
        sizes |= dict(zip(names, shape, strict=False))
    return 2 * prod(sizes.values())


def _matmul_flops(f: Function, ins: Shapes, outs: Shapes) -> int:
    return 2 * prod(outs[0]) * (ins[0][-1] if ins[0] else 1)


SUMMING: dict[str, NumpyOp] = {
    "ReduceSum": _reduced(np.sum),
    "ReduceMean": _reduced(np.mean),
    "ReduceProd": _reduced(np.prod),
    "ReduceMax": _reduced(partial(_best, np.max, -1), PICKS),
    "ReduceMin": _reduced(partial(_best, np.min, 1), PICKS),
    "ReduceL1": _reduced(_norm1),
    "ReduceL2": _reduced(_norm2),
    "ReduceSumSquare": _reduced(_squares),
    "ReduceLogSum": _reduced(_log_sum),
    "ReduceLogSumExp": _reduced(_log_sum_exp),
    "ArgMax": _position(np.argmax),
    "ArgMin": _position(np.argmin),
    "CumSum": NumpyOp(_running_sum, _each_input, SUMS),
    "TopK": NumpyOp(_top, nothing, PICKS),
    "LpNormalization": NumpyOp(_norm_of_rows, _each_input, SUMS, is_judged=False),  # onnx's reference adds up x itself where p is 1
    "GlobalLpPool": NumpyOp(_norm_of_channels, _each_input, SUMS, is_judged=False),  # which onnx's reference lacks
    "Einsum": NumpyOp(_einsum, _einsum_flops, SUMS),
    "MatMul": NumpyOp(lambda f, ins: np.matmul(*ins), _matmul_flops, SUMS),
}
