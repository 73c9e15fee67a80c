"""round-operands: where the graph's math mode allows it, products of f32 are computed in bf16.

Sums stay in f32. Constant weights are rounded by init, other operands once for all products that read them. The mode does not concern
operands that were narrow before: f16, or integers with a scale for each of several groups of K. Left alone are operands that
low-precision would convert back to f32 if they were bf16, and products of so few rows or columns that rounding costs more than it saves
(constant weights need no rows).
"""

from __future__ import annotations

from benchgraph.core.dtypes import DType
from benchgraph.gir.build import CONVERT
from benchgraph.gir.ir import Graph
from benchgraph.gir.passes.low_precision import has_single_channels, pays
from benchgraph.gir.product import product
from benchgraph.gir.rewrite import Pattern, Site, rewrite
from benchgraph.machine.target import Target
from benchgraph.ops.spec import TO_BF16
from benchgraph.schedule.limits import converted_macs


def round_operands(g: Graph, target: Target) -> Graph:
    return rewrite(g, target, OPERANDS) if g.fpmath_mode in TO_BF16 and target.multiplies(DType.bf16) else g


def _rounded(s: Site) -> int | None:
    g, (src, wei) = s.g, s.op.ins[:2]
    if any(_narrowest(g, v) is not DType.f32 for v in (src, wei)):
        return None
    p, least = product(g, s.op), converted_macs(1, s.target)
    if not p.reduces_adjacent_dims or has_single_channels(p) or not pays(g, p, (src, ()), (wei, ()), DType.bf16, s.target):
        return None
    rows, is_constant = p.call.outs[0].elements // max(p.columns, 1), wei in g.computed_from_constants
    if p.columns < least or not (rows >= least or is_constant):
        return None
    return s.like(s.op, *(s.d.op(CONVERT, v, dtype=DType.bf16) for v in (src, wei)), *s.op.ins[2:])


OPERANDS = Pattern(
    root=lambda row: row.lowering.is_contraction,
    build=_rounded,
    example="""graph(%0: f32[64,64], %1: f32[64,64]) fpmath_mode="bf16" {
      %2: f32[64,64] = MatMul(%0, %1)
      ->
      %3: bf16[64,64] = TypeCast(%0)    %4: bf16[64,64] = TypeCast(%1)
      %2: f32[64,64] = MatMul(%3, %4)
      return %2 }""",
    near_misses=(("%2: f32[64,64] = MatMul(%0", "%5: f16[64,64] = TypeCast(%0) %6: f32[64,64] = TypeCast(%5) %2: f32[64,64] = MatMul(%6"),),
    error=2**-7,
)


def _narrowest(g: Graph, id: int) -> DType:
    """The narrowest dtype on the way to a value, along first operands."""
    narrowest = g.value(id).dtype
    while (maker := g.maker(id)) is not None and maker.ins and not maker.lowering.is_contraction:
        id = maker.ins[0]
        narrowest = min(narrowest, g.value(id).dtype, key=lambda dtype: dtype.bits)
    return narrowest
