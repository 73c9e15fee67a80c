"""shuffle: a dim as a matrix of groups, transposed, and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drivers.problems import assert_refused, assert_round_trip, evaluated, kinds, shapes


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.integers(1, 4), st.integers(0, 4), st.sampled_from(["FWD_I", "BWD_D"]))
def test_the_shape_stays(shape: list[int], group: int, axis: int, way: str) -> None:
    axis = min(axis, len(shape) - 1)
    shape[axis] *= group
    options = [f"--axis={axis}" if axis != 1 else "", f"--group={group}" if group > 1 else ""]
    words = ["--shuffle", f"--dir={way}", *filter(None, options), "x".join(map(str, shape))]
    assert_round_trip(*words)
    assert shapes(*words) == ([tuple(shape)], [tuple(shape)])


def shuffled(x: np.ndarray, axis: int, group: int) -> np.ndarray:
    """oneDNN's definition: index u + v * C / group of dst is u * group + v of src."""
    dst, groups = np.empty_like(x), x.shape[axis] // group
    for u in range(groups):
        for v in range(group):
            np.moveaxis(dst, axis, 0)[u + v * groups] = np.moveaxis(x, axis, 0)[u * group + v]
    return dst


@pytest.mark.parametrize(("axis", "group"), [(0, 2), (1, 3), (1, 2), (1, 6), (2, 5)])
def test_the_definition_and_its_gradient(axis: int, group: int) -> None:
    x = np.arange(4 * 6 * 5, dtype=np.float32).reshape(4, 6, 5)
    options = [f"--axis={axis}", f"--group={group}", "4x6x5"]
    (dst,) = evaluated(["--shuffle", *options], x)
    assert dst.tolist() == shuffled(x, axis, group).tolist()
    (back,) = evaluated(["--shuffle", "--dir=BWD_D", *options], dst)
    assert back.tolist() == x.tolist()


def test_bytes_are_read_and_written() -> None:
    assert kinds("--shuffle", "--dt=s8", "--group=2", "3x4") == [
        "Dequantize",
        "StaticReshape",
        "StaticTranspose",
        "StaticReshape",
        "Quantize",
    ]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--group=4 2x6", "groups of 4 do not divide dim 1, which is 6; give --group a divisor of it"),
        ("--axis=2 2x6", "--axis=2 of 2x6; give 0 to 1"),
        ("--dt=s32 --group=2 2x6", "no op reads s32 src as numbers; use f32, bf16, f16, u8, s8, u4, s4 or f8"),
        ("--dir=BWD_W 2x6", "--dir=BWD_W: no op goes this way; use FWD_D or FWD_I or BWD_D"),
        ("--tag=nChw16c 2x16x3x3", "--tag=nChw16c: a blocked layout: oneDNN Graph's tensors have strides alone; use a plain tag"),
    ],
)
def test_what_does_not_fit_or_no_op_means_is_refused(words: str, reason: str) -> None:
    assert_refused(reason, "--shuffle", *words.split())
