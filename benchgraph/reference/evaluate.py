"""Evaluates a graph: every op by its row's float64 reference, in topological order."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments
from benchgraph.core.tensor import LogicalTensor, TensorType
from benchgraph.graph.ir import END, Graph, Op
from benchgraph.ops import spec
from benchgraph.ops.spec import Array, Call, OpSpec, Role


class Disturbance(Protocol):
    """Changes the operands and results of ops, before they are rounded to their tensors' dtypes."""

    def operands(self, op: Op, arrays: tuple[Array, ...], /) -> tuple[Array, ...]: ...
    def results(self, op: Op, arrays: tuple[Array, ...], /) -> tuple[Array, ...]: ...


@dataclass
class InF32:
    """Results that f32 arithmetic may give instead of the reference (Semantics.f32_alternatives), one variant at a time.

    Instructions that multiply bf16 or convert to it flush subnormal numbers to 0: in operands of products, and in all computed results.
    Layout ops keep them. which: the variant, the last one for rows with fewer. count: the largest number of variants of a row; known
    after `evaluate`.
    """

    which: int
    count: int = 0

    def results(self, row: OpSpec, call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
        """This variant of an op's results; the reference's if its row has no other."""
        ins = self._normal(call.ins, ins) if row.semantics.follows_fpmath else ins
        variants = row.semantics.f32_alternatives(call, ins)
        self.count = max(self.count, len(variants))
        outs = variants[min(self.which, len(variants) - 1)] if variants else row.semantics.reference(call, ins)
        return outs if row.lowering.role is Role.layout_op else self._normal(call.outs, outs)

    def _normal(self, types: tuple[TensorType, ...], arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        """With subnormal numbers of bf16 tensors replaced by 0."""
        flushed = []
        for t, a in zip(types, arrays, strict=True):
            is_subnormal = (np.abs(a) < t.dtype.least_normal) & (a != 0) if t.dtype is DType.bf16 else np.zeros(1, np.bool_)
            self.count = max(self.count, int(is_subnormal.any()))
            flushed.append(np.where(is_subnormal, 0.0, a) if is_subnormal.any() else a)
        return tuple(flushed)


def evaluate(
    graph: Graph,
    inputs: Mapping[int, Array],
    keep: Collection[int] = (),
    *,
    stored: Collection[int] | None = None,
    noise: Disturbance | None = None,
    in_f32: InF32 | None = None,
) -> dict[int, Array]:
    """The graph's outputs, and the tensors in `keep`, by tensor id.

    graph: shape-inferred. inputs: an array per graph input, in the tensor's dtype or float64. Floats are returned as float64, not rounded
    to their tensor's dtype; integers and booleans in their own type. Ops read tensors of bf16 or f16 as rounded: a softmax of scores in the
    thousands is different when they are multiples of 32. stored: the tensors that are rounded, None for all; others are read exactly, as in
    a library that keeps values between fused ops in f32. Other arrays are freed after their last use, since one attention score matrix can
    take a gigabyte. in_f32: ops return what rows accept of f32 arithmetic instead. Raises InvalidArguments for a missing input or one of
    the wrong shape, Unimplemented for an op without a reference.
    """
    requested = {t.id for t in graph.outputs} | set(keep)
    values = {t.id: _exact(inputs, t.id, t.known_shape) for t in graph.inputs}
    kept = {id: array for id, array in values.items() if id in requested}
    last_use = {t.id: n for n, op in enumerate(graph.order) for t in (*op.outputs, *op.inputs)}
    for n, op in enumerate(graph.order):
        ins = tuple(values[t.id] for t in op.inputs)
        results = _results(op, noise.operands(op, ins) if noise else ins, rounds=stored is None, in_f32=in_f32)
        results = noise.results(op, results) if noise else results
        made = {t.id: (t, result) for t, result in zip(op.outputs, results, strict=True)}
        kept |= {id: result for id, (_, result) in made.items() if id in requested}
        values |= {id: _as_stored(result, t, rounds=stored is None or id in stored) for id, (t, result) in made.items() if last_use[id] > n}
        for id in {t.id for t in op.inputs}:
            if last_use[id] == n:
                values.pop(id, None)
    return {id: kept[id] for id in sorted(kept)}


def _results(op: Op, ins: tuple[Array, ...], *, rounds: bool, in_f32: InF32 | None) -> tuple[Array, ...]:
    """The results of the op's row; a cast between floats does not round itself if `stored` determines what is rounded.

    Infinities and NaN are valid results: oneDNN, too, accepts a runtime scale of 0.
    """
    row, call = spec(op.kind), op.call
    is_cast = row.semantics.is_conversion and row.lowering.is_elementwise and call.ins[0].dtype.is_float and call.outs[0].dtype.is_float
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # such as the mean of nothing, which is NaN
        if is_cast and not rounds:
            return ins
        return row.semantics.reference(call, ins) if in_f32 is None else in_f32.results(row, call, ins)


def narrow_between(graph: Graph) -> frozenset[int]:
    """Tensors between two ops in floats narrower than f32: with any of them, `evaluate` has two right results."""
    made = {t.id for op in graph.ops for t in op.outputs}
    read = (t for op in graph.ops for t in op.inputs if op.kind != END and t.id in made)
    return frozenset(t.id for t in read if t.dtype.is_float and t.dtype.bits < DType.f32.bits)


def _as_stored(result: Array, t: LogicalTensor, *, rounds: bool) -> Array:
    """An op's result as its tensor stores it for the next op: rounded to a narrow float, infinite beyond the range of f32."""
    if result.dtype.kind != "f" or not t.dtype.is_float:
        return result
    with np.errstate(over="ignore", invalid="ignore"):
        if rounds and t.dtype is not DType.f32:
            return result.astype(t.dtype.numpy).astype(np.float64)
        beyond = (np.abs(result) >= _F32_OVERFLOW) & np.isfinite(result)
    return np.where(beyond, np.copysign(np.inf, result), result) if beyond.any() else result


_F32_OVERFLOW = DType.f32.range[1] * (1 + DType.f32.eps / 4)  # halfway from the largest number to its hypothetical successor


def _exact(inputs: Mapping[int, Array], id: int, shape: tuple[int, ...]) -> Array:
    """An input without loss: floats as float64, others unchanged."""
    if id not in inputs:
        raise InvalidArguments(f"no data for graph input {id}", fix="give an array for every tensor that no op produces")
    array = np.asarray(inputs[id])
    if array.shape != shape:
        raise InvalidArguments(f"graph input {id} has shape {shape}, its data {array.shape}", fix="give data of the tensor's shape")
    return array if array.dtype.kind in "biu" else array.astype(np.float64, copy=False)
