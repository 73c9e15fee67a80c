"""widen-intermediates: values inside the partition are not rounded to bf16 or f16 between ops.

Every op computes in f32 anyway; the rounding costs instructions and digits. Operands of products stay, which multiply narrow dtypes faster,
and so do borders, whose dtype is the user's.
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.dtypes import DType
from benchgraph.gir.ir import Graph, Value
from benchgraph.gir.rewrite import Pattern, Site, rewrite
from benchgraph.machine.target import Target
from benchgraph.ops.spec import Elementwise, Reduction


def widen_intermediates(g: Graph, target: Target) -> Graph:
    narrow = {v.id for v in g.values if v.dtype in (DType.bf16, DType.f16) and v.id in g.producer and v.id not in g.outs}
    for op in g.ops:
        if not (op.lowering.is_layout_op or isinstance(op.lowering.form, Elementwise | Reduction)):
            narrow -= set(op.ins)
    layout_ops = [{*op.ins, *op.outs} for op in g.ops if op.lowering.is_layout_op]
    while mixed := [values for values in layout_ops if values & narrow and values - narrow]:  # a layout op converts nothing
        narrow -= set().union(*mixed)
    changed: dict[int, Value] = {v: replace(g.value(v), dtype=DType.f32) for v in narrow}
    return rewrite(g.with_values(changed), target, CASTS) if changed else g


def _operand(s: Site) -> int | None:
    src, dst = s.op.ins[0], s.op.outs[0]
    return src if s.op.lowering.is_elementwise and dst not in s.g.outs and s.d.type(src) == s.d.type(dst) else None


CASTS = Pattern(
    root=lambda row: row.semantics.is_conversion,
    build=_operand,
    example="""graph(%0: f32[16]) {
      %1: f32[16] = TypeCast(%0)    %2: f32[16] = Exp(%1)
      ->
      %2: f32[16] = Exp(%0)
      return %2 }""",
    near_misses=(("%1: f32", "%1: bf16"), ("return %2", "return %2, %1")),
)
