"""`monotonicity` and `is_homogeneous` of rows agree with their references."""

from __future__ import annotations

import numpy as np
import pytest

from benchgraph.ops import OPS, call_of, spec
from benchgraph.ops.spec import Elementwise
from benchgraph.tir.build import constant
from benchgraph.tir.ir import Const

ORDERED = [row.kind for row in OPS.values() if row.semantics.monotonicity]
SCALING = [row.kind for row in OPS.values() if row.semantics.is_homogeneous]


@pytest.mark.parametrize("kind", ORDERED)
def test_dst_is_monotonic_as_in_the_row(kind: str) -> None:
    row = spec(kind)
    call, rng = call_of(kind, row.testing.samples[0]), np.random.default_rng(1)
    assert len(row.semantics.monotonicity) == len(call.ins)
    ins = [rng.normal(size=t.shape) for t in call.ins]
    (before,) = row.semantics.reference(call, tuple(ins))
    for port, way in enumerate(row.semantics.monotonicity):
        more = [a + 2 * rng.random(a.shape) if i == port else a for i, a in enumerate(ins)]
        change = row.semantics.reference(call, tuple(more))[0].astype(float) - before.astype(float)
        assert np.all(change * way >= 0)
        assert np.any(change * way > 0) if way else np.all(change == 0)


@pytest.mark.parametrize("kind", [k for k in ORDERED if getattr(spec(k).lowering.form, "position", None) is not None])
def test_position_dependent_results_increase_with_the_position(kind: str) -> None:
    row = spec(kind)
    call, form = call_of(kind, row.testing.samples[0]), row.lowering.form
    assert isinstance(form, Elementwise)
    assert form.position is not None
    shape = call.outs[0].shape
    positions = [form.position(call.attrs, shape, tuple(Const(i) for i in at)) for at in np.ndindex(shape)]
    (numbers,) = zip(*positions, strict=True)
    grid = np.array([constant(c) for c in numbers]).reshape(shape)
    for axis in range(grid.ndim):
        assert np.all(np.diff(grid, axis=axis) >= 0)


@pytest.mark.parametrize("kind", SCALING)
def test_scaling_src_scales_dst(kind: str) -> None:
    row = spec(kind)
    call, rng = call_of(kind, row.testing.samples[0]), np.random.default_rng(1)
    src = rng.normal(size=call.ins[0].shape)
    others = [np.full(t.shape, 0.25 if t.dtype.is_float else 3) for t in call.ins[1:]]
    once, four_times = (row.semantics.reference(call, (s, *others))[0] for s in (src, 4 * src))
    assert np.any(once)
    np.testing.assert_array_equal(four_times, 4 * once)  # a power of two: roundings scale along
