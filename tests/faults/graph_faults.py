"""Mistakes a Graph IR pass could make: an op lost, doubled or mistaken for another, a wrong attribute or constant."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.gir.build import Builder
from benchgraph.gir.ir import Constness, FusedOp, Graph, Literal, Op
from tests.faults.inject import in_graph

DECOMPOSED = "decompose"


def only(g: Graph, kind: str, which: int = 0) -> Op:
    return [n for n in g.nodes if n.kind == kind][which]


def without(g: Graph, op: Op, operand: int = 0) -> Graph:
    """Who read the op's result reads this operand of it instead."""
    (dst,), src = op.outs, op.ins[operand]
    nodes = tuple(replace(n, ins=tuple(src if v == dst else v for v in n.ins)) for n in g.nodes if n is not op)
    values = tuple(v for v in g.values if v.id != dst)
    return replace(g, values=values, nodes=nodes, outs=tuple(src if v == dst else v for v in g.outs))


def with_op(g: Graph, old: Op, new: Op) -> Graph:
    return replace(g, nodes=tuple(new if n is old else n for n in g.nodes))


def with_attrs(g: Graph, op: Op, **attrs: object) -> Graph:
    return with_op(g, op, replace(op, attrs=Attrs({**op.attrs, **attrs})))


@in_graph("pattern/quantised_matmul_relu.json", after=DECOMPOSED)
def zero_point_dropped(g: Graph) -> Graph:
    return without(g, only(g, "Subtract"))


@in_graph("op/quantize_per_channel.json", after=DECOMPOSED, in_program=False)
def scales_of_channels_swapped(g: Graph) -> Graph:
    (scales,) = (v for v in g.values if v.literal is not None and v.type.elements > 1)
    array = scales.literal.array[::-1]
    return g.with_values({scales.id: replace(scales, literal=Literal(scales.dtype, scales.shape, array.tobytes()))})


@in_graph("pattern/matmul_relu.json", after=DECOMPOSED)
def epilogue_missing(g: Graph) -> Graph:
    return without(g, only(g, "ReLU"))


@in_graph("op/softmax_middle_axis.json", after="")
def softmax_over_the_wrong_axis(g: Graph) -> Graph:
    return with_attrs(g, only(g, "SoftMax"), axis=2)


@in_graph("op/matmul_square_transposed.json", after="")
def transposed_operand_not_transposed(g: Graph) -> Graph:
    return with_attrs(g, only(g, "MatMul"), transpose_b=False)


@in_graph("pattern/mlp_residual.json", after=DECOMPOSED)
def maximum_for_add(g: Graph) -> Graph:
    residual = only(g, "Add", -1)
    return with_op(g, residual, replace(residual, kind="Maximum"))


@in_graph("op/divide_rows.json", after=DECOMPOSED)
def operands_of_a_division_swapped(g: Graph) -> Graph:
    division = only(g, "Divide")
    return with_op(g, division, replace(division, ins=division.ins[::-1]))


@in_graph("op/matmul_bias.json", after=DECOMPOSED)
def bias_dropped(g: Graph) -> Graph:
    return without(g, only(g, "Add"))


@in_graph("model/perceptron_48.json", after=DECOMPOSED)
def bias_dropped_in_one_of_many_layers(g: Graph) -> Graph:
    return without(g, only(g, "Add", 39))


@in_graph("model/perceptron_48.json", after=DECOMPOSED)
def bias_dropped_in_an_early_layer_of_many(g: Graph) -> Graph:
    return without(g, only(g, "Add", 2))


@in_graph("model/perceptron_48.json", after="")
def weights_transposed_in_one_of_many_layers(g: Graph) -> Graph:
    return with_attrs(g, only(g, "MatMul", 39), transpose_b=True)


@in_graph("model/perceptron_48.json", after=DECOMPOSED)
def rectifier_missing_in_one_of_many_layers(g: Graph) -> Graph:
    return without(g, only(g, "ReLU", 39))


@in_graph("complex_fusion/attention_causal_mask.json", after=DECOMPOSED)
def mask_dropped(g: Graph) -> Graph:
    return without(g, only(g, "Select"), operand=1)


@in_graph("complex_fusion/attention_causal_mask.json", after=DECOMPOSED)
def mask_off_by_one(g: Graph) -> Graph:
    """A query does not see itself: > instead of >=."""
    seen, b = only(g, "GreaterEqual"), Builder(g.values)
    one = b.const(1, DType.s32)
    later = b.op("Subtract", seen.ins[0], one)
    g = g.with_values({id: b.values[id] for id in (one, later)})
    at = g.nodes.index(seen)
    return replace(g, nodes=(*g.nodes[:at], *b.nodes, replace(seen, ins=(later, seen.ins[1])), *g.nodes[at + 1 :]))


@in_graph("op/avgpool.json", after="")
def padding_counted(g: Graph) -> Graph:
    return with_attrs(g, only(g, "AvgPool"), exclude_pad=False)


@in_graph("op/conv.json", after="")
def padding_on_the_wrong_side(g: Graph) -> Graph:
    return with_attrs(g, only(g, "Convolution"), pads_begin=(2, 2), pads_end=(0, 0))


@in_graph("op/reduce_mean.json", after=DECOMPOSED)
def mean_without_its_division(g: Graph) -> Graph:
    mean = only(g, "ReduceMean")
    return with_op(g, mean, replace(mean, kind="ReduceSum"))


@in_graph("pattern/mlp_residual.json", after="widen-intermediates")
def operand_rounded_to_bf16(g: Graph) -> Graph:
    """What --attr-fpmath=bf16 would allow and strict does not. The second product: what a GELU makes is not exact in bf16."""
    product, b = only(g, "MatMul", 1), Builder(g.values)
    narrow = b.op("TypeCast", product.ins[0], dtype=DType.bf16)
    wide = b.op("TypeCast", narrow, dtype=DType.f32)
    g = g.with_values({id: b.values[id] for id in (narrow, wide)})
    at = g.nodes.index(product)
    return replace(g, nodes=(*g.nodes[:at], *b.nodes, replace(product, ins=(wide, product.ins[1])), *g.nodes[at + 1 :]))


@in_graph("op/matmul_transposed.json", after="fold-constants")
def variable_weights_taken_for_constant(g: Graph) -> Graph:
    """They are packed at the first execution, and not again when they change."""
    wei = g.value(g.ins[1])
    assert not wei.is_constant
    return g.with_values({wei.id: replace(wei, constness=Constness.runtime)})


@in_graph("op/dequantize_per_channel.json", after=DECOMPOSED, in_program=False)
def zero_points_of_one_channel_for_all(g: Graph) -> Graph:
    zps = g.value(only(g, "Subtract").ins[1])
    array = np.full_like(zps.literal.array, zps.literal.array.flat[0])
    return g.with_values({zps.id: replace(zps, literal=Literal(zps.dtype, zps.shape, array.tobytes()))})


@in_graph("complex_fusion/attention_transpose_b.json", after="fuse-coarse")
def keys_packed_along_the_wrong_axis(g: Graph) -> Graph:
    """The loop over heads takes a row of every head's keys, not every row of one head's."""
    (nest,) = (n for n in g.nodes if isinstance(n, FusedOp))
    stages = tuple(replace(s, along=(s.along[0], 2)) if s.is_batch_invariant and None not in s.along else s for s in nest.stages)
    return replace(g, nodes=tuple(replace(nest, stages=stages) if n is nest else n for n in g.nodes))
