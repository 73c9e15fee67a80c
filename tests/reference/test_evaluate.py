from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from benchgraph.core.errors import InvalidArguments, Unimplemented
from benchgraph.graph import parse_graph
from benchgraph.graph.build import GraphBuilder, sample_graph
from benchgraph.ops import OPS
from benchgraph.reference import domain, evaluate

TWO_OUTPUTS = """
graph engine=cpu fpmath=strict outputs=[3] {
  %2: f32[2,3] = Add#0(%0: f32[2,3], %1: f32[3])
  %3: f32[2,3] = ReLU#1(%2)
  %4: f32[2,3] = Square#2(%3)
  End#3(%4)
}
"""


def inputs() -> dict[int, np.ndarray]:
    return {0: np.array([[1, -2, 3], [-4, 5, -6]], np.float32), 1: np.array([0.5, 0.5, -0.5], np.float32)}


def test_outputs_are_the_ports_and_what_end_marks() -> None:
    got = evaluate(parse_graph(TWO_OUTPUTS), inputs())
    want = np.maximum(inputs()[0] + inputs()[1].astype(np.float64), 0)
    assert set(got) == {3, 4}
    np.testing.assert_array_equal(got[3], want)
    np.testing.assert_array_equal(got[4], want**2)
    assert got[4].dtype == np.float64


def test_kept_tensors_are_returned_too() -> None:
    got = evaluate(parse_graph(TWO_OUTPUTS), inputs(), keep=(2, 0))
    assert set(got) == {0, 2, 3, 4}


def test_narrow_floats_are_widened_without_loss_and_integers_stay() -> None:
    graph = parse_graph(
        "graph engine=cpu fpmath=strict { %1: bf16[2] = Square#0(%0: bf16[2]) "
        "%3: f32[2] = Select#1(%2: boolean[2], %4: f32[2], %5: f32[2]) }"
    )
    bf16 = graph.inputs[0].dtype.numpy
    third = np.array([1 / 3, 3]).astype(bf16)
    got = evaluate(graph, {0: third, 2: np.array([True, False]), 4: np.ones(2), 5: np.zeros(2)})
    np.testing.assert_array_equal(got[1], third.astype(np.float64) ** 2)
    np.testing.assert_array_equal(got[3], [1, 0])


def test_ops_are_evaluated_in_topological_order() -> None:
    text = "graph engine=cpu fpmath=strict { %2: f32[2] = ReLU#0(%1: f32[2]) %1: f32[2] = Abs#1(%0: f32[2]) }"
    np.testing.assert_array_equal(evaluate(parse_graph(text), {0: np.array([-1.0, 2.0])})[2], [1, 2])


def test_intermediate_results_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "".join(f"%{n + 1}: f32[65536] = Abs#{n}(%{n}{': f32[65536]' if n == 0 else ''}) " for n in range(40))
    graph = parse_graph(f"graph engine=cpu fpmath=strict {{ {lines}}}")
    tracemalloc.start()
    evaluate(graph, {0: np.zeros(65536)})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * 65536 * 8


def test_missing_data_is_an_error() -> None:
    with pytest.raises(InvalidArguments, match="no data for graph input 1"):
        evaluate(parse_graph(TWO_OUTPUTS), {0: inputs()[0]})


def test_data_of_another_shape_is_an_error() -> None:
    with pytest.raises(InvalidArguments, match=r"input 1 has shape \(3,\), its data \(4,\)"):
        evaluate(parse_graph(TWO_OUTPUTS), {**inputs(), 1: np.zeros(4)})


def test_a_wildcard_has_no_reference() -> None:
    with pytest.raises(Unimplemented):
        evaluate(parse_graph("graph engine=cpu fpmath=strict { %1: f32[2] = Wildcard#0(%0: f32[2]) }"), {0: np.zeros(2)})


def test_ops_in_between_read_what_a_tensor_holds() -> None:
    graph = parse_graph("graph engine=cpu fpmath=strict { %1: bf16[2] = Square#0(%0: bf16[2]) %2: bf16[2] = Square#1(%1) }")
    got = evaluate(graph, {0: np.array([17.0, 0.5])}, keep=[1])
    np.testing.assert_array_equal(got[1], [289.0, 0.25]), "asked for, it is what the op computed"
    np.testing.assert_array_equal(got[2], [288.0**2, 0.0625]), "bf16 holds 288"


def test_overflow_is_infinite_for_later_ops() -> None:
    graph = parse_graph("graph engine=cpu fpmath=strict { %1: f32[3] = Exp#0(%0: f32[3]) %2: f32[3] = Reciprocal#1(%1) }")
    got = evaluate(graph, {0: np.array([88.0, 89.0, 800.0])})[2]
    assert got[0] > 0
    np.testing.assert_array_equal(got[1:], [0, 0])


@pytest.mark.parametrize("special", [0.0, np.inf, np.nan, -1.0, 3e38])
def test_special_numbers_are_answered_without_a_warning(special: float) -> None:
    """By every row, in any of its inputs; warnings are errors here. A probability is a share, and NaN is none."""
    for row in (row for row in OPS.values() if not row.lowering.unsupported):
        graph = sample_graph(row, row.testing.samples[0])
        given = domain(graph, 0)
        shares = {t.id for t, port in zip(graph.ops[0].inputs, row.schema.inputs, strict=False) if port.name == "probability"}
        for t in (t for t in graph.inputs if t.dtype.is_float and t.id not in shares):
            array = given[t.id].copy()
            array.flat[::2] = array.dtype.type(special)
            evaluate(graph, given | {t.id: array})


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("kind", "attrs"), [("RMSNorm", {}), ("ReduceMean", {"axes": [1]})], ids=["RMSNorm", "ReduceMean"])
def test_a_mean_of_nothing_is_not_printed(kind: str, attrs: dict[str, Any]) -> None:
    b = GraphBuilder()
    b.op(kind, b.input((3, 0)), **attrs)
    evaluate(b.graph(), {0: np.zeros((3, 0))})
