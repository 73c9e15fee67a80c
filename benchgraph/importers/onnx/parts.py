"""Parts of what a product makes, made by a product of parts of its weights, since no op takes elements out.

    q, k, v = Split <axis = -1> (x W + b)      ->      q = x W[:, :n] + b[:n]      k = x W[:, n:2n] + b[n:2n]   ...

Exporters write the queries, keys and values of attention so. A part of a result is made of parts of operands, through pointwise ops and
changes of shape, down to constants and to the columns of weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Protocol

import numpy as np

from benchgraph.core.tensor import LogicalTensor, dense_strides
from benchgraph.graph import Op
from benchgraph.importers.onnx.draft import Draft, Unmapped, shape_of
from benchgraph.ops import spec

TAKEN_OUT = frozenset(["Gather", "Slice", "Split"])  # the kinds of nodes that take parts


@dataclass(frozen=True)
class Part:
    """The elements of a tensor from `begin` to before `end` along an axis."""

    axis: int
    begin: int
    end: int


class _Rule(Protocol):
    def __call__(self, d: Draft, op: Op, part: Part) -> LogicalTensor: ...


def part_of(d: Draft, t: LogicalTensor, part: Part) -> LogicalTensor:
    """Raises Unmapped where the elements cannot be had without the others."""
    if (part.begin, part.end) == (0, shape_of(t)[part.axis]):
        return t
    if t.id in d.data:
        return _of_constant(d, t, part)
    op = d.b.maker(t)
    rule = None if op is None else _of_operands if spec(op.kind).lowering.is_pointwise else _BY_KIND.get(op.kind)
    if op is None or rule is None:
        raise Unmapped("a part of a tensor, which no op takes out")
    return rule(d, op, part)


def _of_constant(d: Draft, t: LogicalTensor, part: Part) -> LogicalTensor:
    base, (_, strides, offset) = d.cut.get(t.id, (t.id, (shape_of(t), dense_strides(shape_of(t)), 0)))
    cut = d.literal(np.take(d.data[t.id], range(part.begin, part.end), part.axis), t.dtype)
    d.cut[cut.id] = base, (shape_of(cut), strides, offset + part.begin * strides[part.axis])
    return cut


def _like(d: Draft, op: Op, *ins: LogicalTensor) -> LogicalTensor:
    return d.b.append(op.kind, ins, op.attrs, tuple(t.dtype for t in op.outputs), op.name)[0]


def _of_operands(d: Draft, op: Op, part: Part) -> LogicalTensor:
    """Of a pointwise op: those that do not broadcast along the axis have such a part too."""
    from_end = part.axis - len(shape_of(op.outputs[0]))
    return _like(d, op, *(_along(d, t, from_end, part) for t in op.inputs))


def _along(d: Draft, t: LogicalTensor, axis: int, part: Part) -> LogicalTensor:
    """The part along an axis counted from the end; all of a tensor that has one element there."""
    rank = len(shape_of(t))
    return t if rank + axis < 0 or shape_of(t)[axis] == 1 else part_of(d, t, replace(part, axis=rank + axis))


def _columns(d: Draft, op: Op, part: Part) -> LogicalTensor:
    src, wei, *bias = op.inputs
    if part.axis != len(shape_of(op.outputs[0])) - 1:
        raise Unmapped("rows of a product, which no op takes out")
    weights = _along(d, wei, -2 if op.attrs.get("transpose_b") else -1, part)
    return _like(d, op, src, weights, *(_along(d, t, -1, part) for t in bias))


def _transposed(d: Draft, op: Op, part: Part) -> LogicalTensor:
    return _like(d, op, part_of(d, op.inputs[0], replace(part, axis=op.attrs.integers("order")[part.axis])))


def _reshaped(d: Draft, op: Op, part: Part) -> LogicalTensor:
    """Where an axis of src begins at the same elements as this one, and has all of them, perhaps in smaller steps."""
    src, dst = shape_of(op.inputs[0]), shape_of(op.outputs[0])
    step = prod(dst[part.axis + 1 :])
    for axis, size in enumerate(src):
        inner = prod(src[axis + 1 :])
        if size * inner == dst[part.axis] * step and step % inner == 0 and size > 1:
            each = step // inner
            taken = part_of(d, op.inputs[0], Part(axis, part.begin * each, part.end * each))
            shape = (*dst[: part.axis], part.end - part.begin, *dst[part.axis + 1 :])
            return d.b.op(op.kind, taken, name=op.name, shape=shape, special_zero=False)
    raise Unmapped("a part of a tensor that has been reshaped, which no op takes out")


_BY_KIND: Mapping[str, _Rule] = {"MatMul": _columns, "StaticTranspose": _transposed, "StaticReshape": _reshaped}
