"""Maximum and Minimum of NaN."""

from __future__ import annotations

import numpy as np
import pytest

from benchgraph.compile import compile_partition
from benchgraph.core.attrs import NO_ATTRS, Attrs
from benchgraph.core.tensor import Shape
from benchgraph.graph.build import GraphBuilder
from benchgraph.ops import call_of, spec
from benchgraph.ops.spec import Sample
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.reference.evaluate import evaluate
from tests.ops.compiled import compiled

PROPAGATED = Attrs(propagate_nan=True)
NUMBERS = np.array([np.nan, np.inf, -np.inf, 1.0, -2.0, 0.0])


@pytest.mark.parametrize("kind", ["Maximum", "Minimum"])
@pytest.mark.parametrize(("left", "right"), [((6, 1), (6,)), ((6,), (6, 1)), ((6,), ()), ((), (6,))])
def test_the_second_operand_is_the_result_if_one_is_nan(kind: str, left: Shape, right: Shape) -> None:
    a, b = np.resize(NUMBERS, left), np.resize(NUMBERS, right)
    (want,) = spec(kind).semantics.reference(call_of(kind, Sample((left, right))), (a, b))
    assert np.array_equal(np.isnan(want), np.broadcast_to(np.isnan(b), want.shape))
    np.testing.assert_array_equal(compiled(kind, NO_ATTRS, a, b), want)


@pytest.mark.parametrize("kind", ["Maximum", "Minimum"])
@pytest.mark.parametrize(("left", "right"), [((6, 1), (6,)), ((6,), (6, 1)), ((6,), ()), ((), (6,)), ((6, 40), (40,))])
def test_nan_of_either_operand_propagates(kind: str, left: Shape, right: Shape) -> None:
    a, b = np.resize(NUMBERS, left), np.resize(np.roll(NUMBERS, 2), right)
    (want,) = spec(kind).semantics.reference(call_of(kind, Sample((left, right), PROPAGATED)), (a, b))
    assert np.array_equal(np.isnan(want), np.isnan(a + np.nan_to_num(b)) | np.isnan(np.nan_to_num(a) + b))
    np.testing.assert_array_equal(compiled(kind, PROPAGATED, a, b), want)


@pytest.mark.parametrize("kind", ["Maximum", "Minimum"])
@pytest.mark.parametrize("is_second", [False, True])
def test_after_other_ops_too(kind: str, is_second: bool) -> None:
    """For either operand made by the op before."""
    b = GraphBuilder()
    x, bound = b.input((6,)), b.input((6,))
    logarithm = b.op("Log", x)
    dst = b.op(kind, *((bound, logarithm) if is_second else (logarithm, bound)))
    graph = b.graph()
    tensors = {x.id: np.array([-1, 2, -3, 0.5, 3, 1], np.float32), bound.id: np.array([1, 1, np.nan, np.nan, -1, 2], np.float32)}
    (p,) = partitions(graph, Policy.fused)
    got = np.zeros(6, np.float32)
    compile_partition(p).bind([tensors[t.id] for t in p.inputs], [got])()
    want = evaluate(graph, tensors)[dst.id]
    assert np.isnan(want).sum() == 2
    np.testing.assert_allclose(got, want, rtol=1e-6)
