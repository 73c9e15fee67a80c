"""pool: descriptors with sizes left out, algorithms and directions as ops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchgraph.options.problem import CannotExpress
from benchgraph.reference import evaluate
from tests.drivers.problems import graph, kinds, problem, shapes, shared

W = shared("windows")


@st.composite
def dims(draw: st.DrawFn) -> object:
    """A spatial dim that fits, with any output its input allows."""
    i, k, s, d = draw(st.integers(1, 12)), draw(st.integers(1, 5)), draw(st.integers(1, 4)), draw(st.integers(0, 2))
    window = (k - 1) * (d + 1) + 1
    bare = W.PoolDim(i, 1, k, s, draw(st.integers(max(0, (window - i + 1) // 2), window)), d)
    least, most = bare.outputs()
    return W.PoolDim(i, draw(st.integers(least, most)), k, s, bare.p, d)


def parsed(text: str):  # type: ignore[no-untyped-def]
    return problem("--pool", text).knobs.case


@given(st.integers(1, 4), st.integers(1, 5), st.lists(dims(), min_size=1, max_size=3), st.sampled_from(["", "net:pool_n2"]))
def test_what_is_printed_is_read_again_and_built(mb: int, ic: int, spatial: list, name: str) -> None:  # type: ignore[type-arg]
    shape = type(parsed("ic1iw1kw1"))(mb, ic, tuple(spatial), name)
    assert parsed(str(shape)) == shape
    src, dst = ((mb, ic, *(getattr(dim, v) for dim in spatial)) for v in "io")
    assert shapes("--pool", str(shape)) == ([src], [dst])
    assert shapes("--pool", "--dir=BWD_D", str(shape)) == ([src, dst], [src])


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("ic64_iw32ow16_kw3_sw2_pw0", "mb2_ic64_iw32ow16kw3sw2pw0"),
        ("mb96ic768_ih17oh17_kh3sh1ph1n\"googlenet_v3:mixed_4\"", 'mb96_ic768_ih17oh17kh3ph1_n"googlenet_v3:mixed_4"'),
        ("ic3ih8kh2sh2", "mb2_ic3_ih8oh4kh2sh2ph0"),
        ("ic3ih8oh8kh3", "mb2_ic3_ih8oh8kh3ph1"),
        ("ic16_ih10oh6kh3sh2ph0", "mb2_ic16_ih10oh6kh3sh2ph0"),
        ("ic2_ih16oh3kh16sh16ph16", "mb2_ic2_ih16oh3kh16sh16ph16"),
        ("ic3id8ih6iw4kd2kh2kw3", "mb2_ic3_id8od7kd2pd0_ih6oh5kh2ph0_iw4ow2kw3pw0"),
    ],
)  # fmt: skip
def test_sizes_that_are_left_out_follow_from_the_others(text: str, full: str) -> None:
    assert str(parsed(text)) == full


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ih8kh3", "ic is missing; write icN, the number of channels"),
        ("ic0ih8kh3", "ic is 0; give it 1 or more"),
        (
            "ic3oc4ih8kh3",
            "at character 4: no size is called 'oc'; there are mb, ic, and ih, oh, kh, sh, ph, dh with their like for d and w",
        ),
        ("ic3ih8kh3ph", "at character 10: ph has no number; write phN"),
        ("ic3ih10oh7kh3sh2ph0", "oh7 does not follow from ih10 kh3 sh2 dh0 ph0; give it 4 to 6, or leave it out"),
        ("ic3", "no spatial size is given; write at least ihN and khN"),
    ],
)
def test_what_cannot_be_read_is_pointed_at(text: str, reason: str) -> None:
    assert problem("--pool", text).unusable is not None
    assert reason in str(problem("--pool", text).unusable)


@pytest.mark.parametrize(
    ("options", "ops"),
    [
        ("", "MaxPool"),
        ("--alg=avg_np", "AvgPool"),
        ("--dir=BWD_D", "MaxPoolBackward"),
        ("--dir=BWD_D --alg=avg_p", "AvgPoolBackward"),
        ("--dt=bf16:f32", "TypeCast MaxPool"),
        ("--dt=s8", "Dequantize MaxPool Quantize"),
        ("--attr-post-ops=relu", "MaxPool ReLU"),
    ],
)
def test_options_become_ops(options: str, ops: str) -> None:
    assert kinds("--pool", *options.split(), "ic4ih8kh3") == ops.split()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("--alg=avg_p ic4ih8kh3dh1", "--alg=avg_p: AvgPool has no dilations; use max, or leave the dilation out"),
        ("--dir=BWD_D --attr-post-ops=relu ic4ih8kh3", "post-ops after a gradient"),
    ],
)
def test_what_no_op_means_is_refused_with_the_reason(options: str, reason: str) -> None:
    with pytest.raises(CannotExpress) as bad:
        graph("--pool", *options.split())
    assert reason in str(bad.value)


@pytest.mark.parametrize("alg", ["max", "avg_np", "avg_p"])
def test_an_algorithm_is_of_the_elements_in_its_window(alg: str) -> None:
    """Windows of 3 by strides of 2 over 7 elements, the padding of one on both sides."""
    g = graph("--pool", f"--alg={alg}", "--tag=axb", "mb1ic2iw7ow4kw3sw2pw1")
    x = np.random.default_rng(0).normal(size=(1, 2, 7)).astype(np.float32)
    windows = [x[..., max(2 * i - 1, 0) : 2 * i + 2] for i in range(4)]
    of = {"max": lambda w: w.max(-1), "avg_np": lambda w: w.mean(-1), "avg_p": lambda w: w.sum(-1) / 3}[alg]
    found = evaluate(g, {g.inputs[0].id: x})[g.outputs[0].id]
    assert found == pytest.approx(np.stack([of(w) for w in windows], axis=-1), rel=1e-6)


def test_a_dilated_maximum_leaves_elements_out() -> None:
    g = graph("--pool", "mb1ic1iw5kw3dw1")
    found = evaluate(g, {g.inputs[0].id: np.array([[[1, 9, 2, 8, 3]]], np.float32)})[g.outputs[0].id]
    assert found.tolist() == [[[3]]]
