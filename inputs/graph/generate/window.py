"""Ops that look at windows of an image: convolutions, pooling, interpolation, and their gradients."""

from __future__ import annotations

from benchgraph.graph import GraphBuilder

from .case import CHANNELS_FIRST, NARROW, POOL, case, conv_attrs


@case(
    "op",
    smoke=True,
    ci=(NARROW,),
    sweep=(
        "--in-shapes=0:1x7x9x32,0:1x1x1x32,0:2x14x14x32*adbc",
        "--op-attrs=0:strides:2x3,0:auto_pad:SAME_LOWER,0:auto_pad:VALID,0:dilations:2x2*pads_begin:2x0",
        "--in-shapes=0:0x14x14x32",
        "--mb=3",
    ),
)
def conv(b: GraphBuilder) -> None:
    b.op("Convolution", b.input((2, 14, 14, 32)), b.constant((3, 3, 32, 48)), b.constant((48,)), **conv_attrs())


@case("op", sweep=(NARROW, "--mb=1,3"))
def conv_channels_first(b: GraphBuilder) -> None:
    b.op("Convolution", b.input((2, 16, 15, 15)), b.constant((24, 16, 3, 3)), **conv_attrs(strides=(2, 2), **CHANNELS_FIRST))


@case("op", sweep=(NARROW,))
def conv_grouped_3d(b: GraphBuilder) -> None:
    b.op("Convolution", b.input((1, 5, 6, 7, 12)), b.constant((3, 3, 3, 3, 20)), **conv_attrs(3, groups=4, dilations=(1, 2, 1)))


@case("op", sweep=(NARROW, "--mb=1,3"))
def conv_depthwise(b: GraphBuilder) -> None:
    b.op("Convolution", b.input((2, 33, 9, 9)), b.constant((33, 1, 3, 3)), **conv_attrs(groups=33, **CHANNELS_FIRST))


@case("op", sweep=(NARROW,))
def conv_backward_data(b: GraphBuilder) -> None:
    attrs = conv_attrs(strides=(2, 2), dst_shape=(2, 15, 15, 16))
    b.op("ConvolutionBackwardData", b.input((2, 8, 8, 24)), b.constant((3, 3, 16, 24)), **attrs)


@case("op", sweep=(NARROW,))
def conv_backward_weights(b: GraphBuilder) -> None:
    attrs = conv_attrs(weights_shape=(3, 3, 16, 24))
    b.op("ConvolutionBackwardWeights", b.input((2, 9, 9, 16)), b.input((2, 9, 9, 24)), **attrs)


@case("op", sweep=(NARROW,))
def convtranspose(b: GraphBuilder) -> None:
    attrs = conv_attrs(strides=(2, 2), data_format="NCX", weights_format="IOX", output_padding=(1, 1))
    b.op("ConvTranspose", b.input((2, 16, 7, 7)), b.constant((16, 24, 3, 3)), b.constant((24,)), **attrs)


@case("op", sweep=(NARROW,))
def convtranspose_backward_data(b: GraphBuilder) -> None:
    b.op("ConvTransposeBackwardData", b.input((2, 13, 13, 24)), b.constant((3, 3, 24, 16)), **conv_attrs(strides=(2, 2)))


@case("op", sweep=(NARROW,))
def convtranspose_backward_weights(b: GraphBuilder) -> None:
    attrs = conv_attrs(strides=(2, 2), weights_shape=(3, 3, 24, 16))
    b.op("ConvTransposeBackwardWeights", b.input((2, 7, 7, 16)), b.input((2, 13, 13, 24)), **attrs)


@case("op", sweep=(NARROW, "--mb=1,3"))
def avgpool(b: GraphBuilder) -> None:
    b.op("AvgPool", b.input((2, 14, 14, 33)), exclude_pad=True, **POOL)


@case("op", sweep=(NARROW,))
def avgpool_channels_first(b: GraphBuilder) -> None:
    b.op("AvgPool", b.input((2, 5, 9, 37)), exclude_pad=False, data_format="NCX", auto_pad="SAME_UPPER", **POOL)


@case("op", sweep=(NARROW, "--mb=1,3"))
def maxpool(b: GraphBuilder) -> None:
    b.op("MaxPool", b.input((2, 14, 14, 33)), rounding_type="ceil", **POOL)


@case("op", sweep=(NARROW,))
def maxpool_channels_first(b: GraphBuilder) -> None:
    b.op("MaxPool", b.input((2, 5, 9, 37)), data_format="NCX", dilations=(2, 2), **POOL)


@case("op", sweep=(NARROW,))
def avgpool_backward(b: GraphBuilder) -> None:
    b.op("AvgPoolBackward", b.input((2, 7, 7, 33)), exclude_pad=True, src_shape=(2, 14, 14, 33), **POOL)


@case("op", sweep=(NARROW,))
def maxpool_backward(b: GraphBuilder) -> None:
    b.op("MaxPoolBackward", b.input((2, 5, 9, 37)), b.input((2, 5, 5, 19)), data_format="NCX", **POOL)


@case("op", sweep=(NARROW,))
def interpolate(b: GraphBuilder) -> None:
    b.op("Interpolate", b.input((2, 7, 9, 33)), mode="bilinear", scales=(2.0, 1.5))


@case("op", sweep=(NARROW,))
def interpolate_nearest(b: GraphBuilder) -> None:
    b.op("Interpolate", b.input((2, 5, 9, 17)), mode="nearest", sizes=(14, 35), data_format="NCX")


@case("op", sweep=(NARROW,))
def interpolate_backward(b: GraphBuilder) -> None:
    b.op("InterpolateBackward", b.input((2, 7, 9, 33)), b.input((2, 14, 13, 33)), mode="linear", sizes=(14, 13))


@case("op", sweep=(NARROW, "--in-shapes=0:1x3x30"))
def conv_1d(b: GraphBuilder) -> None:
    attrs = conv_attrs(1, strides=(2,), **CHANNELS_FIRST)
    b.op("Convolution", b.input((2, 3, 33)), b.constant((17, 3, 5)), **attrs)


@case("op", sweep=(NARROW,))
def maxpool_3d(b: GraphBuilder) -> None:
    sizes = {"kernel": (2, 3, 2), "strides": (2, 1, 2), "pads_begin": (0, 1, 0), "pads_end": (0, 1, 0)}
    b.op("MaxPool", b.input((1, 6, 5, 7, 17)), **sizes)


@case("op", sweep=(NARROW,))
def avgpool_whole_image(b: GraphBuilder) -> None:
    sizes = {"kernel": (7, 7), "strides": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0)}
    b.op("AvgPool", b.input((2, 7, 7, 33)), exclude_pad=False, **sizes)


@case("op", sweep=(NARROW,))
def interpolate_trilinear_aligned(b: GraphBuilder) -> None:
    b.op("Interpolate", b.input((1, 3, 4, 5, 9)), mode="trilinear", sizes=(5, 7, 9), coordinate_transformation_mode="align_corners")
