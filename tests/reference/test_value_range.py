"""Graphs whose numbers leave the range of their types are mistrusted, with a remedy; other results may fail."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from benchgraph.cli import main
from benchgraph.core.dtypes import DType
from benchgraph.graph import Graph, GraphBuilder, save
from benchgraph.harness.verdict import Verdict, compare_outputs
from benchgraph.reference import evaluate
from benchgraph.reference.value_range import beyond_range, is_saturated
from benchgraph.results.result import Status


def squares(count: int, dtype: DType = DType.f32) -> Graph:
    b = GraphBuilder()
    x = b.input((4, 16), dtype)
    for _ in range(count):
        x = b.op("Square", x)
    return b.graph()


def judged(graph: Graph, x: np.ndarray, spoil: dict[int, float]) -> Verdict:
    """The verdict on a result that is right but at these positions."""
    (given,), (out,) = graph.inputs, graph.outputs
    want = evaluate(graph, {given.id: x})
    with np.errstate(over="ignore"):
        got = want[out.id].astype(out.dtype.numpy)
    for at, value in spoil.items():
        got.flat[at] = value
    return compare_outputs(graph, {given.id: x}, {given.id: x, out.id: got}, want, "whole graph", Verdict())


@pytest.mark.parametrize("policy", ["fused", "one_op_each"])
@pytest.mark.parametrize("graph", [squares(10), squares(6, DType.f16)], ids=["f32", "f16"])
def test_a_graph_that_overflows_is_mistrusted_with_a_remedy(graph: Graph, policy: str, tmp_path: Path) -> None:
    save(graph, tmp_path / "case.json")
    result = CliRunner().invoke(main, [f"--policy={policy}", "--graph", f"--case={tmp_path / 'case.json'}"])
    dtype = graph.outputs[0].dtype.value
    assert "0:MISTRUSTED (" in result.output, result.output
    assert f" of the values depend on numbers beyond the range of {dtype}, first produced by op " in result.output
    assert "; try --fill=reals, a wider type by --dt, or a shallower graph)" in result.output
    assert result.exit_code == 0


def test_only_errors_due_to_overflow_do_not_fail() -> None:
    x = np.full((4, 16), 1.5)
    x[0, 0] = 1e6  # its fourth power is within the range, its square's square's square not
    graph = squares(3)
    assert judged(graph, x, {}).status is None, "one value of many is beyond"
    verdict = judged(graph, x, {0: 3.0})
    assert (verdict.status, verdict.errors) == (Status.MISTRUSTED, 0)
    assert "2% of the values depend on numbers beyond the range of f32, first produced by op 2: Square" in verdict.reason
    assert judged(graph, x, {1: 3.0}).status is Status.FAILED
    assert judged(graph, x, {0: 3.0, 1: 3.0}).status is Status.FAILED


def test_errors_due_to_underflow_do_not_fail() -> None:
    b = GraphBuilder()
    x = b.input((4, 16))
    for _ in range(5):
        x = b.op("Square", x)
    b.op("Log", x)
    graph, x = b.graph(), np.full((4, 16), 1.5)
    x[0, 0] = 1e-2  # to the 32nd
    verdict = judged(graph, x, {0: -np.inf})
    assert (verdict.status, verdict.errors) == (Status.MISTRUSTED, 0)
    reason = "2% of the values depend on numbers too small for f32, first produced by op 4: Square; try --fill=reals, a "
    assert reason in verdict.reason
    assert judged(graph, x, {1: -np.inf}).status is Status.FAILED


def test_zeros_by_underflow_have_a_remedy(tmp_path: Path) -> None:
    b = GraphBuilder()
    x = b.input((4, 16), DType.f16)
    for _ in range(24):
        x = b.op("Divide", x, b.input((4, 16), DType.f16))
    save(b.graph(), tmp_path / "case.json")
    for policy in ("fused", "one_op_each"):
        result = CliRunner().invoke(
            main, [f"--policy={policy}", "--graph", "--expected-n-partitions=0", f"--case={tmp_path / 'case.json'}"]
        )
        assert "0:MISTRUSTED (" in result.output, result.output
        assert " of the values are too small for f16, or others on the way are; try --fill=reals, a wider type by --dt" in result.output


def test_results_of_graph_inputs_are_always_compared() -> None:
    b = GraphBuilder()
    b.op("Exp", b.input((4, 16)))
    graph = b.graph()
    x = np.full((4, 16), 100.0)
    assert beyond_range(graph, {graph.inputs[0].id: x}, [graph.inputs[0].id]) is None
    assert judged(graph, x, {}).status is None
    assert judged(graph, x, {3: 1.0}).status is Status.FAILED


def test_saturation_is_of_nearly_all_values_at_an_end_other_than_0() -> None:
    assert is_saturated(np.full(100, 255, np.uint8), DType.u8)
    assert is_saturated(np.where(np.arange(100) % 2, 127, -128).astype(np.int8), DType.s8)
    assert not is_saturated(np.zeros(100, np.uint8), DType.u8)
    assert not is_saturated(np.arange(100, dtype=np.uint8), DType.u8)
    assert not is_saturated(np.full(100, 255.0), DType.f32)
