"""resampling: descriptors of one to three dims become Interpolate, or its gradient."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drivers.problems import assert_refused, assert_round_trip, evaluated, graph, kinds, problem, shapes

DIMS = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=3)


@given(st.integers(1, 4), st.integers(1, 4), DIMS, st.sampled_from(["FWD_I", "BWD_D"]))
def test_every_size_is_read_and_said_again(mb: int, ic: int, dims: list[tuple[int, int]], way: str) -> None:
    letters = "dhw"[-len(dims) :]
    said = (f"i{x}{i}o{x}{o}" for x, (i, o) in zip(letters, dims, strict=True))
    src, dst = (mb, ic, *(i for i, _ in dims)), (mb, ic, *(o for _, o in dims))
    words = ["--resampling", f"--dir={way}", "_".join([f"mb{mb}ic{ic}", *said])]
    assert shapes(*words) == (([src, dst], [src]) if way == "BWD_D" else ([src], [dst]))
    assert_round_trip(*problem(*words).repro.split())


@pytest.mark.parametrize(
    ("text", "src", "dst", "spelt"),
    [
        ("ic3_ih5oh7", (2, 3, 5, 5), (2, 3, 7, 7), "mb2ic3_ih5oh7"),
        ("mb1ic3iw5ow7", (1, 3, 5), (1, 3, 7), "mb1ic3_iw5ow7"),
        ('mb1ic3_id2od4_iw5ow7n"net:up"', (1, 3, 2, 2, 5), (1, 3, 4, 4, 7), 'mb1ic3_id2od4_iw5ow7_n"net:up"'),
        ("mb1ic3_ih5oh7_iw5ow7", (1, 3, 5, 5), (1, 3, 7, 7), "mb1ic3_ih5oh7"),
    ],
)
def test_a_dim_that_is_not_named_is_like_the_one_before_it(text: str, src: tuple[int, ...], dst: tuple[int, ...], spelt: str) -> None:
    assert shapes("--resampling", text) == ([src], [dst])
    assert problem("--resampling", text).repro == f"--resampling {spelt}"


@pytest.mark.parametrize(
    ("options", "ops"),
    [
        ("--alg=resampling_linear", "Interpolate"),
        ("--dir=BWD_D", "InterpolateBackward"),
        ("--sdt=bf16 --ddt=f32", "TypeCast Interpolate"),
        ("--sdt=s8 --ddt=u8", "Dequantize Interpolate Quantize"),
        ("--attr-post-ops=sum+relu", "Interpolate Add ReLU"),
    ],
)
def test_options_become_ops(options: str, ops: str) -> None:
    assert kinds("--resampling", *options.split(), "ic3_ih5oh7") == ops.split()


def weights(source: int, target: int, alg: str) -> np.ndarray:
    """oneDNN's definition: row x of dst from the elements around (x + 1/2) * source / target - 1/2."""
    rows = np.zeros((target, source))
    for x in range(target):
        at = (x + 0.5) * source / target - 0.5
        if alg == "nearest":
            rows[x, int(np.clip(np.floor(at + 0.5), 0, source - 1))] = 1
            continue
        low = int(np.floor(at))
        for neighbour, share in ((low, 1 - (at - low)), (low + 1, at - low)):
            rows[x, int(np.clip(neighbour, 0, source - 1))] += share
    return rows


@pytest.mark.parametrize("alg", ["nearest", "linear"])
def test_the_definition_and_its_gradient(alg: str) -> None:
    rng = np.random.default_rng(0)
    x, d = rng.normal(size=(2, 3, 5, 8)).astype(np.float32), rng.normal(size=(2, 3, 9, 3)).astype(np.float32)
    words, high, wide = ["--resampling", f"--alg={alg}"], weights(5, 9, alg), weights(8, 3, alg)
    (dst,) = evaluated([*words, "ic3_ih5oh9_iw8ow3"], x)
    assert dst == pytest.approx(np.einsum("nchw,yh,xw->ncyx", x, high, wide), rel=1e-5, abs=1e-5)
    (diff_src,) = evaluated([*words, "--dir=BWD_D", "ic3_ih5oh9_iw8ow3"], x, d)
    assert diff_src == pytest.approx(np.einsum("ncyx,yh,xw->nchw", d, high, wide), rel=1e-5, abs=1e-5)


def test_src_and_dst_have_one_layout() -> None:
    g = graph("--resampling", "--tag=nhwc", "ic3_ih5oh7")
    assert [t.strides for t in (*g.inputs, *g.outputs)] == [(75, 1, 15, 3), (147, 1, 21, 3)]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("ih5oh7", "ic is missing; write icN, the number of channels"),
        ("ic3", "no spatial size is given; write at least ihN and ohN, as in mb8ic64_ih28oh56"),
        ("ic3_ih5", "oh is missing; write ohN, the size of the output"),
        ("ic3_ih5oh7_ow4", "iw is missing; write iwN, the size of the input"),
        ("ic3_ih5oh0", "oh is 0; give it 1 or more"),
        ("ic3_ih5oh7q3", "at character 11: no size is called 'q'; there are mb, ic, ih, oh and their like for d and w"),
        ("--tag=nChw16c mb2ic16_ih5oh7", "--tag=nChw16c: a blocked layout: oneDNN Graph's tensors have strides alone; use a plain tag"),
        ("--ddt=s32 mb2ic3_ih5oh7", "no op makes s32 of f32; give another dtype to the result"),
    ],
)
def test_what_does_not_fit_or_no_op_means_is_refused(words: str, reason: str) -> None:
    assert_refused(reason, "--resampling", *words.split())
