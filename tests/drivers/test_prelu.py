"""prelu: slopes that broadcast to src, and the gradients of both."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drivers.problems import assert_refused, assert_round_trip, evaluated, graph, kinds, shapes


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), min_size=1, max_size=5), st.booleans())
def test_slopes_broadcast(dims: list[tuple[int, bool]], is_backward: bool) -> None:
    src, wei = tuple(size for size, _ in dims), tuple(size if is_own else 1 for size, is_own in dims)
    text = ":".join("x".join(map(str, shape)) for shape in (src, wei))
    words = ["--prelu", *(["--dir=BWD_DW"] if is_backward else []), text]
    assert_round_trip(*words)
    assert shapes(*words) == (([src, wei, src], [src, wei]) if is_backward else ([src, wei], [src]))


def test_a_shorter_shape_of_slopes_is_filled_up_with_ones_behind() -> None:
    assert shapes("--prelu", "2x3x5:2x3")[0] == [(2, 3, 5), (2, 3, 1)]


@pytest.mark.parametrize(
    ("options", "ops"),
    [
        ("", "PReLU"),
        ("--dir=FWD_I", "PReLU"),
        ("--dir=BWD_DW", "PReLUBackward"),
        ("--sdt=bf16:f32", "TypeCast PReLU TypeCast"),
        ("--dir=BWD_DW --dt=bf16:f32", "TypeCast TypeCast PReLUBackward TypeCast"),
        ("--dt=s8:f32", "Dequantize PReLU Quantize"),
    ],
)
def test_options_become_ops(options: str, ops: str) -> None:
    assert sorted(kinds("--prelu", *options.split(), "2x3:1x3")) == sorted(ops.split())


def test_the_formula_and_its_gradients() -> None:
    rng = np.random.default_rng(0)
    x, slope, d = (rng.normal(size=shape).astype(np.float32) for shape in ((2, 3, 4), (2, 1, 4), (2, 3, 4)))
    (dst,) = evaluated(["--prelu", "2x3x4:2x1x4"], x, slope)
    assert dst == pytest.approx(np.where(x > 0, x, slope * x))
    diff_src, diff_slope = evaluated(["--prelu", "--dir=BWD_DW", "2x3x4:2x1x4"], x, slope, d)
    assert diff_src == pytest.approx(np.where(x > 0, d, slope * d))
    assert diff_slope == pytest.approx(np.where(x > 0, 0, x * d).sum(axis=1, keepdims=True), rel=1e-5)


def test_dst_and_gradients_lie_as_their_tensors() -> None:
    g = graph("--prelu", "--dir=BWD_DW", "--stag=axb:axb", "2x3x4:1x3x4")
    src, wei = (12, 1, 3), (12, 1, 3)
    assert [t.strides for t in (*g.inputs, *g.outputs)] == [src, wei, src, src, wei]
    assert not g.inputs[1].is_constant
    assert graph("--prelu", "2x3x4:1x3x1").inputs[1].is_constant


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("2x3:1x2", "dim 1 is 3 in SRC and 2 in WEI 1x2; give it 3 in WEI, or 1"),
        ("3:1x3", "WEI has 2 sizes and SRC 1; give WEI as many, or fewer"),
        ("--dir=BWD_D 2x3:1x3", "--dir=BWD_D: no op goes this way; use FWD_D or FWD_I or BWD_DW"),
        ("--sdt=s32:f32 2x3:1x3", "no op reads s32 src as numbers; use f32, bf16, f16, u8, s8, u4, s4 or f8"),
        (
            "--dir=BWD_DW --attr-post-ops=relu 2x3:1x3",
            "--attr-post-ops: post-ops after a gradient; leave them out, or use --dir=FWD_D",
        ),
    ],
)
def test_what_does_not_fit_or_no_op_means_is_refused(words: str, reason: str) -> None:
    assert_refused(reason, "--prelu", *words.split())
