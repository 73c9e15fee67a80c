"""defer-scaling: scaling the rows of src is scaling the rows of the product, which are shorter.

Attention divides its exponentials by their sum; after the product with V the division is of as many columns as the head size, not as keys.
Homogeneous ops may stand between the scaling and the product: dropout, and casts between floats of the same exponents, which round both by
the same relative error.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchgraph.core.dtypes import DType
from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.passes.mark_runtime_constants import mark_runtime_constants
from benchgraph.gir.product import product
from benchgraph.gir.rewrite import Pattern, Site, rewrite
from benchgraph.machine.target import Target

_WIDE = (DType.f32, DType.bf16)  # the floats with eight bits of exponent


def defer_scaling(g: Graph, target: Target) -> Graph:
    after = rewrite(g, target, SCALING)
    return g if after is g else mark_runtime_constants(after, target)


def _deferred(s: Site) -> int | None:
    if not product(s.g, s.op).is_row_wise:
        return None
    between = list[Op]()
    for maker in s.sole_makers():
        if maker.semantics.is_product:
            return _scaled_after(s, maker, between)
        types = s.d.type(maker.ins[0]), s.d.type(maker.outs[0])
        is_alike = types[0].shape == types[1].shape and types[0].dtype.is_float and types[1].dtype in _WIDE
        if not (maker.semantics.is_homogeneous and len(maker.outs) == 1 and is_alike):
            return None
        between.insert(0, maker)
    return None


def _scaled_after(s: Site, scaling: Op, between: Sequence[Op]) -> int | None:
    """The product of what is not scaled yet, scaled, if that is cheaper. between: the ops from the scaling to it."""
    position, out = _scale_operand(s.g, scaling, s.op), s.call.outs[0]
    if position is None:
        return None
    value = scaling.ins[1 - position]
    for op in between:
        value = s.like(op, value, *op.ins[1:])
    made = s.like(s.op, value, *s.op.ins[1:])
    return s.d.op(scaling.kind, made, scaling.ins[position], attrs=scaling.attrs, shape=out.shape, dtype=out.dtype)


SCALING = Pattern(
    root=lambda row: row.lowering.is_contraction,
    build=_deferred,
    example="""graph(%0: f32[64,512], %1: f32[64,1], %2: bf16[512,64]) {
      %3: f32[64,512] = Multiply(%0, %1)    %4: bf16[64,512] = TypeCast(%3)    %5: f32[64,64] = MatMul(%4, %2)
      ->
      %4: bf16[64,512] = TypeCast(%0)       %3: f32[64,64] = MatMul(%4, %2)    %5: f32[64,64] = Multiply(%3, %1)
      return %5 }""",
    near_misses=(("%1: f32[64,1]", "%1: f32[1,512]"), ("return %5", "return %5, %4"), ("512", "32"), ("bf16", "f16")),
    error=2**-9,
)


def _scale_operand(g: Graph, scaling: Op, matmul: Op) -> int | None:
    """The operand of `scaling` that is one number per row of the product's src, if there are fewer elements to scale after the product."""
    src, out = g.value(scaling.outs[0]), g.value(matmul.outs[0])
    if src.shape[-1] <= out.shape[-1] or src.shape[:-1] != out.shape[:-1]:
        return None
    for position, v in enumerate(scaling.ins):
        scale, scaled = g.value(v), g.value(scaling.ins[1 - position])
        per_row = len(scale.shape) == len(src.shape) and scale.shape[-1] == 1
        if per_row and scaled.type == src.type and scale.dtype is src.dtype:
            return position
    return None
