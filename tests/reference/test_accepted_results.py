"""Two right results for a graph with bf16 between its ops, rounded there or not; and noise of f32 at ties and cancellation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from benchgraph.core.dtypes import DType
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.reference import accepted_results, compare_output, evaluate, tolerance


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


def test_overflow_by_rounding_may_stay_finite() -> None:
    """300 * 300 is no number of f16; a library may keep it in f32 on the way to its difference from itself, and then to its root."""
    b = GraphBuilder()
    x = b.op("Square", b.input((2,), DType.f16))
    b.op("Sqrt", b.op("Subtract", x, b.op("Multiply", x, b.input((2,), DType.f16))))
    graph = b.graph()
    given = {t.id: np.array(data) for t, data in zip(graph.inputs, ([300.0, 2.0], [0.75, 0.75]), strict=True)}
    (t,) = graph.outputs
    want = evaluate(graph, given)[t.id]
    assert np.isnan(want[0])
    for got, verdict in (([150.0, 1.0], True), ([np.nan, 1.0], True), ([151.0, 1.0], False), ([150.0, np.nan], False)):
        assert compare_output(graph, given, t, np.array(got, np.float16), want, tolerance(graph)).ok is verdict


def test_results_between_the_right_ones_fail() -> None:
    graph = steps(DType.bf16)
    rounded, exact = answers(graph)
    assert not verdict(graph, (np.maximum(rounded, exact) + 2).astype(np.uint8))


def test_a_graph_in_f32_has_one_answer() -> None:
    rounded, exact = answers(steps(DType.f32))
    assert np.array_equal(rounded, exact)


Change = Callable[[np.ndarray], np.ndarray]


def judged(graph: Graph, inputs: Sequence[np.ndarray], change: Change) -> bool:
    """The verdict on what the reference wants, changed."""
    given = {t.id: data for t, data in zip(graph.inputs, inputs, strict=True)}
    (t,) = graph.outputs
    want = evaluate(graph, given)[t.id]
    got = change(want.astype(t.dtype.numpy).astype(np.float64)).astype(t.dtype.numpy)
    return compare_output(graph, given, t, got, want, tolerance(graph)).ok


def off(places: np.ndarray, by: float) -> Change:
    return lambda right: right + np.where(places, by, 0.0)


PLACES = np.arange(512)
TIES = PLACES % 32 == 4  # of numbers that are whole otherwise


def requantise(numbers: np.ndarray) -> tuple[Graph, list[np.ndarray]]:
    """Numbers times 0.12, quantised in steps of 0.12, which f32 does not hold."""
    b = GraphBuilder()
    x = b.op("Multiply", b.input((512,), DType.f32), b.input((1,), DType.f32))
    b.op("Quantize", x, dtype=DType.s8, scales=[0.12], zps=[0], qtype="per_tensor")
    return b.graph(), [numbers, np.array([0.12])]


@pytest.mark.parametrize("elements", [0, accepted_results.ELEMENTS])
def test_ties_go_either_way_and_nothing_else_does(elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large graph, too, which is evaluated only a few times."""
    monkeypatch.setattr(accepted_results, "ELEMENTS", elements)
    case = requantise(PLACES // 8 + TIES / 2)
    assert judged(*case, off(TIES, 1.0)) or judged(*case, off(TIES, -1.0))
    assert not judged(*case, off(np.roll(TIES, 1), 1.0))
    assert not judged(*case, off(TIES, 2.0))
    assert not judged(*case, off(TIES, -2.0))


def test_ties_are_few() -> None:
    """Where most numbers are ties, nothing says that a library rounds to nearest."""
    case = requantise(PLACES // 8 + 0.5)
    assert not judged(*case, off(PLACES % 8 > 0, 1.0))
    assert not judged(*case, off(PLACES % 8 > 0, -1.0))


def dequantised(scale: float, step: float) -> tuple[Graph, list[np.ndarray]]:
    """Whole numbers times a scale, quantised in other steps; half of them are ties, or next to one."""
    b = GraphBuilder()
    x = b.op("Dequantize", b.input((512,), DType.s8), scales=[scale], zps=[0], qtype="per_tensor", axis=0, dtype=DType.f32)
    b.op("Quantize", x, dtype=DType.s8, scales=[step], zps=[0], qtype="per_tensor", axis=0)
    return b.graph(), [(PLACES % 48).astype(np.int8)]


def test_many_may_be_next_to_a_tie_and_none_at_one() -> None:
    """2.5 times an odd number is a tie where 2.5 is exact. As 0.25 / 0.1 it is less, for 0.1 is more in f32, and 2.5 after all in f32."""
    odd, even = (off(k == PLACES % 4, 1.0) for k in (1, 2))
    assert judged(*dequantised(0.25, 0.1), odd)
    assert not judged(*dequantised(0.25, 0.1), even)
    assert not judged(*dequantised(0.625, 0.25), odd)


def test_cancellation_amplifies_the_errors_of_operands() -> None:
    b = GraphBuilder()
    b.op("LayerNorm", b.input((64, 2), DType.f32), use_affine=False, keep_stats=False, epsilon=1e-5)

    def near(rows: int) -> np.ndarray:
        return np.where(np.arange(64)[:, None] < rows, [100.0, 100.01], [1.0, 3.0])

    first = np.arange(128).reshape(64, 2) < 2
    assert judged(b.graph(), [near(1)], off(first, 4e-4))
    assert not judged(b.graph(), [near(1)], off(first, 1e-2))
    assert not judged(b.graph(), [near(1)], off(np.roll(first, 2, axis=0), 4e-4))
    assert not judged(b.graph(), [near(16)], off(near(16) > 50, 4e-4)), "not of many"


def chosen(numbers: np.ndarray) -> tuple[Graph, list[np.ndarray]]:
    """1 where exp(number) is at least 1, else -1. In f32 exp(-1e-9) is 1."""
    b = GraphBuilder()
    x = b.op("Exp", b.input((512,), DType.f32))
    b.op("Select", b.op("GreaterEqual", x, b.input((1,), DType.f32)), b.input((1,), DType.f32), b.input((512,), DType.f32))
    return b.graph(), [numbers, np.array([1.0]), np.array([1.0]), np.full(512, -1.0)]


NEARLY = np.where(TIES, -1e-9, PLACES % 2 - 0.5)


def test_either_branch_is_right_where_the_condition_is_a_tie() -> None:
    assert judged(*chosen(NEARLY), lambda right: np.where(TIES, -right, right))
    assert not judged(*chosen(NEARLY), lambda right: np.where(np.roll(TIES, 1), -right, right))


def test_neither_infinity_nor_nan_is_near_a_tie() -> None:
    for wrong in (np.nan, np.inf):
        assert not judged(*chosen(NEARLY), lambda right, wrong=wrong: np.where(TIES, wrong, right))


def test_some_tensors_are_rounded_and_others_are_not() -> None:
    """Two products in bf16, of which a library stores the first: some results are not even between the answers for all and for none."""
    b = GraphBuilder()
    x = b.op("Multiply", b.input((512,), DType.bf16), b.input((1,), DType.bf16))
    x = b.op("Multiply", x, b.input((1,), DType.bf16))
    b.op("Round", b.op("Multiply", b.op("TypeCast", x, dtype=DType.f32), b.input((1,), DType.f32)))
    graph, inputs = b.graph(), [np.where(TIES, np.linspace(1, 1.9, 512), 0), np.array([1.01]), np.array([1.01]), np.array([1024])]
    given = {t.id: data for t, data in zip(graph.inputs, inputs, strict=True)}
    (t,) = graph.outputs
    first = graph.ops[0].outputs[0].id
    got, rounded, exact = (evaluate(graph, given, stored=stored)[t.id] for stored in ((first,), None, ()))
    assert np.any((got < np.minimum(rounded, exact)) | (got > np.maximum(rounded, exact)))
    assert compare_output(graph, given, t, got, rounded, 0.0).ok
