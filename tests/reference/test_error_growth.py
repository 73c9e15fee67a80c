"""Graphs in which rounding errors grow: their results are mistrusted, with the remedy, and those of others judged as ever."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.core.dtypes import DType
from benchgraph.graph import Graph, GraphBuilder, save
from benchgraph.harness.verdict import Verdict, compare_outputs
from benchgraph.reference import depends_on_rounding, evaluate, fill, tolerance
from benchgraph.reference.rounding_noise import RoundingNoise
from benchgraph.results.result import Status


def perceptron(layers: int, act: str, dtype: DType = DType.f32, *, is_quantised: bool = False) -> Graph:
    b = GraphBuilder()
    x = b.input((8, 32), dtype)
    for _ in range(layers):
        x = b.op(act, b.op("MatMul", x, b.constant((32, 32), dtype)))
    if is_quantised:
        b.op("Quantize", x, dtype=DType.s8, scales=(0.1,), zps=(0,))
    return b.graph()


def products(layers: int) -> Graph:
    """Both operands of every other product are made of the result of the one before."""
    b = GraphBuilder()
    x = b.input((8, 8))
    for _ in range(layers):
        one, other = (b.op("MatMul", x, b.constant((8, 8))) for _ in range(2))
        x = b.op("MatMul", one, other, transpose_b=True)
    return b.graph()


def row(build: Callable[[GraphBuilder], object]) -> Graph:
    b = GraphBuilder()
    build(b)
    return b.graph()


GROWING = {
    "reciprocals": perceptron(8, "Reciprocal"),
    "reciprocals_bf16": perceptron(12, "Reciprocal", DType.bf16),
    "reciprocals_int8": perceptron(8, "Reciprocal", is_quantised=True),
    "products": products(24),
}
CALM = {
    "relu": perceptron(12, "ReLU"),
    "tanh": perceptron(12, "Tanh"),
    "relu_bf16": perceptron(12, "ReLU", DType.bf16),
    "relu_int8": perceptron(12, "ReLU", is_quantised=True),
    "one_product": row(lambda b: b.op("MatMul", b.input((8, 32)), b.constant((32, 32)))),
    "softmax": row(lambda b: b.op("SoftMax", b.input((8, 32)), axis=-1)),
    "gelu_bf16": row(lambda b: b.op("GELU", b.op("Add", b.input((8, 32), DType.bf16), b.input((8, 32), DType.bf16)))),
    "exp": row(lambda b: b.op("Exp", b.op("Add", b.input((8, 32)), b.input((8, 32))))),
}


def hanging(graph: Graph) -> float:
    """The share of the points of the result, of one off by as much as noise is."""
    given, (out,) = fill(graph, 0), graph.outputs
    want = evaluate(graph, given)[out.id]
    got = evaluate(graph, given, noise=RoundingNoise(20))[out.id]
    return float(np.mean(depends_on_rounding(graph, given, out, got, want, tolerance(graph))))


@pytest.mark.parametrize("graph", GROWING.values(), ids=GROWING)
def test_results_depend_on_rounding_where_errors_grow(graph: Graph) -> None:
    assert hanging(graph) == 1


@pytest.mark.parametrize("graph", CALM.values(), ids=CALM)
def test_none_does_where_they_do_not(graph: Graph) -> None:
    assert hanging(graph) == 0


@pytest.mark.parametrize("name", ["reciprocals", "reciprocals_int8"])
def test_such_a_case_is_mistrusted_with_a_remedy(name: str, tmp_path: Path) -> None:
    save(GROWING[name], tmp_path / "case.json")
    result = CliRunner().invoke(main, ["--policy=one_op_each", "--graph", f"--case={tmp_path / 'case.json'}"])
    assert "0:MISTRUSTED (" in result.output, result.output
    assert "rounding errors grow from op to op to more than the tolerance in " in result.output
    assert "of the values; try a shallower graph)" in result.output


def test_errors_in_a_well_conditioned_graph_fail() -> None:
    graph = CALM["relu"]
    given, (out,) = fill(graph, 0), graph.outputs
    want = evaluate(graph, given)
    got = want[out.id].astype(np.float32)
    got[3] *= 1.01
    assert compare_outputs(graph, given, {**given, out.id: got}, want, "whole graph", Verdict()).status is Status.FAILED


def test_an_error_beyond_what_noise_does_is_one_of_the_code() -> None:
    """Scores in the hundreds: a softmax makes of their last bits more than it may be off by itself, and far less than a hundredth."""
    b = GraphBuilder()
    b.op("SoftMax", b.op("Multiply", b.op("MatMul", b.input((8, 32)), b.constant((32, 16))), b.constant((1,))), axis=-1)
    graph = b.graph()
    rng = np.random.default_rng(0)
    given = {t.id: rng.standard_normal(t.known_shape) * 6 for t in graph.inputs}
    (out,), want = graph.outputs, evaluate(graph, given)
    for off in (1e-2, -1e-3):
        got = (want[out.id] * (1 + off)).astype(np.float32)
        assert compare_outputs(graph, given, {**given, out.id: got}, want, "whole graph", Verdict()).status is Status.FAILED
