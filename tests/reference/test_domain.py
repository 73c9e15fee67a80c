from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchgraph.graph import Graph, load, parse_graph, validate
from benchgraph.ops import spec
from benchgraph.reference import compare, domain, evaluate, tolerance

SHARED = Path(__file__).parents[2].parent / "shared"


def graph(body: str) -> Graph:
    return validate(parse_graph(f"graph engine=cpu fpmath=strict {{ {body} }}"))


def weight_range(g: Graph) -> tuple[float, float]:
    """What the last op's row fills its second input with."""
    weights = spec(g.ops[-1].kind).testing.domain(g.ops[-1].call, 1, np.random.default_rng(9))
    return float(weights.min()), float(weights.max())


LAYERS = graph("%2: f32[32,64] = MatMul#0(%0: f32[32,256], %1: f32[256,64]) %4: f32[32,8] = MatMul#1(%2, %3: f32[64,8])")


def test_data_depends_on_the_seed_and_the_tensor_alone() -> None:
    first, again, other = domain(LAYERS, 1), domain(LAYERS, 1), domain(LAYERS, 2)
    reversed_ops = domain(replace(LAYERS, ops=LAYERS.ops[::-1]), 1)
    for id in first:
        np.testing.assert_array_equal(first[id], again[id])
        np.testing.assert_array_equal(first[id], reversed_ops[id])
        assert not np.array_equal(first[id], other[id])


def test_every_input_has_its_dtype_shape_and_strides() -> None:
    g = graph(
        "%3: f32[4,6] = Select#0(%0: boolean[4,6], %1: f32[4,6] strides=[1,4], %2: f32[6]) "
        "%5: f32[2,3] = Dequantize#1(%4: s8[2,3] strides=[8,2]) {scales=[0.5]} %7: bf16[3,3] = Abs#2(%6: bf16[3,3] strides=[0,1]) "
        "%9: f32[4,6] = Dequantize#3(%8: f8_e5m2[4,6] strides=[1,4]) {scales=[0.5]}"
    )
    got = domain(g, 0)
    for t in g.inputs:
        assert got[t.id].dtype == t.dtype.numpy
        assert got[t.id].shape == t.known_shape
        assert got[t.id].strides == tuple(s * t.dtype.numpy.itemsize for s in t.known_strides)
    np.testing.assert_array_equal(got[6][0], got[6][2])


def test_weights_are_filled_as_their_matmul_asks_through_transposes_and_casts() -> None:
    g = graph(
        "%1: f32[300,8] = StaticTranspose#0(%0: f32[8,300]) {order=[1,0]} %2: bf16[300,8] = TypeCast#1(%1) "
        "%4: bf16[2,8] = MatMul#2(%3: bf16[2,300], %2)"
    )
    weights = domain(g, 0)[0]
    low, high = weight_range(g)
    assert (weights.min(), weights.max()) == (pytest.approx(low, abs=0.005), pytest.approx(high, abs=0.005))
    assert len(np.unique(weights)) > 1000, "they are divided as finely as their own dtype allows, so that the cast has to round"


def test_quantised_weights_stand_for_the_numbers_the_matmul_wants() -> None:
    g = graph(
        "%1: f32[300,64] = Dequantize#0(%0: s8[300,64]) {scales=[0.004]} %2: f32[300,64] = Reorder#1(%1) "
        "%4: f32[2,64] = MatMul#2(%3: f32[2,300], %2)"
    )
    weights = domain(g, 0)[0]
    assert weights.dtype == np.int8
    low, high = weight_range(g)
    assert (weights.min() * 0.004, weights.max() * 0.004) == (pytest.approx(low, abs=0.008), pytest.approx(high, abs=0.008))


def test_weights_below_one_step_do_not_all_vanish() -> None:
    g = graph("%1: f32[900,64] = Dequantize#0(%0: s8[900,64]) {scales=[0.2]} %4: f32[2,64] = MatMul#2(%3: f32[2,900], %1)")
    steps, counts = np.unique(domain(g, 0)[0], return_counts=True)
    assert set(steps) == {-1, 0, 1}
    assert counts.min() > 1000


def test_numbers_beyond_the_type_are_scaled_down_and_below_it_mirrored() -> None:
    g = graph("%1: f32[64,64] = Dequantize#0(%0: u8[64,64]) {scales=[0.0001], zps=[3]} %2: f32[64,64] = Exp#1(%1)")
    values = domain(g, 0)[0]
    assert 100 < values.max() < 255
    assert (values == 0).mean() < 0.1
    assert (values == 255).mean() < 0.1


def test_a_quantised_scalar_is_filled() -> None:
    g = graph("%1: f32[] = Dequantize#0(%0: u8[]) {scales=[0.5]} %2: f32[4] = Add#1(%3: f32[4], %1)")
    (scalar,) = (a for id, a in domain(g, 1).items() if id == 0)
    assert (scalar.shape, scalar.dtype) == ((), np.uint8)


def test_an_input_that_only_an_end_reads_is_zero() -> None:
    assert not domain(graph("End#0(%0: f32[3]) "), 0)[0].any()


@pytest.mark.skipif(not SHARED.exists(), reason="the corpus is not beside this checkout")
@pytest.mark.parametrize(
    "name", ["paper/mlp_relu_13x512x256x128", "paper/mlp_relu_479x1024x1024x512x256x1", "onednn/complex_fusion/mha/MHA-GPT-inf-int8-bs1"]
)
def test_quantised_networks_neither_saturate_nor_die_out(name: str) -> None:
    g = validate(load(SHARED / "corpus" / f"{name}.json"))
    (out,) = g.outputs
    want = evaluate(g, domain(g, 0))[out.id]
    assert len(np.unique(want)) >= 3
    assert (want == out.dtype.range[1]).mean() < 0.01
    assert not compare(want, want, out.dtype, tolerance(g)).is_mistrusted(0.99)
