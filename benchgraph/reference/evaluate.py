"""What a graph computes: every op by its row's float64 reference, in topological order."""

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
from benchgraph.ops import spec, with_defaults
from benchgraph.ops.spec import Array, Call, OpSpec, Role


def call_of(op: Op) -> Call:
    """An op of a shape-inferred graph as its row's functions want it."""
    return Call(op.kind, with_defaults(op.kind, op.attrs), tuple(t.type for t in op.inputs), tuple(t.type for t in op.outputs))


class Disturbance(Protocol):
    """Moves the numbers that an op reads, and those that it makes, before they are rounded to their tensors' dtypes."""

    def operands(self, op: Op, arrays: tuple[Array, ...], /) -> tuple[Array, ...]: ...
    def results(self, op: Op, arrays: tuple[Array, ...], /) -> tuple[Array, ...]: ...


@dataclass
class InF32:
    """What f32 arithmetic may give instead of the reference (Semantics.f32_alternatives), one answer at a time.

    Subnormal numbers of bf16 are 0 to the instructions that multiply them, or convert to bf16: in what products read, and in whatever is
    computed. What moves elements keeps them. which: of those that a row has, the last if there are less. count: how many there are, of the
    row that has most; known when `evaluate` is through.
    """

    which: int
    count: int = 0

    def results(self, row: OpSpec, call: Call, ins: tuple[Array, ...]) -> tuple[Array, ...]:
        """This answer of an op; the reference's where its row has no other."""
        ins = self._normal(call.ins, ins) if row.semantics.follows_fpmath else ins
        others = row.semantics.f32_alternatives(call, ins)
        self.count = max(self.count, len(others))
        outs = others[min(self.which, len(others) - 1)] if others else row.semantics.reference(call, ins)
        return outs if row.lowering.role is Role.data_movement else self._normal(call.outs, outs)

    def _normal(self, types: tuple[TensorType, ...], arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        """With 0 for the subnormal numbers of bf16 tensors."""
        found = []
        for t, a in zip(types, arrays, strict=True):
            is_subnormal = (np.abs(a) < t.dtype.least_normal) & (a != 0) if t.dtype is DType.bf16 else np.zeros(1, np.bool_)
            self.count = max(self.count, int(is_subnormal.any()))
            found.append(np.where(is_subnormal, 0.0, a) if is_subnormal.any() else a)
        return tuple(found)


def evaluate(
    graph: Graph,
    inputs: Mapping[int, Array],
    keep: Collection[int] = (),
    *,
    stored: Collection[int] | None = None,
    noise: Disturbance | None = None,
    in_f32: InF32 | None = None,
) -> dict[int, Array]:
    """The graph's outputs, and the tensors that `keep` names, by tensor id.

    graph: shape-inferred. inputs: an array per graph input, in the tensor's dtype or float64. Floats come back as float64, not rounded to
    their tensor's dtype; integers and booleans in their own type. The ops in between read what a tensor of bf16 or f16 holds: a softmax
    of scores in the thousands is another one when they are multiples of 32. stored: the tensors for which that holds, None for all; of
    others they read the exact numbers, as in a library that keeps what passes between fused ops in f32. Everything else is freed after its
    last use, for one attention score matrix can be a gigabyte. in_f32: ops give what rows say that f32 arithmetic may give instead.
    Raises InvalidArguments for a missing input or one of the wrong shape, Unimplemented for an op whose meaning is not known.
    """
    wanted = {t.id for t in graph.outputs} | set(keep)
    values = {t.id: _exact(inputs, t.id, t.known_shape) for t in graph.inputs}
    found = {id: array for id, array in values.items() if id in wanted}
    last_use = {t.id: n for n, op in enumerate(graph.order) for t in (*op.outputs, *op.inputs)}
    for n, op in enumerate(graph.order):
        ins = tuple(values[t.id] for t in op.inputs)
        results = _results(op, noise.operands(op, ins) if noise else ins, rounds=stored is None, in_f32=in_f32)
        results = noise.results(op, results) if noise else results
        made = {t.id: (t, result) for t, result in zip(op.outputs, results, strict=True)}
        found |= {id: result for id, (_, result) in made.items() if id in wanted}
        values |= {id: _held(result, t, rounds=stored is None or id in stored) for id, (t, result) in made.items() if last_use[id] > n}
        for id in {t.id for t in op.inputs}:
            if last_use[id] == n:
                values.pop(id, None)
    return {id: found[id] for id in sorted(found)}


def _results(op: Op, ins: tuple[Array, ...], *, rounds: bool, in_f32: InF32 | None) -> tuple[Array, ...]:
    """What the op's row says; a cast from float to float takes nothing away itself where its tensor says what is rounded.

    Infinities and NaN are answers like others: a scale of 0 at execution is an input that oneDNN takes, too.
    """
    row, call = spec(op.kind), call_of(op)
    is_cast = row.semantics.is_conversion and row.lowering.is_elementwise and call.ins[0].dtype.is_float and call.outs[0].dtype.is_float
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the mean of nothing is no number, and nothing to tell about
        if is_cast and not rounds:
            return ins
        return row.semantics.reference(call, ins) if in_f32 is None else in_f32.results(row, call, ins)


def narrow_between(graph: Graph) -> frozenset[int]:
    """Tensors between two ops, of floats narrower than f32: where there are any, `evaluate` has two answers, both of them right."""
    made = {t.id for op in graph.ops for t in op.outputs}
    read = (t for op in graph.ops for t in op.inputs if op.kind != END and t.id in made)
    return frozenset(t.id for t in read if t.dtype.is_float and t.dtype.bits < DType.f32.bits)


def _held(result: Array, t: LogicalTensor, *, rounds: bool) -> Array:
    """An op's result as its tensor holds it for the next op: rounded to a narrow float, infinite beyond the range of f32."""
    if result.dtype.kind != "f" or not t.dtype.is_float:
        return result
    with np.errstate(over="ignore", invalid="ignore"):
        if rounds and t.dtype is not DType.f32:
            return result.astype(t.dtype.numpy).astype(np.float64)
        beyond = (np.abs(result) >= _F32_OVERFLOW) & np.isfinite(result)
    return np.where(beyond, np.copysign(np.inf, result), result) if beyond.any() else result


_F32_OVERFLOW = DType.f32.range[1] * (1 + DType.f32.eps / 4)  # half way from the largest number to the one that would follow


def _exact(inputs: Mapping[int, Array], id: int, shape: tuple[int, ...]) -> Array:
    """An input without loss: floats of any width as float64, the rest as it is."""
    if id not in inputs:
        raise InvalidArguments(f"no data for graph input {id}", fix="give an array for every tensor that no op produces")
    array = np.asarray(inputs[id])
    if array.shape != shape:
        raise InvalidArguments(f"graph input {id} has shape {shape}, its data {array.shape}", fix="give data of the tensor's shape")
    return array if array.dtype.kind in "biu" else array.astype(np.float64, copy=False)
