"""SoftMax on rows that are masked out, in both modes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.ops import call_of, spec
from benchgraph.ops.spec import Array, Call, Sample
from tests.ops.evaluate_decomposition import evaluate

MASKED = np.array([[-np.inf, -np.inf, -np.inf], [0.0, -np.inf, 0.0], [1.0, 2.0, 3.0]])


def call(mode: str) -> Call:
    return call_of("SoftMax", Sample(((3, 3),), Attrs(axis=1, mode=mode), out_dtypes=(DType.f32, DType.f32)))


def by_reference(made: Call, src: Array) -> tuple[Array, ...]:
    return spec("SoftMax").semantics.reference(made, (src,))


def by_decomposition(made: Call, src: Array) -> tuple[Array, ...]:
    return evaluate(made, (src,))[0]


Compute = Callable[[Call, Array], tuple[Array, ...]]
both_ways = pytest.mark.parametrize("compute", [by_reference, by_decomposition])


@both_ways
def test_a_masked_row_is_nan_in_mode_none(compute: Compute) -> None:
    dst, stats = compute(call("none"), MASKED)
    assert np.isnan(dst[0]).all()
    assert np.isnan(stats[0]).all()
    assert np.allclose(dst[1], [0.5, 0, 0.5])


@both_ways
def test_a_masked_row_is_zero_in_mode_inf_as_zero(compute: Compute) -> None:
    dst, stats = compute(call("inf_as_zero"), MASKED)
    assert np.array_equal(dst[0], [0, 0, 0])
    assert np.array_equal(stats[0], [0]), "so that exp(src - stats) is 0 as well"
    assert np.allclose(dst[1], [0.5, 0, 0.5])
    assert np.allclose(stats[1:, 0], np.log(np.exp(MASKED[1:]).sum(axis=1)))


@both_ways
def test_large_inputs_do_not_overflow(compute: Compute) -> None:
    dst, stats = compute(call("none"), np.full((3, 3), 1e4))
    assert np.allclose(dst, 1 / 3)
    assert np.allclose(stats, 1e4 + np.log(3))
