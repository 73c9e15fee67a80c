"""The norms' gradients element by element, which the table's directional test does not cover: every coordinate, and absent optional ports.

Central differences of the float64 forward reference with step 2**-16: good to about 1e-9.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from benchgraph.core.attrs import Attrs
from benchgraph.ops import call_of, spec
from benchgraph.ops.laws import Reals, real
from benchgraph.ops.spec import Array, Sample

STEP, CLOSE = 2.0**-16, 1e-7
Forward = Callable[..., Array]


def run(kind: str, attrs: Attrs, ins: tuple[Array, ...], outs: int) -> tuple[Array, ...]:
    f32 = spec(kind).schema.types.get("T") or spec(kind).schema.types["T1"]
    call = call_of(kind, Sample(tuple(a.shape for a in ins), attrs, out_dtypes=(f32[0],) * outs))
    return spec(kind).semantics.reference(call, ins)


def slopes(forward: Forward, ins: tuple[Reals, ...], port: int, diff_dst: Reals) -> Reals:
    """The derivative of sum(diff_dst * dst) by every element of one input."""
    gradient = np.zeros(ins[port].shape)
    for at in np.ndindex(*gradient.shape):
        moved = [[a.copy() for a in ins] for _ in range(2)]
        for variant, step in zip(moved, (STEP, -STEP), strict=True):
            variant[port][at] += step
        above, below = (np.vdot(diff_dst, real(forward(*variant))) for variant in moved)
        gradient[at] = (above - below) / (2 * STEP)
    return gradient


def close(got: Array, want: Reals) -> bool:
    return bool(np.all(np.abs(real(got) - want) <= CLOSE * (1 + np.abs(want).max())))


def data(*shapes: tuple[int, ...], seed: int = 3) -> tuple[Reals, ...]:
    rng = np.random.default_rng(seed)
    return tuple(rng.uniform(-1, 3, s) for s in shapes)


@pytest.mark.parametrize(
    ("shape", "gamma", "attrs"),
    [
        ((3, 5), (5,), Attrs(epsilon=0.1)),
        ((2, 3, 4), (3, 4), Attrs(begin_norm_axis=1)),
        ((2, 3, 4), (4,), Attrs(begin_norm_axis=1)),
        ((2, 3, 4), (3, 1), Attrs(begin_norm_axis=1)),
        ((3, 4), (3, 4), Attrs(begin_norm_axis=0)),
    ],
)
def test_layer_norm(shape: tuple[int, ...], gamma: tuple[int, ...], attrs: Attrs) -> None:
    src, diff_dst, scale, shift = data(shape, shape, gamma, gamma)
    _, mean, variance = run("LayerNorm", attrs, (src, scale, shift), 3)
    got = run("LayerNormBackward", attrs, (src, diff_dst, mean, variance, scale), 3)
    for port, gradient in enumerate(got):
        want = slopes(lambda *ins: run("LayerNorm", attrs, ins, 3)[0], (src, scale, shift), port, diff_dst)
        assert close(gradient, want), f"port {port}"


def test_layer_norm_without_affine() -> None:
    attrs = Attrs(use_affine=False)
    src, diff_dst = data((3, 5), (3, 5))
    _, mean, variance = run("LayerNorm", attrs, (src,), 3)
    (got,) = run("LayerNormBackward", attrs, (src, diff_dst, mean, variance), 1)
    assert close(got, slopes(lambda x: run("LayerNorm", attrs, (x,), 3)[0], (src,), 0, diff_dst))


@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
@pytest.mark.parametrize("outs", [1, 2, 3])
def test_batch_norm_uses_gamma_for_any_outputs(data_format: str, outs: int) -> None:
    attrs = Attrs(epsilon=0.1, data_format=data_format)
    src, diff_dst, gamma, beta, old = data((3, 2, 2), (3, 2, 2), (2,), (2,), (2,))
    *_, mean, variance = run("BatchNormForwardTraining", attrs, (src, old, old), 5)
    got = run("BatchNormTrainingBackward", attrs, (src, diff_dst, mean, variance, gamma), outs)

    def forward(x: Reals, g: Reals, b: Reals) -> Array:
        return run("BatchNormForwardTraining", attrs, (x, old, old, g, b), 5)[0]

    assert len(got) == outs
    for port, gradient in enumerate(got):
        assert close(gradient, slopes(forward, (src, gamma, beta), port, diff_dst)), f"port {port}"


@pytest.mark.parametrize(("forward", "backward"), [("SoftMax", "SoftMaxBackward"), ("LogSoftmax", "LogSoftmaxBackward")])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(forward: str, backward: str, axis: int) -> None:
    attrs = Attrs(axis=axis)
    src, diff_dst = data((3, 4, 2), (3, 4, 2))
    (dst,) = run(forward, attrs, (src,), 1)
    (got,) = run(backward, attrs, (diff_dst, dst), 1)
    assert close(got, slopes(lambda x: run(forward, attrs, (x,), 1)[0], (src,), 0, diff_dst))


def test_the_gradient_of_a_row_of_one_is_zero_on_real_data() -> None:
    """And not what rounding in float64 leaves of it: code that computes in f32 gives 0."""
    row, shape = spec("LogSoftmaxBackward"), (64, 1)
    call = call_of(row.kind, Sample((shape, shape), Attrs(axis=1)))
    (want,) = row.semantics.reference(call, tuple(row.testing.domain(call, port, np.random.default_rng(0)) for port in range(2)))
    assert not want.any()
