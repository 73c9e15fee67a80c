"""The data of each input in mode C, and the displacement rules: each on a small graph, and on a near miss."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchgraph.graph import Graph, GraphBuilder, parse_graph, validate
from benchgraph.reference import evaluate, fill, plan, uniform
from benchgraph.reference.displace import RULES


def graph(body: str) -> Graph:
    return validate(parse_graph(f"graph engine=cpu fpmath=strict {{ {body} }}"))


def rules(g: Graph) -> dict[int, str]:
    """The displaced inputs and their rules."""
    return {p.tensor.id: p.rule for p in plan(g) if p.rule}


LAYERS = graph("%2: f32[32,64] = MatMul#0(%0: f32[32,256], %1: f32[256,64]) %4: f32[32,8] = MatMul#1(%2, %3: f32[64,8])")


# ---- strategies ------------------------------------------------------------------------------------------------------


def test_data_depends_on_the_seed_and_the_tensor_alone() -> None:
    first, again, other = fill(LAYERS, 1), fill(LAYERS, 1), fill(LAYERS, 2)
    alone = fill(replace(LAYERS, ops=LAYERS.ops[:1]), 1)
    reversed_ops = fill(replace(LAYERS, ops=LAYERS.ops[::-1]), 1)
    for id in first:
        np.testing.assert_array_equal(first[id], again[id])
        np.testing.assert_array_equal(first[id], reversed_ops[id])
        assert not np.array_equal(first[id], other[id])
    assert {id: a.tobytes() for id, a in alone.items()} == {id: first[id].tobytes() for id in alone}
    assert set(alone) == {0, 1}


def test_every_input_has_its_dtype_shape_and_strides() -> None:
    g = graph(
        "%3: f32[4,6] = Select#0(%0: boolean[4,6], %1: f32[4,6] strides=[1,4], %2: f32[6]) "
        "%5: f32[2,3] = Dequantize#1(%4: s8[2,3] strides=[8,2]) {scales=[0.5]} %7: bf16[3,3] = Abs#2(%6: bf16[3,3] strides=[0,1])"
    )
    for make in (fill, uniform):
        got = make(g, 0)
        for t in g.inputs:
            assert got[t.id].dtype == t.dtype.numpy
            assert got[t.id].shape == t.known_shape
            assert got[t.id].strides == tuple(s * t.dtype.numpy.itemsize for s in t.known_strides)


def test_the_first_reader_in_topological_order_decides() -> None:
    g = graph("%3: f32[4,4] = ReLU#0(%0: f32[4,4]) %2: f32[4,4] = MatMul#1(%3, %0)")
    (found,) = plan(replace(g, ops=g.ops[::-1]))
    assert found.reader == "op 0: ReLU, src"
    assert str(found).startswith("%0 f32:4x4: 13 phases")


def test_an_input_that_only_an_end_reads_is_zero() -> None:
    assert not fill(graph("End#0(%0: f32[3]) "), 0)[0].any()


def test_timed_data_is_uniform_in_the_range_of_the_dtype_and_repeats_the_last_two_dims() -> None:
    g = graph(
        "%2: f32[6,5,64,64] = MatMul#0(%0: f32[6,5,64,32], %1: f32[6,5,32,64]) %4: bf16[900] = Abs#1(%3: bf16[900]) "
        "%6: f32[999] = Dequantize#2(%5: u8[999]) {scales=[1.0]}"
    )
    got = uniform(g, 0)
    np.testing.assert_array_equal(got[0], np.broadcast_to(got[0][:1, :1], got[0].shape))
    assert got[0].flags.writeable
    for id, low, high in ((0, -1024, 1024), (3, -32, 32), (5, 0, 64)):
        values = got[id].astype(np.float64)
        assert low <= values.min() < low + (high - low) / 20
        assert high >= values.max() > high - (high - low) / 20
    assert len(np.unique(got[0])) > 2000, "full mantissas"


# ---- quantised operands ----------------------------------------------------------------------------------------------


def test_quantised_operands_are_what_the_product_is_tested_on() -> None:
    g = graph(
        "%1: f32[30,200] = Dequantize#0(%0: u8[30,200]) {scales=[0.1], zps=[7]} "
        "%3: f32[50,200] = Dequantize#1(%2: s8[50,200]) {scales=[0.2]} "
        "%4: f32[200,50] = StaticTranspose#2(%3) {order=[1,0]} %5: f32[30,50] = MatMul#3(%1, %4)"
    )
    assert rules(g) == {0: "quantised", 2: "quantised"}
    data = fill(g, 0)
    assert (data[0].min(), data[0].max()) == (7, 15), "from the zero point on"
    assert (data[0] != 7).mean() == pytest.approx(24 / 200 * 8 / 9, abs=0.02)
    assert (data[2].min(), data[2].max()) == (-4, 4)


def test_weights_alone_keep_the_float_range_of_src() -> None:
    g = graph("%1: f32[64,8] = Dequantize#0(%0: s8[64,8]) {scales=[0.5]} %3: f32[9,8] = MatMul#1(%2: f32[9,64], %1)")
    assert rules(g) == {0: "quantised"}
    assert np.abs(fill(g, 0)[2]).max() > 32


def test_a_moved_weight_is_the_products_and_a_moved_summand_is_not() -> None:
    reshape = "%1: f32[8,4] = StaticReshape#0(%0: f32[32]) {shape=[8,4], special_zero=false} "
    assert rules(graph(reshape + "%3: f32[5,4] = MatMul#1(%2: f32[5,8], %1)")) == {0: "quantised"}
    assert rules(graph(reshape + "%3: f32[8,4] = Add#1(%2: f32[8,4], %1)")) == {}


def test_eight_bit_floats_are_displaced_in_front_of_products_alone() -> None:
    cast = "%1: f32[8,4] = Dequantize#0(%0: f8_e5m2[8,4]) {scales=[0.5]} "
    assert rules(graph(cast + "%3: f32[5,4] = MatMul#1(%2: f32[5,8], %1)")) == {0: "quantised"}
    assert rules(graph(cast + "%3: f32[8,4] = Add#1(%2: f32[8,4], %1)")) == {}
    assert rules(graph(cast + "%3: f32[8,4] = Exp#1(%1)")) == {}


# ---- factors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "numbers"), [("Divide", {2, 4, 8}), ("Multiply", {0.25, 0.5, 1})])
def test_factors_beside_a_computed_operand(kind: str, numbers: set[float]) -> None:
    g = graph(f"%1: f32[99,9] = Abs#0(%0: f32[99,9]) %4: f32[99,9] = TypeCast#1(%2: bf16[99,9]) %3: f32[99,9] = {kind}#2(%1, %4)")
    assert rules(g) == {2: "factors"}
    assert set(np.unique(fill(g, 0)[2].astype(np.float64))) == numbers


def test_two_given_operands_are_no_factors_nor_is_a_summand() -> None:
    assert rules(graph("%2: f32[9] = Multiply#0(%0: f32[9], %1: f32[9])")) == {}
    assert rules(graph("%1: f32[9] = Abs#0(%0: f32[9]) %3: f32[9] = Subtract#1(%1, %2: f32[9])")) == {}


# ---- the smaller of two ----------------------------------------------------------------------------------------------


def test_the_smaller_of_two_is_positive_more_often_than_not_where_it_is_rectified() -> None:
    smaller = "%2: f32[99,64] = Minimum#0(%0: f32[99,64], %1: f32[99,64]) "
    g = graph(smaller + "%3: f32[99,64] = ReLU#1(%2)")
    assert rules(g) == {0: "smaller", 1: "smaller"}
    data = fill(g, 0)
    assert all(0.2 < (data[id] < 0).mean() < 0.3 for id in (0, 1))
    assert 0.4 < (evaluate(g, data, keep=[3])[3] == 0).mean() < 0.5
    assert rules(graph(smaller)) == {}
    assert rules(graph("%1: f32[9] = Exp#0(%0: f32[9]) %3: f32[9] = Minimum#1(%1, %2: f32[9]) %4: f32[9] = ReLU#2(%3)")) == {}


# ---- attention -------------------------------------------------------------------------------------------------------

SCORES = "%2: f32[2,6,8] = MatMul#0(%0: f32[2,6,16], %1: f32[2,16,8]) "
SOFTMAX = '%9: f32[2,6,8] = SoftMax#9(%5) {axis=-1, mode="inf_as_zero"} '


def test_scores_are_a_few_units_apart() -> None:
    g = graph("%2: f32[64,99] = MatMul#0(%0: f32[64,128], %1: f32[128,99]) %3: f32[64,99] = SoftMax#1(%2) {axis=-1}")
    assert rules(g) == {0: "scores", 1: "scores"}
    scores = evaluate(g, fill(g, 0), keep=[2])[2]
    assert 3 < scores.std() < 6
    assert np.all(fill(g, 0)[0] != 0)
    assert rules(graph("%2: f32[64,99] = MatMul#0(%0: f32[64,128], %1: f32[128,99]) %3: f32[64,99] = Exp#1(%2)")) == {}


def test_a_causal_mask_and_a_row_without_anything() -> None:
    g = graph(SCORES + "%5: f32[2,6,8] = Add#1(%2, %4: f32[2,6,8]) " + SOFTMAX)
    assert rules(g)[4] == "causal_mask"
    mask = fill(g, 0)[4]
    assert np.all(np.isneginf(mask[:, 5]))
    np.testing.assert_array_equal(mask[0, :5] == 0, np.tri(5, 8, dtype=bool))
    assert np.all(np.isneginf(mask[mask != 0]))


def test_a_softmax_that_gives_nan_gets_no_row_without_anything() -> None:
    g = graph(SCORES + '%5: f32[2,6,8] = Add#1(%2, %4: f32[6,8]) %9: f32[2,6,8] = SoftMax#9(%5) {axis=-1, mode="none"}')
    assert not np.isneginf(fill(g, 0)[4]).all(axis=1).any()
    assert np.isfinite(evaluate(g, fill(g, 0))[9]).all()


def test_a_mask_of_one_row_masks_padding() -> None:
    g = graph(SCORES + "%5: f32[2,6,8] = Add#1(%2, %4: f32[2,1,8]) " + SOFTMAX)
    assert rules(g)[4] == "causal_mask"
    assert not fill(g, 0)[4].any()


def test_other_operands_are_not_masks() -> None:
    vector = graph(SCORES + "%5: f32[2,6,8] = Add#1(%2, %4: f32[8]) " + SOFTMAX)
    both_given = graph("%5: f32[2,6,8] = Add#1(%3: f32[2,6,8], %4: f32[2,6,8]) " + SOFTMAX)
    elsewhere = graph(SCORES + "%5: f32[2,6,8] = Add#1(%2, %4: f32[2,6,8]) %9: f32[2,6,8] = ReLU#2(%5)")
    assert [rules(g).get(4) for g in (vector, both_given, elsewhere)] == [None] * 3


INDICES = "%3: s32[2,6,8] = GenIndex#2(%2) {axis=-2} %4: s32[2,6,8] = GenIndex#3(%2) {axis=-1} "


def test_an_implicit_mask_fills_with_minus_infinity() -> None:
    g = graph(SCORES + INDICES + "%6: boolean[2,6,8] = GreaterEqual#4(%3, %4) %5: f32[2,6,8] = Select#5(%6, %2, %7: f32[]) " + SOFTMAX)
    assert rules(g)[7] == "implicit_mask"
    assert fill(g, 0)[7] == -np.inf
    g = graph(SCORES + INDICES + "%6: boolean[2,6,8] = GreaterEqual#4(%3, %4) %5: f32[2,6,8] = Select#5(%6, %2, %7: f32[]) ")
    assert 7 not in rules(g), "nothing makes probabilities of it"


@pytest.mark.parametrize(("operands", "condition"), [("%2, %7: f32[]", True), ("%7: f32[], %2", False)])
def test_a_condition_of_the_users_lets_every_score_through(operands: str, condition: bool) -> None:
    g = graph(SCORES + f"%5: f32[2,6,8] = Select#5(%6: boolean[2,1,8], {operands}) " + SOFTMAX)
    assert rules(g)[6] == "implicit_mask"
    assert np.all(fill(g, 0)[6] == condition)


def test_lengths_of_a_mask_that_is_aligned_at_its_end() -> None:
    def masked(where: str) -> Graph:
        return graph(
            SCORES
            + INDICES
            + where
            + "%13: boolean[2,6,8] = GreaterEqual#8(%12, %4) %5: f32[2,6,8] = Select#5(%13, %2, %7: f32[]) "
            + SOFTMAX
        )

    g = masked("%10: s32[2,6,8] = Add#6(%3, %20: s32[]) %12: s32[2,6,8] = Subtract#7(%10, %21: s32[]) ")
    assert (rules(g)[20], rules(g)[21]) == ("bottom_right", "bottom_right")
    data = fill(g, 0)
    assert (data[20], data[21]) == (8, 6)
    near = masked("%10: s32[2,6,8] = Subtract#6(%3, %20: s32[]) %12: s32[2,6,8] = Add#7(%10, %21: s32[]) ")
    assert {20, 21}.isdisjoint(rules(near))


BACKWARD = SCORES + "%5: f32[2,6,8] = Add#1(%2, %4: f32[2,6,8]) %7: f32[2,6,8] = Subtract#2(%5, %6: f32[2,6,1]) %8: f32[2,6,8] = {}#3(%7)"


def test_statistics_make_probabilities_of_the_scores() -> None:
    g = graph(BACKWARD.format("Exp"))
    assert (rules(g)[4], rules(g)[6]) == ("causal_mask", "statistics")
    data = fill(g, 0)
    p = evaluate(g, data)[8]
    np.testing.assert_allclose(p.sum(axis=-1)[:, :5], 1, rtol=1e-6)
    assert not p[:, 5].any(), "the row that is masked as a whole"
    assert not data[6][:, 5].any()


def test_no_statistics_follow_from_themselves() -> None:
    """e**x - x goes into an exponential, and is computed of x."""
    b = GraphBuilder()
    x = b.input((8, 32))
    b.op("Exp", b.op("Subtract", b.op("Exp", x), x))
    assert "statistics" not in rules(b.graph()).values()
    assert set(fill(b.graph(), 0)) == {x.id}


def test_statistics_of_scores_that_are_computed_with_others_follow_those() -> None:
    b = GraphBuilder()
    later, first, x = (b.input((8, 8)) for _ in range(3))
    b.op("Abs", later)  # which makes it the first input of the graph
    for stats in (first, later):
        x = b.op("Exp", b.op("Subtract", b.op("MatMul", x, b.input((8, 8))), stats))
    graph = b.graph()
    assert [rules(graph)[t.id] for t in (first, later)] == ["statistics"] * 2
    result = evaluate(graph, fill(graph, 0))[x.id]
    np.testing.assert_allclose(result.sum(axis=-1), 1.0, rtol=1e-5)


def test_other_operands_are_not_statistics() -> None:
    assert 6 not in rules(graph(BACKWARD.format("Tanh")))
    given = "%7: f32[2,6,8] = Subtract#2(%5: f32[2,6,8], %6: f32[2,6,1]) %8: f32[2,6,8] = Exp#3(%7)"
    assert rules(graph(given)) == {}


DEQUANTISED = (
    '%3: f32[16,8] = DynamicDequantize#0(%0: {}[16,8], %1: f32[2,8], %2: u8[2,8]) {{qtype="per_group", axis=0, group_shape=[8,1]}} '
)


@pytest.mark.parametrize(("dtype", "values"), [("s8", {-2, -1, 0, 1, 2}), ("u8", {0, 1, 2}), ("s4", {-1, 0, 1}), ("u4", {0, 1, 2})])
def test_compressed_keys_are_small(dtype: str, values: set[int]) -> None:
    g = graph(DEQUANTISED.format(dtype) + "%5: f32[6,8] = MatMul#1(%4: f32[6,16], %3) %6: f32[6,8] = SoftMax#2(%5) {axis=-1}")
    assert rules(g) == {0: "compressed_attention", 4: "scores"}
    assert set(np.unique(fill(g, 0)[0])) == values


def test_compressed_weights_that_are_no_keys() -> None:
    assert rules(graph(DEQUANTISED.format("s8") + "%5: f32[6,8] = MatMul#1(%4: f32[6,16], %3) ")) == {}


# ---- gated multilayer perceptrons ------------------------------------------------------------------------------------

GATE = (
    "%3: f32[4,96] = MatMul#0(%0: f32[4,300], %1: f32[300,96]) %5: f32[4,96] = MatMul#1({}, %4: f32[300,96]) "
    "%6: f32[4,96] = Sigmoid#2(%3) %7: f32[4,96] = Multiply#3(%3, %6) %8: f32[4,96] = {}#4(%7, %5) "
)
DOWN = "%10: f32[4,20] = MatMul#6(%8, %9: f32[96,20])"


def test_the_shared_activation_of_a_gated_network_is_tiny_and_sparse() -> None:
    g = graph(GATE.format("%0", "Multiply") + DOWN)
    assert rules(g) == {0: "gated"}
    data = fill(g, 0)[0]
    assert set(np.unique(data)) <= {0, 2.0**-12, 2.0**-13, 2.0**-14}
    assert (data != 0).mean() == pytest.approx(3 / 300, abs=0.006)


def test_networks_that_are_not_gated() -> None:
    assert rules(graph(GATE.format("%20: f32[4,300]", "Multiply") + DOWN)) == {}, "nothing is shared"
    assert rules(graph(GATE.format("%0", "Add") + DOWN)) == {}
    assert rules(graph(GATE.format("%0", "Multiply"))) == {}, "no product follows"


# ---- the loop --------------------------------------------------------------------------------------------------------


def test_every_rule_is_tried_once_and_the_first_claim_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    g = graph(SCORES + "%5: f32[2,6,8] = Add#1(%2, %4: f32[2,6,8]) " + SOFTMAX)
    assert len(RULES) == 11
    monkeypatch.setitem(RULES, "factors", RULES["scores"])
    assert rules(g) == {0: "factors", 1: "factors", 4: "causal_mask"}


U8_SCORES = (
    '%2: f32[2,6,16] = Dequantize#0(%0: u8[2,6,16]) {qtype="per_tensor", scales=[0.12], zps=[0]} '
    '%3: f32[2,16,8] = Dequantize#1(%1: u8[2,16,8]) {qtype="per_tensor", scales=[0.12], zps=[0]} '
    "%4: f32[2,6,8] = MatMul#2(%2, %3) %5: f32[2,6,8] = SoftMax#3(%4) {axis=-1} "
)
U8_PROBABILITIES = '%6: u8[2,6,8] = Quantize#4(%5) {qtype="per_tensor", scales=[0.12], zps=[0]}'


def test_quantised_probabilities_do_not_vanish() -> None:
    g = graph(U8_SCORES + U8_PROBABILITIES)
    assert rules(g) == {0: "quantised_scores", 1: "quantised_scores"}
    given = fill(g, 3)
    assert np.mean(evaluate(g, given)[6] > 0) > 0.1
    assert given[0].max() > 8, "beyond the small integers of the product's own strategy"


def test_quantised_scores_of_float_probabilities_are_the_products() -> None:
    assert rules(graph(U8_SCORES)) == {0: "quantised", 1: "quantised"}
