"""Real numbers with full mantissas for an input of a graph, typical for the op that first computes with them.

Layout ops and casts are skipped, so a transposed weight is filled for the MatMul after the transpose. A Dequantize is skipped as well:
its input gets the integers that represent the wanted numbers. Integers over the whole range would saturate every later Quantize, which
hides most errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchgraph.core.tensor import LogicalTensor, TensorType
from benchgraph.graph.ir import Graph, Op
from benchgraph.ops import spec
from benchgraph.ops.spec import Array, Call, Role
from benchgraph.reference.displace.rule import is_wide_float

Reals: TypeAlias = NDArray[np.float64]

SHARPNESS = 6.0  # spread of the inputs of a quantised softmax; with spread 1 the probabilities of a row of 100 all round to 0


@dataclass(frozen=True)
class _Use:
    op: Op
    port: int


def real_values(graph: Graph, t: LogicalTensor, rng: np.random.Generator) -> Array:
    """The elements of an input, in its shape: reals, or the integers that represent them."""
    first = _first_use(graph, t.id)
    if first is None:
        return np.zeros(t.known_shape)
    path = _path(graph, first)
    values = _wanted(path[-1], t, rng)
    if path[-1].port == 0 and spec(path[-1].op.kind).lowering.role is Role.anchor and _feeds_quantised_rows(graph, path[-1].op):
        values = values.astype(np.float64) * SHARPNESS
    return standing_for(values, [use.op for use in path[:-1]], t, rng)


def standing_for(values: Array, path: Sequence[Op], t: LogicalTensor, rng: np.random.Generator) -> Array:
    """The contents of a tensor for which these values result from the ops that move or convert it; the first of them reads it."""
    for op in reversed(path):
        into = op.inputs[0]
        values = np.resize(values, into.known_shape)
        if spec(op.kind).semantics.is_conversion and not is_wide_float(into):
            values = _quantised(op, values, rng)
    return np.resize(values, t.known_shape)


def _first_use(graph: Graph, id: int) -> _Use | None:
    """The first computing op that reads a tensor; None if there is none."""
    for op in graph.consumers.get(id, ()):
        if op.is_computed:
            return _Use(op, [t.id for t in op.inputs].index(id))
    return None


def _path(graph: Graph, use: _Use) -> list[_Use]:
    """From a use through ops that only move or cast the data to the op that computes with it."""
    path = [use]
    while _is_transparent(path[-1]):
        following = _first_use(graph, path[-1].op.outputs[0].id)
        if following is None:
            break
        path.append(following)
    return path


def _feeds_quantised_rows(graph: Graph, anchor: Op) -> bool:
    """Whether this anchor's result passes a row op and then a Quantize, with only pointwise and layout ops between."""
    use, seen_rows = _Use(anchor, 0), False
    while (following := _first_use(graph, use.op.outputs[0].id)) is not None:
        use = following
        row = spec(use.op.kind)
        if row.lowering.role is Role.row:
            seen_rows = True
        elif row.lowering.role not in (Role.pointwise, Role.layout_op):
            return False
        elif row.semantics.is_conversion and not is_wide_float(use.op.outputs[0]):
            return seen_rows
    return False


def _is_transparent(use: _Use) -> bool:
    row = spec(use.op.kind)
    is_cast = row.semantics.is_conversion and is_wide_float(use.op.outputs[0])
    return (row.lowering.role is Role.layout_op or is_cast) and len(use.op.inputs) == 1


def _wanted(use: _Use, source: LogicalTensor, rng: np.random.Generator) -> Array:
    """The domain of the op's row at this port, in the precision of the source tensor, so that casts must round."""
    call = use.op.call
    t = call.ins[use.port]
    dtype = source.dtype if t.dtype.is_float and is_wide_float(source) else t.dtype
    t = TensorType(dtype, t.shape)
    call = replace(call, ins=(*call.ins[: use.port], t, *call.ins[use.port + 1 :]))
    return spec(use.op.kind).testing.domain(call, use.port, rng)


def _quantised(op: Op, wanted: Array, rng: np.random.Generator) -> Array:
    """Input of a dequantising op whose result is near `wanted`.

    The op is affine, so its results for 0 and 1 give scale and offset. Integers are rounded up or down at random, so that not all weights
    smaller than one step vanish; numbers beyond the type's range are scaled down first, and those below its least value mirrored.
    """
    call = op.call
    dtype = call.ins[0].dtype
    offset = _result(call, 0)
    scale = np.asarray(_result(call, 1) - offset)  # numpy returns scalars for arrays of rank 0
    scale[scale == 0] = 1.0  # the result does not depend on the input
    steps = np.asarray(wanted.astype(np.float64) / scale)
    if not dtype.is_integer:
        return steps
    low, high = dtype.range
    reach = float(np.abs(steps).max(initial=0.0))
    steps *= min(1.0, 0.5 * (high - low) / reach) if reach else 1.0
    steps -= offset / scale
    steps += rng.random(steps.shape)
    np.floor(steps, out=steps)
    mirrored: Reals = np.abs(steps - low) + low
    return np.minimum(mirrored, high).astype(dtype.numpy)


def _result(call: Call, number: int) -> Reals:
    """The result of a one-input op for an input full of one number."""
    src = call.ins[0]
    (dst,) = spec(call.kind).semantics.reference(call, (np.full(src.shape, number, src.dtype.numpy),))
    return dst.astype(np.float64)
