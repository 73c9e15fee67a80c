"""A mask added to scores.

Add(s, %mask: [..., M, N]) before SoftMax, or before the Subtract that its gradient starts with

    -> %mask: 0 up to the diagonal, -inf above it, and a last row of only -inf, if softmax defines the result of such a row;
       M = 1, which masks padding: 0
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchgraph.core.tensor import TensorType
from benchgraph.graph.ir import Graph, Op
from benchgraph.ops import spec
from benchgraph.ops.fill_rules.filling import constant
from benchgraph.ops.fill_rules.noise import Noise
from benchgraph.ops.spec import Array, Computes, Filling
from benchgraph.reference.displace.rule import Displaced, computing, next_computing, source


def find(graph: Graph) -> Iterator[Displaced]:
    for op in computing(graph, Computes.sum):
        following = next_computing(graph, op)
        if following is None or spec(following.kind).semantics.computes not in (Computes.softmax, Computes.difference):
            continue
        operands = [source(graph, t) for t in op.inputs]
        masks = [s for s in operands if s is not None]
        if len(masks) != 1 or None not in operands:
            continue
        t = masks[0].tensor
        if t.dtype.is_float and len(t.known_shape) >= 2 and not masks[0].is_moved:
            yield Displaced(t.id, _causal(t.known_shape[-2], takes_masked_rows(following)))


def takes_masked_rows(op: Op) -> bool:
    """Whether the op gives numbers for a row of only -inf, by the reference of its row."""
    if spec(op.kind).semantics.computes is not Computes.softmax:
        return True
    call = op.call
    ins, outs = (tuple(TensorType(t.dtype, (1,) * len(t.shape)) for t in side) for side in (call.ins, call.outs))
    one = replace(call, ins=ins, outs=outs)
    return not np.isnan(spec(op.kind).semantics.reference(one, (np.full(one.ins[0].shape, -np.inf),))[0]).any()


def _causal(rows: int, masks_a_row: bool) -> Filling:
    if rows == 1:
        return Filling("0, as padding is masked", constant(0).make)

    def make(t: TensorType, noise: Noise) -> Array:
        mask = np.where(np.tri(*t.shape[-2:], dtype=np.bool_), 0.0, -np.inf)
        if masks_a_row:
            mask[-1:] = -np.inf
        return np.ascontiguousarray(np.broadcast_to(mask, t.shape)).astype(t.dtype.numpy)

    return Filling(f"-inf above the diagonal{', and in the last row' if masks_a_row else ''}", make)
