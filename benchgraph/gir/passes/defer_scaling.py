"""defer-scaling: scaling the rows of src is scaling the rows of the product, which are shorter.

    %2: f32[64,512] = Multiply(%0, %1: f32[64,1])      %4 = MatMul(%0, %w)
    %3: f32[64,64] = MatMul(%2, %w)               ->   %3: f32[64,64] = Multiply(%4, %1)

Attention divides its exponentials by their sum; after the product with V the division is of as many columns as the head size, not as keys.
Homogeneous ops may stand between the scaling and the product: casts between floats, dropout. A cast rounds both by the same relative error;
casts to a dtype with fewer exponents are allowed only for exponentials of differences to a maximum, which are at most 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchgraph.core.dtypes import DType
from benchgraph.gir.build import Builder
from benchgraph.gir.closure import closure
from benchgraph.gir.ir import Graph, Node, Op
from benchgraph.gir.passes.mark_runtime_constants import mark_runtime_constants
from benchgraph.gir.product import product
from benchgraph.machine.target import Target
from benchgraph.ops.spec import Computes
from benchgraph.tir.ir import BinOp

_WIDE = (DType.f32, DType.bf16)  # the floats with eight bits of exponent


@dataclass(frozen=True)
class _Deferred:
    """The scaling, which operand of it is the scale, and the ops between it and the product, in order."""

    scaling: Op
    position: int
    between: tuple[Op, ...]


def defer_scaling(g: Graph, target: Target) -> Graph:
    builder = Builder(g.values)
    moved: dict[int, _Deferred] = {}  # by the id of the MatMul op
    for op in g.ops:
        if op.lowering.is_contraction and product(g, op).is_row_wise and (scaling := _deferrable(g, op)) is not None:
            moved[id(op)] = scaling
    if not moved:
        return g
    gone = {id(d.scaling) for d in moved.values()}
    unscaled = {d.scaling.outs[0]: d.scaling.ins[1 - d.position] for d in moved.values()}
    nodes: list[Node] = []
    for op in g.ops:
        if id(op) in gone:
            continue
        ins = tuple(unscaled.get(v, v) for v in op.ins)
        op_now = op if ins == op.ins else replace(op, ins=ins)
        if id(op) in moved:
            deferred, out = moved[id(op)], g.value(op.outs[0])
            made = builder.new_value(out.dtype, out.shape)
            nodes.append(replace(op_now, outs=(made,)))
            op_now = replace(deferred.scaling, ins=(made, deferred.scaling.ins[deferred.position]), outs=op.outs)
        nodes.append(op_now)
    return mark_runtime_constants(builder.graph(g, nodes), target)


def _deferrable(g: Graph, matmul: Op) -> _Deferred | None:
    """The scaling of the product's src, if deferring it is exact enough and cheaper."""
    between: list[Op] = []
    reader, v = matmul, matmul.ins[0]
    while (maker := g.producer.get(v)) is not None and isinstance(maker, Op):
        if v in g.outs or g.consumers[v] != (reader,) or reader.ins.count(v) > 1:
            return None
        if maker.semantics.is_product:
            position = _scale_operand(g, maker, matmul)
            scaled = None if position is None else maker.ins[1 - position]
            fits = all(g.value(op.outs[0]).dtype in _WIDE for op in between)
            is_exact = scaled is not None and (fits or _is_at_most_one(g, scaled))
            return _Deferred(maker, position, tuple(between)) if position is not None and is_exact else None
        types = g.value(maker.ins[0]), g.value(v)
        if not maker.semantics.is_homogeneous or len(maker.outs) > 1 or not all(t.dtype.is_float for t in types):
            return None
        if types[0].shape != types[1].shape:
            return None
        between.insert(0, maker)
        reader, v = maker, maker.ins[0]
    return None


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
    exp = g.producer.get(id)
    difference = g.producer.get(exp.ins[0]) if isinstance(exp, Op) and exp.semantics.computes is Computes.exp else None
    if not isinstance(difference, Op) or difference.semantics.computes is not Computes.difference:
        return False
    return _is_maximum(g, difference.ins[1])


def _is_maximum(g: Graph, id: int) -> bool:
    """Whether a value is a maximum over rows, or at least that."""

    def near(v: int) -> tuple[int, ...]:
        maker = g.maker(v)
        return maker.ins if maker is not None and maker.semantics.computes is Computes.maximum else ()

    makers = map(g.maker, closure(id, near))
    return any(maker is not None and maker.lowering.reduces_with in (BinOp.max, BinOp.maximum) for maker in makers)
