"""fold-constants: ops on compile-time constants are computed now; division by a constant power of two becomes multiplication.

%1 = const 0.5                      %2 = const 1.0
%2 = Add(%1, %1)             ->     %4 = Multiply(%0, 1/8)     (exact, so rounding does not change)
%4 = Divide(%0, const 8)

A power of two stays a divisor where its reciprocal is beyond the range of its dtype (2**-128 in f32, 2**-16 in f16).
"""

from __future__ import annotations

from dataclasses import replace
from math import frexp

import numpy as np

from benchgraph.gir.ir import Constness, Graph, Literal, Node, Op, Value
from benchgraph.machine.target import Target
from benchgraph.ops.quantisation.bounded_reciprocal import is_finite
from benchgraph.ops.spec import Array, Call

LIMIT = 1 << 16  # elements; init computes larger results, so that code stays small


def fold_constants(g: Graph, target: Target) -> Graph:
    values = dict(g.by_id)
    nodes: list[Node] = []
    for op in g.ops:
        sources = [values[v] for v in op.ins]
        foldable = sources and all(v.literal is not None for v in sources) and values[op.outs[0]].type.elements <= LIMIT
        if foldable and not set(op.outs) & set(g.outs):
            values.update(_evaluate(op, values))
        else:
            nodes.append(_multiply_instead(op, values))
    if tuple(nodes) == g.nodes:
        return g
    return replace(g, values=tuple(values.values()), nodes=tuple(nodes))


def _evaluate(op: Op, values: dict[int, Value]) -> dict[int, Value]:
    call = Call(op.kind, op.attrs, tuple(values[v].type for v in op.ins), tuple(values[v].type for v in op.outs))
    arrays = (literal.array for v in op.ins if (literal := values[v].literal) is not None)
    wide = tuple(a if a.dtype.kind in "iub" else a.astype(np.float64) for a in arrays)
    results = op.semantics.reference(call, wide)
    return {v: _constant(values[v], r) for v, r in zip(op.outs, results, strict=False)}


def _constant(v: Value, data: Array) -> Value:
    narrow = data.astype(v.dtype.numpy)
    return replace(v, constness=Constness.compile, literal=Literal(v.dtype, v.shape, narrow.tobytes()))


def _multiply_instead(op: Op, values: dict[int, Value]) -> Op:
    product = op.semantics.product_kind
    divisor = values[op.ins[1]] if product and len(op.ins) == 2 else None
    if divisor is None or divisor.literal is None or not divisor.dtype.is_float:
        return op
    data = divisor.literal.array.astype(np.float64)
    if not all(abs(frexp(x)[0]) == 0.5 for x in data.ravel()) or not is_finite(data, divisor.dtype):
        return op
    id = max(values) + 1
    values[id] = _constant(replace(divisor, id=id), 1.0 / data)
    return replace(op, kind=product, ins=(op.ins[0], id))
