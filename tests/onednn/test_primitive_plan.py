"""Which primitives a graph becomes; no oneDNN is needed."""

from __future__ import annotations

import pytest

from benchgraph.graph.ir import Graph
from benchgraph.graph.text import parse_graph
from benchgraph.onednn.primitives import capi
from benchgraph.onednn.primitives.messages import Alias, Binary, Eltwise, Primitive, Sum, Trial
from benchgraph.onednn.primitives.plan import Try, plan, text
from benchgraph.onednn.primitives.step import NoPrimitive, Step, Target
from benchgraph.onednn.primitives.table import encode

TARGET = Target((3, 13))

MLP = """
graph engine=cpu fpmath=strict {
  %3: f32[8,16] = MatMul#0(%0: f32[8,32], %1: f32[32,16] constant)
  %4: f32[8,16] = Add#1(%3, %2: f32[16] constant)
  %5: f32[8,16] = ReLU#2(%4)
  %7: f32[8,4] = MatMul#3(%5, %6: f32[16,4] constant)
  %8: f32[8,4] = SoftMax#4(%7) {axis=-1}
}
"""

QUANTISED = """
graph engine=cpu fpmath=strict {
  %3: f32[8,16] = Dequantize#0(%0: u8[8,16]) {qtype="per_tensor", scales=[0.5], zps=[3]}
  %4: bf16[8,16] = TypeCast#1(%3)
  %5: f32[16,32] = Dequantize#2(%1: s8[16,32]) {qtype="per_channel", axis=1, scales=[SCALES], zps=[ZEROS]}
  %6: bf16[16,32] = TypeCast#3(%5)
  %7: bf16[8,32] = MatMul#4(%4, %6)
  %9: f32[8,32] = Dequantize#5(%8: u8[8,32]) {qtype="per_tensor", scales=[0.25], zps=[7]}
  %10: bf16[8,32] = TypeCast#6(%9)
  %11: bf16[8,32] = Add#7(%7, %10)
  %12: f32[8,32] = TypeCast#8(%11)
  %13: u8[8,32] = Quantize#9(%12) {qtype="per_tensor", scales=[0.125], zps=[2]}
}
""".replace("SCALES", ",".join(["0.5", "0.25"] * 16)).replace("ZEROS", ",".join(["0"] * 32))

SWISH = """
graph engine=cpu fpmath=strict {
  %2: f32[8,8] = MatMul#0(%0: f32[8,16], %1: f32[16,8])
  %3: f32[8,8] = Sigmoid#1(%2)
  %4: f32[8,8] = Multiply#2(%2, %3)
}
"""


def accepted(step: Step) -> Trial:
    """What the table refuses, and nothing else."""
    try:
        encode(step, TARGET)
    except NoPrimitive as bad:
        return Trial(refused=str(bad))
    return Trial()


def planned(source: str, trial: Try = accepted) -> str:
    return text(plan(parse_graph(source), trial))


def primitive(source: str) -> Primitive:
    (step,) = plan(parse_graph(source), accepted)
    (item,) = encode(step, TARGET)
    assert isinstance(item, Primitive)
    return item


def test_products_take_what_follows_in_place_and_nothing_else() -> None:
    assert planned(MLP) == "matmul: MatMul Add ReLU\nmatmul: MatMul\nsoftmax: SoftMax"


def test_ops_behind_a_product_that_only_a_reference_implementation_takes_are_left_out() -> None:
    def slow_with_relu(step: Step) -> Trial:
        return Trial(reference="ref:any") if step.post_ops and step.post_ops[-1].kind == "ReLU" else accepted(step)

    assert planned(MLP, slow_with_relu).startswith("matmul: MatMul Add\neltwise: ReLU")


def test_operands_are_dequantised_apart_where_an_int8_product_is_a_reference_one() -> None:
    found = planned(QUANTISED, lambda step: Trial(reference="ref_int8:any") if step.folded else accepted(step)).splitlines()
    assert found == [*["reorder: Dequantize TypeCast"] * 3, "matmul: MatMul Add TypeCast Quantize"]


def test_the_largest_step_stays_where_every_one_is_a_reference_implementation() -> None:
    assert planned(MLP, lambda _: Trial(reference="ref:any")) == planned(MLP)


def test_a_value_with_another_reader_ends_the_post_ops() -> None:
    source = MLP.replace("fpmath=strict {", "fpmath=strict outputs=[3,8] {")
    assert planned(source).startswith("matmul: MatMul\nbinary: Add\neltwise: ReLU\nmatmul")


def test_quantisation_around_a_product_becomes_its_attributes() -> None:
    assert planned(QUANTISED) == f"matmul: {'Dequantize TypeCast ' * 3}MatMul Add TypeCast Quantize"
    p = primitive(QUANTISED)
    assert {(f.arg, f.mask, f.values[:2]) for f in p.attrs.scales} == {
        (capi.SRC, 0, (0.5,)),
        (capi.WEIGHTS, 2, (0.5, 0.25)),
        (capi.DST, 0, (0.125,)),
    }
    assert {(f.arg, f.values) for f in p.attrs.zero_points} == {(capi.SRC, (3.0,)), (capi.DST, (2.0,))}
    (added,) = p.attrs.post_ops
    assert isinstance(added, Sum)
    assert (added.scale, added.zero_point) == (0.25, 7)
    assert [o.value for o in p.inputs] == [0, 1, 8]
    assert [o.value for o in p.outputs] == [13]


def test_what_is_refused_is_tried_with_fewer_ops() -> None:
    def without_sums(step: Step) -> Trial:
        return Trial(refused="no") if any(8 in (t.id for t in op.inputs) for op in step.ops) and step.post_ops else accepted(step)

    assert planned(QUANTISED, without_sums).splitlines()[0] == "reorder: Dequantize"
    assert (
        planned(QUANTISED, without_sums).splitlines()[-1].startswith("matmul: Dequantize TypeCast Dequantize TypeCast MatMul Add TypeCast")
    )

    def alone(step: Step) -> Trial:
        return Trial(refused="no") if len(step.ops) > 1 else accepted(step)

    assert len(planned(QUANTISED, alone).splitlines()) == 10


def test_swish_is_one_post_op_or_none() -> None:
    assert planned(SWISH) == "matmul: MatMul Sigmoid Multiply"
    (swish,) = primitive(SWISH).attrs.post_ops
    assert isinstance(swish, Eltwise)

    def no_swish(step: Step) -> Trial:
        return Trial(refused="no") if len(step.ops) == 3 else accepted(step)

    assert planned(SWISH, no_swish) == "matmul: MatMul\neltwise: Sigmoid\nbinary: Multiply"


def test_an_operand_that_is_subtracted_from_does_not_follow() -> None:
    source = MLP.replace("Add#1(%3, %2: f32[16] constant)", "Subtract#1(%2: f32[16] constant, %3)")
    assert planned(source).splitlines()[:2] == ["matmul: MatMul", "binary: Subtract"]


def test_numpy_executes_the_rest_and_says_why() -> None:
    source = "graph engine=cpu fpmath=strict {\n  %1: s32[4,8] = GenIndex#0(%0: f32[4,8]) {axis=1}\n}\n"
    assert planned(source) == "numpy: GenIndex  # no primitive computes it"
    attrs = 'mode="linear", sizes=[4,4], coordinate_transformation_mode="align_corners"'
    source = f"graph engine=cpu fpmath=strict {{\n  %1: f32[1,4,4,2] = Interpolate#0(%0: f32[1,2,2,2]) {{{attrs}}}\n}}\n"
    assert planned(source) == "numpy: Interpolate  # the resampling primitive has half-pixel coordinates alone"


@pytest.mark.parametrize("kind", ["Add", "Multiply", "Maximum", "Minimum", "Divide"])
def test_binary_post_ops_broadcast_their_operand(kind: str) -> None:
    source = MLP.replace("Add#1(%3, %2: f32[16] constant)", f"{kind}#1(%3, %2: f32[16] constant)")
    step = plan(parse_graph(source), accepted)[0]
    (item,) = encode(step, TARGET)
    assert isinstance(item, Primitive)
    post_op = item.attrs.post_ops[0]
    assert isinstance(post_op, Binary)
    operand = next(o for o in item.inputs if o.arg == post_op.operand)
    assert operand.view.dims == (1, 16)


def test_a_selection_follows_if_the_running_value_is_taken_where_the_condition_holds() -> None:
    source = """
graph engine=cpu fpmath=strict {
  %4: f32[8,16] = MatMul#0(%0: f32[8,32], %1: f32[32,16])
  %5: f32[8,16] = Select#1(%2: boolean[8,16], %4, %3: f32[1])
}
"""
    assert planned(source) == "matmul: MatMul Select"
    (post_op,) = primitive(source).attrs.post_ops
    assert isinstance(post_op, Binary)
    assert (post_op.operand, post_op.condition) == (capi.post_op_arg(0), capi.post_op_arg(0, capi.SRC_2))
    apart = "matmul: MatMul\nbinary: Select"
    assert planned(source.replace("%4, %3: f32[1]", "%3: f32[1], %4")) == apart
    assert planned(source.replace("boolean[8,16]", "boolean[1,16]")) == apart


COPIES = """
graph engine=cpu fpmath=strict {
  %1: bf16[8,16] = StaticTranspose#0(%0: bf16[16,8]) {order=[1,0]}
  %2: bf16[8,16] = Reorder#1(%1)
  %3: f32[8,16] = TypeCast#2(%2)
  %4: u8[8,16] = Quantize#3(%3) {qtype="per_channel", axis=1, scales=[SCALES], zps=[ZEROS]}
  %5: f32[8,16] = Dequantize#4(%4) {qtype="per_tensor", scales=[0.5], zps=[3]}
}
""".replace("SCALES", ",".join(["0.5", "0.25"] * 8)).replace("ZEROS", ",".join(["3"] * 16))


def test_copies_in_a_row_are_one_reorder_with_one_scaling() -> None:
    first, second = plan(parse_graph(COPIES), accepted)
    assert text((first, second)) == "reorder: StaticTranspose Reorder TypeCast Quantize\nreorder: Dequantize"
    (item,) = encode(first, TARGET)
    assert isinstance(item, Primitive)
    assert item.inputs[0].view.order == (1, 0)
    assert [(f.arg, f.mask) for f in item.attrs.scales] == [(capi.DST, 2)]


def test_u8_weights_become_s8_where_there_is_no_product_of_them() -> None:
    source = QUANTISED.replace("%1: s8[16,32]", "%1: u8[16,32]").replace("zps=[" + ",".join(["0"] * 32), "zps=[" + ",".join(["1"] * 32))
    (step,) = plan(parse_graph(source), accepted)
    assert len(encode(step, TARGET)) == 1
    shift, product = encode(step, Target((3, 2), multiplies_u8=False))
    assert isinstance(shift, Primitive)
    assert isinstance(product, Primitive)
    assert shift.outputs[0].value == product.inputs[1].value
    assert [f.values for f in product.attrs.zero_points if f.arg == capi.WEIGHTS] == [(-127.0,)]


def test_a_dtype_that_the_version_lacks_is_named() -> None:
    source = "graph engine=cpu fpmath=strict {\n  %1: f8_e5m2[8] = Quantize#0(%0: f32[8]) {scales=[0.5]}\n}\n"
    with pytest.raises(NoPrimitive, match=r"f8_e5m2 needs oneDNN 3\.5"):
        encode(Step(parse_graph(source).ops[0]), Target((3, 2)))


def test_a_reshape_is_a_view() -> None:
    source = "graph engine=cpu fpmath=strict {\n  %1: f32[4,2,4] = StaticReshape#0(%0: f32[4,8]) {shape=[4,2,4], special_zero=false}\n}\n"
    (step,) = plan(parse_graph(source), accepted)
    assert isinstance(encode(step, TARGET)[0], Alias)


def test_the_order_is_executable() -> None:
    """A product that adds another one's result comes after it, though its first op comes before."""
    graph: Graph = parse_graph("""
graph engine=cpu fpmath=strict {
  %4: f32[8,8] = MatMul#0(%0: f32[8,8], %1: f32[8,8])
  %5: f32[8,8] = MatMul#1(%2: f32[8,8], %3: f32[8,8])
  %6: f32[8,8] = Add#2(%4, %5)
}
""")
    steps = plan(graph, accepted)
    assert [op.id for step in steps for op in step.ops] == [1, 0, 2]


def test_grouped_weights_are_split_and_need_a_plain_value() -> None:
    attrs = "strides=[1,1], dilations=[1,1], pads_begin=[0,0], pads_end=[0,0], groups=2"
    conv = f"%2: f32[1,6,6,8] = Convolution#0(%0: f32[1,8,8,4], %1: f32[3,3,2,8]) {{{attrs}}}"
    p = primitive(f"graph engine=cpu fpmath=strict {{\n  {conv}\n}}\n")
    weights = next(o for o in p.inputs if o.arg == capi.WEIGHTS)
    assert weights.view.dims == (2, 4, 2, 3, 3)
    assert weights.view.strides == (4, 1, 8, 48, 16)
    assert weights.view.order is None
