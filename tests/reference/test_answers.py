"""Two right answers where a graph has bf16 between its ops: rounded there, or not."""

from __future__ import annotations

import numpy as np

from benchgraph.core.dtypes import DType
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.reference import compare_output, evaluate, tolerance


def steps(dtype: DType) -> Graph:
    """x, in the dtype, times 64, quantised: a rounding of x to bf16 shows as some steps."""
    b = GraphBuilder()
    x = b.op("Multiply", b.input((64,), dtype), b.input((1,), dtype))
    x = b.op("TypeCast", x, dtype=DType.f32) if dtype is not DType.f32 else x
    b.op("Quantize", x, dtype=DType.u8, scales=[1 / 64], zps=[0], qtype="per_tensor")
    return b.graph()


def verdict(graph: Graph, got: np.ndarray) -> bool:
    given = {t.id: data for t, data in zip(graph.inputs, (np.linspace(1, 3, 64), np.array([1.0039])), strict=True)}
    (t,) = graph.outputs
    want = evaluate(graph, given)[t.id]
    return compare_output(graph, given, t, got, want, tolerance(graph)).ok


def answers(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    given = {t.id: data for t, data in zip(graph.inputs, (np.linspace(1, 3, 64), np.array([1.0039])), strict=True)}
    (t,) = graph.outputs
    return evaluate(graph, given)[t.id], evaluate(graph, given, stored=())[t.id]


def test_both_answers_pass_and_a_mixture_too() -> None:
    graph = steps(DType.bf16)
    rounded, exact = answers(graph)
    assert np.count_nonzero(rounded != exact) > 4
    assert verdict(graph, rounded)
    assert verdict(graph, exact)
    assert verdict(graph, np.where(np.arange(64) % 2, rounded, exact).astype(np.uint8))


def test_what_is_neither_fails() -> None:
    graph = steps(DType.bf16)
    rounded, exact = answers(graph)
    assert not verdict(graph, (np.maximum(rounded, exact) + 2).astype(np.uint8))


def test_a_graph_in_f32_has_one_answer() -> None:
    rounded, exact = answers(steps(DType.f32))
    assert np.array_equal(rounded, exact)
