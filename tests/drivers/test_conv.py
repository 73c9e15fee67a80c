"""conv: descriptors with sizes left out, and every direction as its op."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidArguments
from benchgraph.options.problem import CannotExpress
from tests.drivers.problems import graph, kinds, problem, shapes, shared

C = shared("conv_shape")


@st.composite
def dims(draw: st.DrawFn) -> object:
    """A spatial dim that fits, with any output its input allows."""
    i, k, s, d = draw(st.integers(1, 12)), draw(st.integers(1, 5)), draw(st.integers(1, 4)), draw(st.integers(0, 2))
    window = (k - 1) * (d + 1) + 1
    p = draw(st.integers(max(0, (window - i + 1) // 2), window))
    least, most = max((i + p - window) // s + 1, 1), (i + p - 1) // s + 1
    return C.Dim(i, draw(st.integers(least, max(least, most))), k, s, p, d)


@st.composite
def convolutions(draw: st.DrawFn) -> object:
    g, count = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    spatial = [draw(dims())]
    while len(spatial) < count:
        spatial.append(spatial[-1] if draw(st.booleans()) else draw(dims()))
    ic, oc = g * draw(st.integers(1, 4)), g * draw(st.integers(1, 4))
    return C.ConvShape(draw(st.integers(1, 4)), g, ic, oc, tuple(spatial), draw(st.sampled_from(["", "net:conv1_n2"])))


@given(convolutions())
def test_what_is_printed_is_read_again(conv: object) -> None:
    assert C.parse_conv(str(conv)) == conv


@given(convolutions(), st.sampled_from(["FWD_D", "BWD_D", "BWD_W"]))
def test_the_graph_has_the_shapes_of_the_descriptor(conv, way: str) -> None:  # type: ignore[no-untyped-def]
    src = (conv.mb, conv.ic, *(dim.i for dim in conv.dims))
    wei = (conv.oc, conv.ic // conv.g, *(dim.k for dim in conv.dims))
    dst = (conv.mb, conv.oc, *(dim.o for dim in conv.dims))
    ins, outs = shapes("--conv", f"--dir={way}", str(conv))
    assert (ins, outs) == {"FWD_D": ([src, wei], [dst]), "BWD_D": ([dst, wei], [src]), "BWD_W": ([src, dst], [wei])}[way]


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("ic3ih8oc4kh3", "mb2_ic3oc4_ih8oh6kh3ph0"),
        ("ic3iw8oc4kw3", "mb2_ic3oc4_iw8ow6kw3pw0"),
        ("ic3id8oc4kd3", "mb2_ic3oc4_id8od6kd3pd0"),
        ("ic3ih8oh8oc4kh3", "mb2_ic3oc4_ih8oh8kh3ph1"),
        ("ic3ih8oc4kh3ph1", "mb2_ic3oc4_ih8oh8kh3ph1"),
        ("ic3ih8oc4kh3sh2dh1ph2", "mb2_ic3oc4_ih8oh4kh3sh2dh1ph2"),
        ("mb1g3_ic3ih8iw9_oc6kh3kw3ph1pw1", "mb1_g3_ic3oc6_ih8oh8kh3ph1_iw9ow9kw3pw1"),
        ("ic3ih8iw9oc6kh3sh2ph1", "mb2_ic3oc6_ih8oh4kh3sh2ph1_iw9ow5kw3sw2pw1"),
        ("ic3ih8iw9oc6kh3kw2sh2ph1", "mb2_ic3oc6_ih8oh4kh3sh2ph1_iw9ow8kw2pw0"),
        ("ic3id4ih8oc6kd2kh3ph1", "mb2_ic3oc6_id4od3kd2pd0_ih8oh8kh3ph1"),
        ("mb1_ic3_ih227oh55oc96kh11sh4ph0n\"alexnet:conv1\"", 'mb1_ic3oc96_ih227oh55kh11sh4ph0_n"alexnet:conv1"'),
        ("ic3ih224oh112oc64kh7sh2", "mb2_ic3oc64_ih224oh112kh7sh2ph2"),
        ("ic4id6ih6oc4kh1kd3ph1", "mb2_ic4oc4_id6od4kd3pd0_ih6oh8kh1ph1"),
    ],
)  # fmt: skip
def test_sizes_that_are_left_out_follow_from_the_others(text: str, full: str) -> None:
    assert str(C.parse_conv(text)) == full


@pytest.mark.parametrize(
    ("text", "pads"),
    [
        ("ic1oc1ih5oh5kh3ph1", (1, 1)),
        ("ic1oc1ih5oh4kh3ph1", (1, 0)),
        ("ic1oc1ih224oh112kh7sh2ph3", (3, 2)),
        ("ic1oc1ih6oh2kh3sh2ph0", (0, 0)),
    ],
)
def test_the_padding_behind_is_what_the_output_needs(text: str, pads: tuple[int, int]) -> None:
    (op,) = graph("--conv", "--dir=FWD_D", text).ops
    assert (op.attrs.integers("pads_begin"), op.attrs.integers("pads_end")) == ((pads[0],) * 2, (pads[1],) * 2)


BAD = {
    "": "ic is missing; write icN, the number of input channels",
    "ic3ih8kh3": "oc is missing; write ocN, the number of output channels",
    "ic3oc4": "no spatial size is given; write at least ihN and khN",
    "ic3oc4ih8": "kh is missing; write khN, the size of the kernel",
    "ic3oc4iw8kh3": "ih is missing; write ihN, the size of the input",
    "ic3oc4qh8": "at character 7: no size is called 'qh'; there are mb, g, ic, oc, and ih, oh, kh, sh, ph, dh with their like for d and w",
    "ic3oc4ih8khh3": "at character 10: no size is called 'khh'; did you mean 'kh'?",
    "ic3oc4ihkh3": "at character 7: no size is called 'ihkh'; did you mean 'kh'?",
    "ic3oc4ih": "at character 7: ih has no number; write ihN",
    "ic3oc4ih8kh3ih9": "at character 13: ih is given twice; leave one out",
    "ic3oc4;ih8": "at character 7: ';' where the name of a size is due; write sizes as in ic64ih56oc64kh3ph1",
    "ic3oc4ih8kh3_n": "at character 14: the name after 'n' is empty; write nNAME, or leave the n out",
    "g2ic3oc4ih8kh3": "g2 does not divide ic3 and oc4; give a number of groups that does",
    "g0ic3oc4ih8kh3": "g0 does not divide ic3 and oc4; give a number of groups that does",
    "ic3oc4ih8kh0": "kh is 0; give it 1 or more",
    "ic3oc4ih8kh3sh0": "sh is 0; give it 1 or more",
    "ic3oc4ih8kh9": "no window fits: ih8 kh9 sh1 dh0 ph0 reaches over 9; make the input, the padding or the kernel fit",
    "ic3oc4ih8oh9kh3ph0": "oh9 does not follow from ih8 kh3 sh1 dh0 ph0; give it 6 to 8, or leave it out",
    "ic3oc4ih8oh5kh3ph0": "oh5 does not follow from ih8 kh3 sh1 dh0 ph0; give it 6 to 8, or leave it out",
}


@pytest.mark.parametrize("text", BAD)
def test_what_cannot_be_read_is_pointed_at(text: str) -> None:
    with pytest.raises(ValueError) as bad:
        C.parse_conv(text)
    assert str(bad.value) == BAD[text]


def test_a_bad_descriptor_is_a_case_that_fails() -> None:
    with pytest.raises(InvalidArguments, match="ic3oc4ih8kh0: kh is 0; give it 1 or more"):
        graph("--conv", "ic3oc4ih8kh0")


@pytest.mark.parametrize(
    ("options", "ops"),
    [
        ("", "Convolution"),
        ("--dir=FWD_D", "Convolution"),
        ("--dir=BWD_D", "ConvolutionBackwardData"),
        ("--dir=BWD_W", "ConvolutionBackwardWeights"),
        ("--dir=BWD_WB", "BiasAddBackward ConvolutionBackwardWeights"),
        ("--dir=bwd_wb --dt=bf16", "BiasAddBackward ConvolutionBackwardWeights"),
        ("--dt=bf16", "Convolution"),
        ("--dt=bf16 --bia-dt=f32", "Convolution TypeCast TypeCast TypeCast"),
        ("--dt=u8:s8:u8 --dir=FWD_I", "Convolution Dequantize Dequantize Quantize"),
        ("--attr-post-ops=sum+relu+mul:f32:per_oc", "Add Convolution Multiply ReLU"),
    ],
)
def test_options_become_ops(options: str, ops: str) -> None:
    assert sorted(kinds("--conv", *options.split(), "ic4oc6ih8kh3")) == ops.split()


@pytest.mark.parametrize(
    ("options", "inputs"),
    [("", 3), ("--dir=FWD_D", 2), ("--dir=FWD_I", 2), ("--dir=FWD_I --bia-dt=f32", 3), ("--dir=BWD_D", 2), ("--dir=BWD_WB", 2)],
)
def test_the_direction_or_a_dtype_gives_a_bias(options: str, inputs: int) -> None:
    assert len(graph("--conv", *options.split(), "ic4oc6ih8kh3").inputs) == inputs


def test_the_bias_is_of_the_weights_dtype_and_f32_when_they_are_integers() -> None:
    assert graph("--conv", "--dt=bf16", "ic4oc6ih8kh3").inputs[2].dtype is DType.bf16
    assert graph("--conv", "--dt=u8:s8:f32", "ic4oc6ih8kh3").inputs[2].dtype is DType.f32


def test_results_of_a_gradient_are_written_as_asked() -> None:
    g = graph("--conv", "--dir=BWD_WB", "--dt=bf16:f32:bf16", "--bia-dt=f16", "ic4oc6ih8kh3")
    assert [(t.dtype, t.known_shape) for t in g.outputs] == [(DType.f32, (6, 4, 3, 3)), (DType.f16, (6,))]


def test_free_layouts_are_channels_last_and_free_weights_constant() -> None:
    g = graph("--conv", "--dir=FWD_D", "ic4oc6ih8kh3")
    assert [t.strides for t in (g.inputs[0], *g.outputs)] == [(256, 1, 32, 4), (216, 1, 36, 6)]
    assert g.inputs[1].is_constant
    assert not graph("--conv", "--wtag=abx", "ic4oc6ih8kh3").inputs[1].is_constant


@pytest.mark.parametrize(
    ("tag", "strides"),
    [("goihw", (18, 9, 3, 1)), ("abcde", (18, 9, 3, 1)), ("oihw", (18, 9, 3, 1)), ("abx", (18, 9, 3, 1)), ("hwigo", (1, 6, 36, 12))],
)
def test_tags_of_grouped_weights_may_name_the_groups(tag: str, strides: tuple[int, ...]) -> None:
    assert graph("--conv", f"--wtag={tag}", "g2ic4oc6ih8kh3").inputs[1].strides == strides


def test_depthwise_weights_may_lie_in_any_order() -> None:
    assert graph("--conv", "--wtag=hwgoi", "g4ic4oc4ih8kh3").inputs[1].strides == (1, 1, 12, 4)


def test_mb_replaces_the_batch() -> None:
    ins, outs = shapes("--conv", "--dir=FWD_D", "--mb=7", "mb1ic4oc6ih8kh3")
    assert (ins[0][0], outs[0][0]) == (7, 7)
    assert problem("--conv", "--mb=7", "mb1ic4oc6ih8kh3").repro == "--conv --mb=7 mb1_ic4oc6_ih8oh6kh3ph0"


ONE_DIM = "weights whose groups and output channels are no single dim, as oneDNN Graph has them; use a tag in which o follows g"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("--alg=wino", "--alg=wino: no op asks for an algorithm; use direct or auto"),
        ("--dir=BWD_D --attr-post-ops=relu", "--attr-post-ops: post-ops after a gradient; leave them out, or use --dir=FWD_B"),
        ("--wtag=ghwio", f"--wtag=ghwio: {ONE_DIM}"),
        ("--dt=u8:s8:s32", "no op makes s32 of f32; give another dtype to the result"),
    ],
)
def test_what_no_op_means_is_refused_with_the_reason(options: str, reason: str) -> None:
    with pytest.raises(CannotExpress) as bad:
        graph("--conv", *options.split(), "g2ic4oc6ih8kh3")
    assert str(bad.value) == f"mb2_g2_ic4oc6_ih8oh6kh3ph0: {reason}"
