"""Quantised queries and keys with quantised probabilities. Our own rule: benchdnn uses MatMul's strategy.

    s = MatMul(Dequantize(%q: u8), Dequantize(%k: u8)); ... Quantize(SoftMax(s))
    -> %q, %k: integers that represent reals whose scores are several units apart

With similar scores all probabilities are about 1 / n, which a Quantize with few steps rounds to 0, so nothing after it would be tested.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchgraph.core.tensor import LogicalTensor, TensorType
from benchgraph.graph.ir import Graph, Op
from benchgraph.ops import spec
from benchgraph.ops.fill_rules.noise import Noise
from benchgraph.ops.spec import Array, Computes, Filling
from benchgraph.reference.displace.rule import Displaced, computing, downstream, is_transparent, is_wide_float, softmax_behind, source
from benchgraph.reference.real_values import real_values

OPERANDS = 2


def find(graph: Graph) -> Iterator[Displaced]:
    for op in computing(graph, Computes.matmul):
        softmax = softmax_behind(graph, op)
        if softmax is None or not _is_quantised(graph, softmax):
            continue
        for t in op.inputs[:OPERANDS]:
            origin = source(graph, t)
            if origin is not None and origin.is_dequantised:
                make = partial(_make, graph, origin.tensor)
                yield Displaced(origin.tensor.id, Filling("integers for reals that keep quantised probabilities from vanishing", make))


def _is_quantised(graph: Graph, softmax: Op) -> bool:
    """Whether the next ops only move and convert the probabilities, one of them into a quantised type."""
    for op in downstream(graph, softmax):
        if not is_transparent(op):
            return False
        if spec(op.kind).semantics.is_conversion and not is_wide_float(op.outputs[0]):
            return True
    return False


def _make(graph: Graph, t: LogicalTensor, made: TensorType, noise: Noise) -> Array:
    return real_values(graph, t, noise.chunk(0))
