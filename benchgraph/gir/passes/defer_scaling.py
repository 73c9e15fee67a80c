"""defer-scaling: scaling the rows of src is scaling the rows of the product, which are shorter.

Attention divides its exponentials by their sum; after the product with V the division is of as many columns as the head size, not as keys.
Homogeneous ops may stand between the scaling and the product: casts between floats, dropout. A cast rounds both by the same relative error;
casts to a dtype with fewer exponents are allowed only for exponentials of differences to a maximum, which are at most 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchgraph.core.dtypes import DType
from benchgraph.gir.closure import closure
from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.passes.mark_runtime_constants import mark_runtime_constants
from benchgraph.gir.product import product
from benchgraph.gir.rewrite import Pattern, Site, rewrite
from benchgraph.machine.target import Target
from benchgraph.ops.spec import Computes
from benchgraph.tir.ir import BinOp

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
        is_alike = types[0].shape == types[1].shape and all(t.dtype.is_float for t in types)
        if not (maker.semantics.is_homogeneous and len(maker.outs) == 1 and is_alike):
            return None
        between.insert(0, maker)
    return None


def _scaled_after(s: Site, scaling: Op, between: Sequence[Op]) -> int | None:
    """The product of what is not scaled yet, scaled, if that is exact enough and cheaper. between: the ops from the scaling to it."""
    position, out = _scale_operand(s.g, scaling, s.op), s.call.outs[0]
    if position is None:
        return None
    value = scaling.ins[1 - position]
    if not (all(s.d.type(op.outs[0]).dtype in _WIDE for op in between) or _is_at_most_one(s.g, value)):
        return None
    for op in between:
        value = s.like(op, value, *op.ins[1:])
    made = s.like(s.op, value, *s.op.ins[1:])
    return s.d.op(scaling.kind, made, scaling.ins[position], attrs=scaling.attrs, shape=out.shape, dtype=out.dtype)


SCALING = Pattern(
    root=lambda row: row.lowering.is_contraction,
    build=_deferred,
    example="""graph(%0: f32[64,512], %1: f32[64,1], %2: f32[512,64]) {
      %3: f32[64,512] = Multiply(%0, %1)    %4: f32[64,64] = MatMul(%3, %2)
      ->
      %3: f32[64,64] = MatMul(%0, %2)       %4: f32[64,64] = Multiply(%3, %1)
      return %4 }""",
    near_misses=(("%1: f32[64,1]", "%1: f32[1,512]"), ("return %4", "return %4, %3"), ("512", "32")),
    error=2**-21,
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


def _is_at_most_one(g: Graph, id: int) -> bool:
    """Whether a value is the exponential of a difference to a row's maximum, as in softmax."""
    exp = g.maker(id)
    difference = g.maker(exp.ins[0]) if exp is not None and exp.semantics.computes is Computes.exp else None
    if difference is None or difference.semantics.computes is not Computes.difference:
        return False
    return _is_maximum(g, difference.ins[1])


def _is_maximum(g: Graph, id: int) -> bool:
    """Whether a value is a maximum over rows, or at least that."""

    def near(v: int) -> tuple[int, ...]:
        maker = g.maker(v)
        return maker.ins if maker is not None and maker.semantics.computes is Computes.maximum else ()

    makers = map(g.maker, closure(id, near))
    return any(maker is not None and maker.lowering.reduces_with in (BinOp.max, BinOp.maximum) for maker in makers)
