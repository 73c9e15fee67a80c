"""ip: inner products as matrix products, whatever the layouts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchgraph.core.dtypes import DType
from benchgraph.options.problem import CannotExpress
from benchgraph.reference import evaluate
from tests.drivers.problems import graph, kinds, problem, shapes


def parsed(text: str):  # type: ignore[no-untyped-def]
    return problem("--ip", text).knobs.case


@given(*(st.integers(1, 9) for _ in range(3)), st.lists(st.integers(1, 5), max_size=3).map(tuple), st.sampled_from(["", "net:fc_n2"]))
def test_what_is_printed_is_read_again(mb: int, ic: int, oc: int, spatial: tuple[int, ...], name: str) -> None:
    shape = type(parsed("ic1oc1"))(mb, ic, spatial, oc, name)
    assert parsed(str(shape)) == shape


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ('mb112ic2048oc1000n"x"', 'mb112_ic2048_oc1000_n"x"'),
        ("ic3ih5oc7", "mb2_ic3ih5iw5_oc7"),
        ("ic3id2oc7", "mb2_ic3id2ih2iw2_oc7"),
        ("ic3iw5oc7", "mb2_ic3iw5_oc7"),
        ("mb4_ic3_ih1iw2_oc7", "mb4_ic3ih1iw2_oc7"),
    ],
)
def test_sizes_that_are_left_out_follow_from_the_others(text: str, full: str) -> None:
    assert str(parsed(text)) == full


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ic3", "oc is missing; write ocN, the number of output channels"),
        ("ic3oc0", "oc is 0; give it 1 or more"),
        ("ic3ih0oc4", "ih is 0; give it 1 or more"),
        ("ic3oc4kh3", "at character 7: no size is called 'kh'; there are mb, ic, id, ih, iw and oc"),
    ],
)
def test_what_cannot_be_read_is_pointed_at(text: str, reason: str) -> None:
    assert reason in str(problem("--ip", text).unusable)


def test_dense_arguments_are_the_matrices_that_lie_in_memory() -> None:
    assert shapes("--ip", "mb3ic4ih5oc6") == ([(3, 100), (6, 100), (6,)], [(3, 6)])
    assert shapes("--ip", "--stag=axb", "--wtag=axb", "mb3ic4ih1oc6") == ([(3, 4), (6, 4), (6,)], [(3, 6)])
    assert shapes("--ip", "--dir=BWD_D", "mb3ic4ih5oc6") == ([(3, 6), (6, 100)], [(3, 100)])
    assert shapes("--ip", "--dir=BWD_WB", "mb3ic4ih5oc6") == ([(3, 6), (3, 100)], [(6, 100), (6,)])


@pytest.mark.parametrize(
    ("options", "ops"),
    [
        ("", "MatMul"),
        ("--stag=axb", "MatMul StaticReshape"),
        ("--stag=axb --wtag=axb", "MatMul StaticReshape StaticReshape"),
        ("--dir=BWD_D --stag=axb", "MatMul StaticReshape"),
        ("--dir=BWD_WB --wtag=axb", "BiasAddBackward MatMul StaticReshape"),
        ("--dt=u8:s8:u8 --dir=FWD_I --attr-scales=wei:per_oc", "Dequantize Dequantize MatMul Quantize"),
        ("--dt=u8:s8:f32 --dir=FWD_I --attr-scales=wei:per_dim_1", "Dequantize Dequantize MatMul StaticReshape"),
        ("--dt=bf16:bf16:f32 --dir=FWD_D", "MatMul"),
        ("--attr-post-ops=sum+relu", "Add MatMul ReLU"),
    ],
)
def test_options_become_ops(options: str, ops: str) -> None:
    assert sorted(kinds("--ip", *options.split(), "ic4ih5oc6")) == ops.split()


def test_a_bias_is_of_the_weights_dtype_and_f32_when_they_are_integers() -> None:
    assert graph("--ip", "--dt=bf16", "ic4oc6").inputs[2].dtype is DType.bf16
    assert graph("--ip", "--dt=u8:s8:f32", "ic4oc6").inputs[2].dtype is DType.f32
    assert [t.is_constant for t in graph("--ip", "ic4oc6").inputs] == [False, True, True]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("--dir=BWD_D --attr-post-ops=tanh", "post-ops after a gradient; leave them out, or use --dir=FWD_B"),
        ("--dt=u8:s8:u8 --attr-scales=dst:mx", "no op computes scales and quantises by them"),
        ("--dt=u8:s8:u8 --attr-scales=src:mx", "no op computes scales and quantises by them"),
        ("--dt=u8:s8:s32", "no op makes s32 of f32"),
    ],
)
def test_what_no_op_means_is_refused_with_the_reason(options: str, reason: str) -> None:
    with pytest.raises(CannotExpress) as bad:
        graph("--ip", *options.split(), "ic4ih5oc6")
    assert reason in str(bad.value)


@pytest.mark.parametrize("tag", ["abx", "axb"])
@pytest.mark.parametrize("way", ["FWD_B", "BWD_D", "BWD_WB"])
def test_a_direction_sums_products_over_all_that_the_arguments_share(way: str, tag: str) -> None:
    """By einsum over the dims that benchdnn names; a matrix is those dims in order."""
    rng = np.random.default_rng(0)
    src, wei, dst, bia = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((2, 3, 2, 4), (5, 3, 2, 4), (2, 5), (5,)))
    given, wanted = {
        "FWD_B": ((src, wei, bia), [np.einsum("nchw,ochw->no", src, wei) + bia]),
        "BWD_D": ((dst, wei), [np.einsum("no,ochw->nchw", dst, wei)]),
        "BWD_WB": ((dst, src), [np.einsum("no,nchw->ochw", dst, src), dst.sum(axis=0)]),
    }[way]
    g = graph("--ip", f"--dir={way}", f"--stag={tag}", f"--wtag={tag}", "mb2ic3ih2iw4oc5")
    inputs = sorted(g.inputs, key=lambda t: t.id)
    values = evaluate(g, {t.id: x.reshape(t.known_shape) for t, x in zip(inputs, given, strict=True)})
    for t, want in zip(sorted(g.outputs, key=lambda t: t.id), wanted, strict=True):
        assert np.array_equal(values[t.id].ravel(), want.ravel())
