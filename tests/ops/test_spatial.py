"""Spatial arithmetic: axes of both data formats, pads from auto_pad, the number of windows, and illegal graphs."""

from __future__ import annotations

from itertools import product

import pytest

from benchgraph.core.attrs import Attrs
from benchgraph.core.dtypes import DType
from benchgraph.core.errors import InvalidGraphOp, InvalidShape
from benchgraph.core.tensor import Shape
from benchgraph.ops import check_op
from benchgraph.ops.spatial import ONES, Windows, channel_axis, data_shape, spatial_axes, spatial_dims, windows
from tests.support.table import by_row

NCX, NXC = Attrs(data_format="NCX"), Attrs(data_format="NXC")


def geometry(**attrs: object) -> Attrs:
    return Attrs({"strides": (1,), "pads_begin": (0,), "pads_end": (0,), **attrs})


@pytest.mark.parametrize(("attrs", "channel", "spatial"), [(NCX, 1, (2, 3)), (NXC, 3, (1, 2)), (Attrs(), 3, (1, 2))])
def test_axes(attrs: Attrs, channel: int, spatial: Shape) -> None:
    assert channel_axis(attrs, 4) == channel
    assert spatial_axes(attrs, 4) == spatial


@pytest.mark.parametrize("attrs", [NCX, NXC])
def test_data_shape_inverts_spatial_dims(attrs: Attrs) -> None:
    shape = data_shape(attrs, 2, 3, (5, 7, 9))
    assert (shape[0], shape[channel_axis(attrs, 5)], spatial_dims(attrs, shape)) == (2, 3, (5, 7, 9))


def test_a_source_without_spatial_dims_is_refused() -> None:
    with pytest.raises(InvalidShape, match=r"shape \(2, 3\) has rank 2; give it a batch, a channel and at least one spatial dim"):
        spatial_dims(NXC, (2, 3))


def test_pads_are_as_given_and_one_per_dim_unless_auto_pad_sets_them() -> None:
    assert windows(geometry(pads_begin=(2,), pads_end=(1,)), (8,), (3,)) == Windows((3,), (1,), (1,), (2,), (1,))
    assert windows(geometry(pads_begin=(), pads_end=(), auto_pad="VALID"), (8,), (3,)).pads_end == (0,)
    for name in ("pads_begin", "pads_end"):  # oneDNN 3.2 to 3.13 read beyond the end of an empty list
        with pytest.raises(InvalidShape, match=rf"'{name}' is \(\), for a source with 1 spatial dim; give it one number per spatial dim"):
            windows(geometry(**{name: ()}), (8,), (3,))


@by_row(
    (f"size {size}", f"kernel {kernel}, dilation {dilation}, stride {stride}", (size, kernel, dilation, stride))
    for size, kernel, dilation, stride in product((1, 6, 7, 13), (1, 2, 3, 4), (1, 2), (1, 2, 3, 5))
)
def test_same_gives_a_window_per_started_stride_and_even_pads(size: int, kernel: int, dilation: int, stride: int) -> None:
    for auto, sign in (("SAME_UPPER", 1), ("SAME_LOWER", -1)):
        result = windows(geometry(strides=(stride,), dilations=(dilation,), auto_pad=auto, pads_begin=(9,)), (size,), (kernel,))
        assert result.count((size,)) == (-(-size // stride),)
        odd = result.pads_end[0] - result.pads_begin[0]
        assert odd in (0, sign), "the odd one goes to the end of UPPER and to the begin of LOWER"


def test_valid_ignores_all_pads() -> None:
    result = windows(geometry(pads_begin=(2,), pads_end=(1,), auto_pad="VALID"), (8,), (3,))
    assert (result.pads_begin, result.pads_end) == ((0,), (0,))


def test_transposed_pads_depend_on_kernel_and_stride_only() -> None:
    for size in (4, 5, 6):
        result = windows(geometry(strides=(3,), auto_pad="SAME_UPPER"), (size,), (5,), transposed=True)
        assert (result.pads_begin, result.pads_end) == ((1,), (1,))


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "floor", "ceil"),
    [
        (7, 3, 2, 3, 3),
        (8, 3, 2, 3, 4),
        (3, 1, 3, 1, 2),  # the last window starts behind src
        (3, 3, 2, 1, 1),
        (0, 2, 1, 0, 0),
    ],
)
def test_count(size: int, kernel: int, stride: int, floor: int, ceil: int) -> None:
    result = windows(geometry(strides=(stride,)), (size,), (kernel,))
    assert (result.count((size,)), result.count((size,), ceil=True)) == ((floor,), (ceil,))


def test_dilations_are_one_when_absent_or_the_default() -> None:
    for attrs in (geometry(), geometry(dilations=ONES), geometry(dilations=(1,))):
        assert windows(attrs, (9,), (3,)).reach == (3,)
    assert windows(geometry(dilations=(4,)), (9,), (3,)).reach == (9,)


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        (geometry(strides=(1, 1)), "attribute 'strides' is (1, 1), for a source with 1 spatial dim; give"),
        (
            geometry(dilations=(1, 2)),
            "attribute 'dilations' is (1, 2), for a source with 1 spatial dim; give",
        ),
        (
            geometry(pads_begin=(1, 1)),
            "attribute 'pads_begin' is (1, 1), for a source with 1 spatial dim; give",
        ),
        (
            geometry(pads_end=(0, 0), auto_pad="VALID"),
            "attribute 'pads_end' is (0, 0), for a source with 1 spatial dim; give",
        ),
        (geometry(strides=(0,)), "attribute 'strides' is (0,); give it sizes of 1 or more"),
        (geometry(dilations=(0,)), "attribute 'dilations' is (0,); give it sizes of 1 or more"),
    ],
)
def test_lists_that_do_not_fit_are_refused(attrs: Attrs, message: str) -> None:
    with pytest.raises(InvalidShape) as caught:
        windows(attrs, (8,), (3,))
    assert str(caught.value).startswith(message)
    assert caught.value.fix in ("give it one number per spatial dim", "give it sizes of 1 or more")


def test_a_kernel_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidShape, match=r"kernel is \(3,\), for a source with 2 spatial dims"):
        windows(geometry(strides=(1, 1), pads_begin=(0, 0), pads_end=(0, 0)), (8, 8), (3,))
    with pytest.raises(InvalidShape, match="a window spans 9 along spatial dim 0, where src with its pads has 8; make the kernel"):
        windows(geometry(dilations=(4,)), (8,), (3,)).count((8,))


def test_negative_pads_are_refused_when_the_op_is_added() -> None:
    src = ((DType.f32, (1, 8, 8, 3)),)
    check_op("MaxPool", geometry(kernel=(2, 2), strides=(1, 1), pads_begin=(0, 0), pads_end=(0, 0)), src, (DType.f32,))
    with pytest.raises(InvalidGraphOp) as bad:
        check_op("MaxPool", geometry(kernel=(2, 2), strides=(1, 1), pads_begin=(0, 0), pads_end=(0, -1)), src, (DType.f32,))
    assert str(bad.value) == "attribute 'pads_end' is (0, -1); give it sizes of 0 or more"
