"""fold-constants: ops on compile-time constants are computed now; division by a constant power of two becomes multiplication.

A power of two stays a divisor where its reciprocal is beyond the range of its dtype (2**-128 in f32, 2**-16 in f16).
"""

from __future__ import annotations

from math import frexp

import numpy as np

from benchgraph.gir.ir import Graph
from benchgraph.gir.rewrite import Pattern, Site, rewrite
from benchgraph.machine.target import Target
from benchgraph.ops.quantisation.bounded_reciprocal import is_finite

LIMIT = 1 << 16  # elements; init computes larger results, so that code stays small


def fold_constants(g: Graph, target: Target) -> Graph:
    return rewrite(g, target, CONSTANTS, POWERS_OF_TWO)


def _computed(s: Site) -> tuple[int, ...] | None:
    literals = [literal for v in s.op.ins if (literal := s.d.values[v].literal) is not None]
    is_left = bool(set(s.op.outs) & set(s.g.outs))
    if not literals or len(literals) < len(s.op.ins) or is_left or s.call.outs[0].elements > LIMIT:
        return None
    arrays = (literal.array for literal in literals)
    wide = tuple(a if a.dtype.kind in "iub" else a.astype(np.float64) for a in arrays)
    results = s.op.semantics.reference(s.call, wide)
    return tuple(s.d.const(data, out.dtype) for out, data in zip(s.call.outs, results, strict=False))


CONSTANTS = Pattern(
    root=lambda row: True,
    build=_computed,
    example="""graph(%0: f32[16]) {
      %1: f32[] = const 0.5    %2: f32[] = const 0.25
      %3: f32[] = Add(%1, %2)
      %4: f32[16] = Multiply(%0, %3)
      ->
      %3: f32[] = const 0.75
      %4: f32[16] = Multiply(%0, %3)
      return %4 }""",
    near_misses=(("const 0.25", "ReduceSum(%0) {axes=[0]}"), ("return %4", "return %4, %3")),
)


def _multiplied(s: Site) -> int | None:
    x, divisor = s.op.ins
    literal = s.d.values[divisor].literal
    if literal is None or not literal.dtype.is_float:
        return None
    data = literal.array.astype(np.float64)
    if not all(abs(frexp(number)[0]) == 0.5 for number in data.ravel()) or not is_finite(data, literal.dtype):
        return None
    return s.like(s.op, x, s.d.const(1.0 / data, literal.dtype), kind=s.op.semantics.product_kind)


POWERS_OF_TWO = Pattern(
    root=lambda row: row.semantics.product_kind != "",
    build=_multiplied,
    example="""graph(%0: f32[16]) {
      %1: f32[] = const 8.0      %2: f32[16] = Divide(%0, %1)
      ->
      %1: f32[] = const 0.125    %2: f32[16] = Multiply(%0, %1)
      return %2 }""",
    near_misses=(("8.0", "6.0"), ("8.0", "2.938735877055719e-39")),
)
