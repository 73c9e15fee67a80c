"""merge-scaling: one factor after another becomes one factor.

%2 = Multiply(%0: f32[64,128], 0.0144)             %4 = Multiply(%1, 0.0144)
%3 = Multiply(%2, %1: f32[64,1])            ->     %3 = Multiply(%0, %4)

Scores are scaled by the quantisation of their operands and by the head size, probabilities by the reciprocal of their sum and by that of
a scale. One of the factors is a compile-time number of ordinary size, so that the product of both neither overflows nor vanishes where
multiplying in turn would not.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.core.target import Target
from benchgraph.gir.build import Builder
from benchgraph.gir.ir import Graph, Node, Op, Value
from benchgraph.ops import spec

FEWER = 8  # how many times fewer factors than elements make the extra product worth its while
ORDINARY = 2.0**32


def merge_scaling(g: Graph, target: Target) -> Graph:
    builder = Builder(g.values)
    nodes: list[Node] = []
    made: dict[int, Op] = {}
    for op in g.nodes:
        assert isinstance(op, Op)
        inner = made.get(op.ins[0]) if op.ins else None
        if inner is not None and _may_merge(g, builder, inner, op):
            nodes.remove(inner)
            op = replace(op, ins=(inner.ins[0], _product(builder, op.kind, inner.ins[1], op.ins[1])))
            nodes += builder.nodes
            builder.nodes = []
        made.update(dict.fromkeys(op.outs, op))
        nodes.append(op)
    return g if tuple(nodes) == g.nodes else replace(g, values=tuple(builder.values.values()), nodes=tuple(nodes))


def _may_merge(g: Graph, builder: Builder, inner: Op, outer: Op) -> bool:
    """Both scale the same tensor by few numbers, and nobody else wants it half scaled."""
    half = g.by_id.get(inner.outs[0])
    if half is None or not (spec(inner.kind).is_product and spec(outer.kind).is_product) or half.id in g.outs:
        return False
    src, factors = builder.values[inner.ins[0]], [builder.values[op.ins[1]] for op in (inner, outer)]
    same = src.shape == half.shape == g.value(outer.outs[0]).shape and half.dtype is DType.f32
    few = prod(np.broadcast_shapes(*(f.shape for f in factors))) * FEWER <= src.type.elements
    return (
        same
        and few
        and all(v.dtype.is_float for v in (src, *factors))
        and g.consumers[half.id] == (outer,)
        and outer.ins.count(half.id) == 1
        and any(map(_is_ordinary, factors))
    )


def _product(d: Builder, kind: str, a: int, b: int) -> int:
    """Both factors as one, known now if they are."""
    literals = d.values[a].literal, d.values[b].literal
    if literals[0] is not None and literals[1] is not None:
        return d.const(literals[0].array.astype(np.float64) * literals[1].array.astype(np.float64))
    return d.op(kind, a, b, dtype=DType.f32)


def _is_ordinary(v: Value) -> bool:
    if v.literal is None:
        return False
    size = np.abs(v.literal.array.astype(np.float64))
    return bool(np.all((size >= 1 / ORDINARY) & (size <= ORDINARY)))
