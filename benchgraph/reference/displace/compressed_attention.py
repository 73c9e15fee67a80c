"""Compressed attention: keys and values in integers, dequantised by scales that are inputs too.

k = DynamicDequantize(%k: u4, scales, zps); scores = MatMul(q, k); ... SoftMax ... ; dst = MatMul(p, v)

    -> %k: MatMul's test data for weights in u4, halved: scores are small enough that several elements of a row matter
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import TensorType
from benchgraph.graph.ir import Graph, Op
from benchgraph.ops import spec
from benchgraph.ops.fill_rules.noise import Noise
from benchgraph.ops.spec import Array, Computes, Filling
from benchgraph.reference.displace.rule import Displaced, computing, dequantises, is_transparent, softmax_behind

WEIGHTS = 1  # the port


def find(graph: Graph) -> Iterator[Displaced]:
    attention = [op for op in computing(graph, Computes.matmul) if softmax_behind(graph, op) or _reads_softmax(graph, op)]
    for op in attention:
        t = op.inputs[WEIGHTS]
        while (made := graph.producers.get(t.id)) is not None and is_transparent(made) and not dequantises(made):
            t = made.inputs[0]
        if made is None or not dequantises(made) or len(made.inputs) < 2:
            continue
        data = made.inputs[0]
        call = op.call
        drawn = DType.s8 if data.dtype is DType.u8 else data.dtype
        typed = replace(call, ins=(call.ins[0], TensorType(drawn, call.ins[1].shape), *call.ins[2:]))
        yield Displaced(data.id, _halved(spec(op.kind).testing.fill(typed, WEIGHTS), drawn))


def _reads_softmax(graph: Graph, op: Op) -> bool:
    """Whether its src is the result of a softmax."""
    made = graph.producers.get(op.inputs[0].id)
    while made is not None and spec(made.kind).semantics.computes is not Computes.softmax:
        if spec(made.kind).semantics.computes is Computes.matmul or not made.inputs:
            return False
        made = graph.producers.get(made.inputs[0].id)
    return made is not None


def _halved(filling: Filling, drawn: DType) -> Filling:
    """Half of every number, rounded towards zero; numbers outside of the tensor's type become 0."""

    def make(t: TensorType, noise: Noise) -> Array:
        values = np.trunc(filling.make(TensorType(drawn, t.shape), noise).astype(np.float64) / 2)
        return np.maximum(values, t.dtype.range[0]).astype(t.dtype.numpy)

    return Filling(f"{filling.description}, halved", make)
