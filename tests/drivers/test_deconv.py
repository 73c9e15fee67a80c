"""deconv: descriptors whose output has a window for each element of the input, weights in benchdnn's dims, directions as ops."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchgraph.options.problem import CannotExpress
from benchgraph.reference import evaluate
from tests.drivers.problems import graph, kinds, problem, shapes, shared

C, W = shared("conv_shape"), shared("windows")


@st.composite
def dims(draw: st.DrawFn) -> object:
    """A spatial dim that fits, with any output its input allows."""
    i, k, s, d = draw(st.integers(1, 9)), draw(st.integers(1, 5)), draw(st.integers(1, 4)), draw(st.integers(0, 2))
    bare = W.TransposedDim(i, 1, k, s, draw(st.integers(0, ((i - 1) * s + (k - 1) * (d + 1)) // 2)), d)
    least, most = bare.outputs()
    return W.TransposedDim(i, draw(st.integers(least, most)), k, s, bare.p, d)


@st.composite
def deconvolutions(draw: st.DrawFn) -> object:
    g, count = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    spatial = [draw(dims())]
    while len(spatial) < count:
        spatial.append(spatial[-1] if draw(st.booleans()) else draw(dims()))
    ic, oc = g * draw(st.integers(1, 4)), g * draw(st.integers(1, 4))
    return C.ConvShape(draw(st.integers(1, 4)), g, ic, oc, tuple(spatial), draw(st.sampled_from(["", "net:up1_n2"])))


@given(deconvolutions())
def test_what_is_printed_is_read_again(deconv: object) -> None:
    assert C.parse_deconv(str(deconv)) == deconv


@given(deconvolutions(), st.sampled_from(["FWD_D", "BWD_D", "BWD_W"]))
def test_the_graph_has_the_shapes_of_the_descriptor(deconv, way: str) -> None:  # type: ignore[no-untyped-def]
    src = (deconv.mb, deconv.ic, *(dim.i for dim in deconv.dims))
    wei = (deconv.ic, deconv.oc // deconv.g, *(dim.k for dim in deconv.dims))
    dst = (deconv.mb, deconv.oc, *(dim.o for dim in deconv.dims))
    ins, outs = shapes("--deconv", f"--dir={way}", str(deconv))
    assert (ins, outs) == {"FWD_D": ([src, wei], [dst]), "BWD_D": ([dst, wei], [src]), "BWD_W": ([src, dst], [wei])}[way]


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("ic3ih4oc4kh3", "mb2_ic3oc4_ih4oh6kh3ph0"),
        ("ic3iw4oc4kw3sw2pw1", "mb2_ic3oc4_iw4ow7kw3sw2pw1"),
        ("ic3ih4oh8oc4kh4sh2", "mb2_ic3oc4_ih4oh8kh4sh2ph1"),
        ("ic3ih4oh8oc4kh3sh2ph1", "mb2_ic3oc4_ih4oh8kh3sh2ph1"),
        ("ic3ih4oc4kh3dh1", "mb2_ic3oc4_ih4oh8kh3dh1ph0"),
        ("g3ic3id2ih4oc6kd2kh3n\"x\"", 'mb2_g3_ic3oc6_id2od3kd2pd0_ih4oh6kh3ph0_n"x"'),
    ],
)  # fmt: skip
def test_sizes_that_are_left_out_follow_from_the_others(text: str, full: str) -> None:
    assert str(C.parse_deconv(text)) == full


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ic3oc4ih4kh3ph3", "no window fits: ih4 kh3 sh1 dh0 ph3 reaches over 3; make the input, the padding or the kernel fit"),
        ("ic3oc4ih4oh9kh3ph1", "oh9 does not follow from ih4 kh3 sh1 dh0 ph1; give it 3 to 5, or leave it out"),
        ("ic3oc4", "no spatial size is given; write at least ihN and khN"),
    ],
)
def test_what_cannot_be_read_is_pointed_at(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as bad:
        C.parse_deconv(text)
    assert str(bad.value) == reason


@pytest.mark.parametrize(
    ("text", "pads_end", "output_padding"),
    [("ih4oh7kh3sh2ph1", 1, 0), ("ih4oh8kh3sh2ph1", 0, 0), ("ih4oh9kh3sh2ph1", 0, 1), ("ih4oh8kh5ph0", 0, 0), ("ih4oh6kh5ph0", 2, 0)],
)
def test_the_output_ends_before_or_behind_the_last_window(text: str, pads_end: int, output_padding: int) -> None:
    (op,) = graph("--deconv", "--dir=FWD_D", f"ic4oc6{text}").ops
    assert (op.attrs.integers("pads_end"), op.attrs.integers("output_padding")) == ((pads_end,) * 2, (output_padding,) * 2)


@pytest.mark.parametrize(
    ("options", "ops"),
    [
        ("", "ConvTranspose"),
        ("--dir=BWD_D", "ConvTransposeBackwardData"),
        ("--dir=BWD_W", "ConvTransposeBackwardWeights"),
        ("--dir=BWD_WB", "BiasAddBackward ConvTransposeBackwardWeights"),
        ("--dt=u8:s8:u8 --dir=FWD_I", "ConvTranspose Dequantize Dequantize Quantize"),
        ("--attr-post-ops=sum+relu+mul:f32:per_oc", "Add ConvTranspose Multiply ReLU"),
    ],
)
def test_options_become_ops(options: str, ops: str) -> None:
    assert sorted(kinds("--deconv", *options.split(), "ic4oc6ih8kh3")) == ops.split()


@pytest.mark.parametrize(
    ("tag", "strides"),
    [("oihw", (9, 36, 3, 1)), ("iohw", (54, 9, 3, 1)), ("abx", (9, 36, 3, 1)), ("hwoi", (1, 4, 72, 24)), ("any", (54, 9, 3, 1))],
)
def test_tags_of_weights_are_for_dims_that_begin_with_the_outputs(tag: str, strides: tuple[int, ...]) -> None:
    wei = graph("--deconv", f"--wtag={tag}", "ic4oc6ih8kh3").inputs[1]
    assert (wei.known_shape, wei.strides, wei.is_constant) == ((4, 6, 3, 3), strides, tag == "any")


def test_tags_of_grouped_weights_name_the_groups() -> None:
    assert graph("--deconv", "--wtag=giohw", "g2ic4oc6ih8kh3").inputs[1].strides == (27, 9, 3, 1)
    assert graph("--deconv", "--wtag=goihw", "g4ic4oc8ih8kh3").inputs[1].strides == (18, 9, 3, 1)
    with pytest.raises(
        CannotExpress, match=r"--wtag=goihw: weights whose groups and input channels .*use any, or a tag in which i follows g"
    ):
        graph("--deconv", "--wtag=goihw", "g2ic4oc6ih8kh3")


@pytest.mark.parametrize(
    ("policy", "axis", "count"), [("per_oc", 1, 6), ("per_dim_0", 1, 6), ("per_dim_1", 0, 4), ("1", 1, 6), ("4", 2, 3)]
)
def test_numbers_of_the_weights_are_along_benchdnns_dims(policy: str, axis: int, count: int) -> None:
    g = graph("--deconv", "--dt=u8:s8:f32", f"--attr-scales=wei:{policy}", "ic4oc6ih8kh3")
    (attrs,) = (op.attrs for op in g.ops if op.kind == "Dequantize" and op.attrs.string("qtype") == "per_channel")
    assert (attrs.integer("axis"), len(attrs.reals("scales"))) == (axis, count)


def test_numbers_along_outputs_of_groups_are_refused() -> None:
    for policy in ("per_oc", "per_dim_01"):
        with pytest.raises(CannotExpress, match=f"wei:{policy}: {policy} of wei is not one dim of grouped weights; give one number"):
            graph("--deconv", "--dt=u8:s8:f32", f"--attr-scales=wei:{policy}", "g2ic4oc6ih8kh3")


def test_mb_replaces_the_batch() -> None:
    assert problem("--deconv", "--mb=7", "mb1ic4oc6ih8kh3").repro == "--deconv --mb=7 mb1_ic4oc6_ih8oh10kh3ph0"
    assert shapes("--deconv", "--dir=FWD_D", "--mb=7", "mb1ic4oc6ih8kh3")[1][0][0] == 7


@pytest.mark.parametrize("sizes", ["ih4oh7kh3sh2ph1", "ih4oh8kh3sh2ph1dh0", "ih3iw4oh8ow6kh2kw3sh3sw1dh1ph0pw0"])
def test_every_element_of_the_input_adds_its_window(sizes: str) -> None:
    """By a definition of its own: a tap t of the window of element i is at i * s + t * (d + 1) - p of the output."""
    deconv = C.parse_deconv(f"mb1g2ic4oc6{sizes}")
    g = graph("--deconv", "--dir=FWD_D", "--wtag=giohw", str(deconv))
    rng = np.random.default_rng(0)
    src, wei = (rng.integers(-3, 4, t.known_shape).astype(np.float32) for t in g.inputs)
    h, w = deconv.dims
    dst = np.zeros((1, 6, h.o, w.o))
    taps = product(range(2), range(2), range(3), range(h.i), range(w.i), range(h.k), range(w.k))
    for group, i, o, ih, iw, kh, kw in taps:
        oh, ow = (dim.s * at + (dim.d + 1) * tap - dim.p for dim, at, tap in ((h, ih, kh), (w, iw, kw)))
        if 0 <= oh < h.o and 0 <= ow < w.o:
            dst[0, 3 * group + o, oh, ow] += src[0, 2 * group + i, ih, iw] * wei[2 * group + i, o, kh, kw]
    found = evaluate(g, dict(zip((t.id for t in g.inputs), (src, wei), strict=True)))[g.outputs[0].id]
    assert np.array_equal(found, dst)
