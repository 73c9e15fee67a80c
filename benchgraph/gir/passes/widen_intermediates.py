"""widen-intermediates: values inside the partition are not rounded to bf16 or f16 between ops.

%2: bf16 = TypeCast(%1: f32)            %2: f32 = TypeCast(%1)           (nothing to do: its readers read %1)
%3: f32 = TypeCast(%2)           ->     %4: f32 = Exp(%1)
%4: bf16 = Exp(%3)   return %4 + 1      ...

Every op computes in f32 anyway; the rounding costs instructions and digits. Operands of products stay, which multiply narrow dtypes faster,
and so do borders, whose dtype is the user's.
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.dtypes import DType
from benchgraph.gir.ir import Graph, Node, Value
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
    return _without_casts(g.with_values(changed)) if changed else g


def _without_casts(g: Graph) -> Graph:
    """Remove casts to the dtype of their operand, except those that write an output."""
    instead: dict[int, int] = {}
    nodes: list[Node] = []
    for op in g.ops:
        op = replace(op, ins=tuple(instead.get(v, v) for v in op.ins))
        is_cast = op.semantics.is_conversion and op.lowering.is_elementwise
        if is_cast and op.outs[0] not in g.outs and g.value(op.ins[0]).type == g.value(op.outs[0]).type:
            instead[op.outs[0]] = op.ins[0]
        else:
            nodes.append(op)
    return replace(g, nodes=tuple(nodes))
