"""Deep graphs: the data of inputs keep every layer's results of one size at any depth, and planning takes a step per op."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph import Graph, GraphBuilder
from benchgraph.graph.ir import Op
from benchgraph.ops import spec
from benchgraph.reference import domain, evaluate, fill, is_deep, plan, zero_limit
from benchgraph.reference.deep_graphs import SIZE, scaled_inputs, sums_products

Fill = Callable[[Graph, int], dict[int, np.ndarray]]


def perceptron(layers: int, dtype: DType = DType.f32, act: str = "ReLU", width: int = 64) -> Graph:
    b = GraphBuilder()
    x = b.input((16, width), dtype)
    for _ in range(layers):
        x = b.op(act, b.op("MatMul", x, b.constant((width, width), dtype), b.constant((width,), dtype)))
    return b.graph()


def convolutions(layers: int) -> Graph:
    b = GraphBuilder()
    x, attrs = b.input((1, 6, 6, 16)), {"strides": (1, 1), "dilations": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1)}
    for _ in range(layers):
        x = b.op("ReLU", b.op("Convolution", x, b.constant((3, 3, 16, 16)), **attrs))
    return b.graph()


def quantised(layers: int) -> Graph:
    b = GraphBuilder()
    x = b.input((16, 64), DType.u8)
    for _ in range(layers):
        weights = b.op("Dequantize", b.constant((64, 64), DType.s8), scales=(0.02,), zps=(0,))
        y = b.op("ReLU", b.op("MatMul", b.op("Dequantize", x, scales=(0.05,), zps=(3,)), weights))
        x = b.op("Quantize", y, dtype=DType.u8, scales=(0.05,), zps=(3,))
    return b.graph()


def encoder(layers: int) -> Graph:
    b = GraphBuilder()

    def product(x: LogicalTensor, n: int) -> LogicalTensor:
        return b.op("MatMul", x, b.constant((x.known_shape[-1], n)), b.constant((n,)))

    x = b.input((2, 16, 32))
    for _ in range(layers):
        scores = b.op("MatMul", product(x, 32), product(x, 32), transpose_b=True)
        p = b.op("SoftMax", b.op("Multiply", scores, b.constant((1,))), axis=-1)
        y = b.op("Add", x, product(b.op("MatMul", p, product(x, 32)), 32))
        y = b.op("LayerNorm", y, b.constant((32,)), b.constant((32,)), keep_stats=False)
        x = b.op("Add", y, product(b.op("GELU", product(y, 64)), 32))
    return b.graph()


def tied(layers: int) -> Graph:
    b = GraphBuilder()
    x, weights = b.input((16, 64)), b.constant((64, 64))
    for _ in range(layers):
        x = b.op("ReLU", b.op("MatMul", x, weights))
    return b.graph()


DEEP = {
    "perceptron": perceptron(48),
    "perceptron_f16": perceptron(48, DType.f16),
    "perceptron_bf16": perceptron(48, DType.bf16),
    "gelu": perceptron(48, act="GELU"),
    "convolutions": convolutions(64),
    "wide_f16": perceptron(4, DType.f16, width=1024),
}


def made(graph: Graph, data: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    return evaluate(graph, data, keep=[t.id for op in graph.ops for t in op.outputs])


@pytest.mark.covering(1)
@pytest.mark.parametrize("make", [fill, domain], ids=["integers", "reals"])
@pytest.mark.parametrize("graph", DEEP.values(), ids=DEEP)
def test_every_layer_makes_numbers_of_one_size_and_zeros_in_half_of_them(graph: Graph, make: Fill) -> None:
    values = made(graph, make(graph, 0))
    for op in graph.order:
        result, (out,) = values[op.outputs[0].id], op.outputs
        assert np.isfinite(result).all()
        assert np.mean(result == 0) <= zero_limit(graph, out.id)
        if sums_products(op):
            assert SIZE / 2.5 < np.sqrt(np.mean(result**2)) < 2.5 * SIZE, op.label


def test_small_integers_go_far_beyond_the_range_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the other tests would find without scaling."""
    monkeypatch.setattr(sys.modules["benchgraph.reference.fill"], "is_deep", lambda graph: False)
    graph = DEEP["perceptron"]
    assert not np.isfinite(made(graph, fill(graph, 0))[graph.outputs[0].id]).all()


def test_no_softmax_picks_one_number_of_a_row() -> None:
    graph = encoder(6)
    values = made(graph, fill(graph, 0))
    for op in (op for op in graph.order if op.kind == "SoftMax"):
        most = values[op.outputs[0].id].max(axis=-1)
        assert 1 / 16 < np.median(most) < 0.95, op.label


def test_quantised_layers_use_the_range_of_their_type() -> None:
    graph = quantised(24)
    values = made(graph, fill(graph, 0))
    for op in (op for op in graph.order if op.kind == "Quantize"):
        stored = values[op.outputs[0].id].astype(np.float64)
        assert np.std(stored) > 8, op.label
        assert np.mean(stored == 255) < 0.1, op.label


def test_weights_of_several_layers_keep_all_of_them_of_a_size() -> None:
    graph = tied(48)
    out = made(graph, fill(graph, 0))[graph.outputs[0].id]
    assert np.isfinite(out).all()
    assert np.mean(out == 0) < 0.65
    assert 2.0**-24 < np.abs(out).max() < 2.0**24


def test_early_layers_show_in_the_result() -> None:
    """A bias left out in the third of 48 layers changes the result by far more than the tolerance."""
    graph = DEEP["perceptron"]
    data = fill(graph, 0)
    want = evaluate(graph, data)[graph.outputs[0].id]
    bias = [op for op in graph.order if sums_products(op)][2].inputs[2].id
    got = evaluate(graph, {**data, bias: np.zeros_like(data[bias])})[graph.outputs[0].id]
    assert np.abs(got - want).max() > 0.02 * np.sqrt(np.mean(want**2))


def test_graphs_of_few_layers_hold_what_they_held() -> None:
    graph = perceptron(5)
    assert not is_deep(graph)
    assert all(p.target is None and "integers" in p.filling.description for p in plan(graph))
    assert is_deep(perceptron(6))
    assert is_deep(perceptron(4, DType.f16, width=1024)), "their sums are larger than f16"


def test_weights_are_small_integers_times_a_power_of_two() -> None:
    graph = DEEP["perceptron"]
    data = fill(graph, 0)
    for op in (op for op in graph.order if sums_products(op)):
        weights = data[op.inputs[1].id]
        steps = weights / np.abs(weights[weights != 0]).min()
        assert np.array_equal(steps, np.rint(steps))
        assert np.abs(steps).max() <= 128
    (said,) = (str(p) for p in plan(graph) if p.tensor.id == 1)
    assert "integers in [-128, 128], scaled so that op 0: MatMul makes numbers of size 4" in said


def test_planning_takes_as_many_steps_for_every_op_of_a_deep_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    def steps(layers: int) -> int:
        graph, count = perceptron(layers), 0

        def counted(op: Op, name: str) -> object:
            nonlocal count
            count += name in ("kind", "inputs", "outputs")
            return object.__getattribute__(op, name)

        with monkeypatch.context() as patch:
            patch.setattr(Op, "__getattribute__", counted)
            plan(graph)
        return count

    few, many = steps(40), steps(160)
    assert many < 4.4 * few


def test_a_tensor_is_a_dial_of_the_first_op_that_computes_with_it() -> None:
    graph = tied(8)
    (target,) = scaled_inputs(graph, ())
    assert (target.op.id, target.is_tied) == (graph.order[0].id, True)
    assert all(spec(d.op.kind).semantics.follows_fpmath for d in scaled_inputs(DEEP["convolutions"], ()))


def test_products_of_products_stay_in_the_range_of_f16() -> None:
    """Of a tree, where operands of the lowest layer alone may be scaled: what they are off by is squared from layer to layer."""
    b = GraphBuilder()
    level = [b.input((32, 32), DType.f16) for _ in range(32)]
    while len(level) > 1:
        level = [b.op("MatMul", one, other) for one, other in zip(level[::2], level[1::2], strict=True)]
    graph = b.graph()
    for result in made(graph, fill(graph, 0)).values():
        assert 0.05 < np.sqrt(np.mean(result**2)) < 2.0**11


def test_a_square_has_no_dial() -> None:
    """Its size goes with that of both operands, which are one."""
    b = GraphBuilder()
    x = b.input((16, 16))
    for _ in range(8):
        x = b.op("MatMul", x, x)
    assert is_deep(b.graph())
    assert not scaled_inputs(b.graph(), ())
