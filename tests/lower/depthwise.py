"""Depthwise convolutions and their gradients."""

from __future__ import annotations

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import Shape
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph

FORWARD, BY_DATA, BY_WEIGHTS = "Convolution", "ConvolutionBackwardData", "ConvolutionBackwardWeights"


def windows_over(spatial: Shape, kernel: Shape, stride: int | Shape, dilation: int, begin: int, end: int) -> tuple[Shape, Shape]:
    """Strides, and how many windows there are, along each dim."""
    strides = (stride,) * len(kernel) if isinstance(stride, int) else stride
    padded = (n + begin + end - (k - 1) * dilation - 1 for n, k in zip(spatial, kernel, strict=True))
    return strides, tuple(n // s + 1 for n, s in zip(padded, strides, strict=True))


def depthwise(
    kind: str,
    spatial: Shape,
    kernel: Shape,
    stride: int | Shape = 1,
    dilation: int = 1,
    pad: int = 1,
    channels: int = 5,
    dtype: DType = DType.f32,
    data_format: str = "NXC",
    weights_format: str = "XIO",
    images: int = 2,
) -> Graph:
    """One of the three ops, of a single channel per group, for these spatial dims of src."""
    b, rank = GraphBuilder(), len(spatial)
    strides, windows = windows_over(spatial, kernel, stride, dilation, pad, pad)
    src, dst = ((images, *dims, channels) if data_format == "NXC" else (images, channels, *dims) for dims in (spatial, windows))
    wei = (*kernel, 1, channels) if weights_format == "XIO" else (channels, 1, *kernel)
    shapes, more = {
        FORWARD: ((src, wei), {}),
        BY_DATA: ((dst, wei), {"dst_shape": src}),
        BY_WEIGHTS: ((src, dst), {"weights_shape": wei}),
    }[kind]
    steps = {"strides": strides, "dilations": (dilation,) * rank, "pads_begin": (pad,) * rank, "pads_end": (pad,) * rank}
    ins = (b.input(shape, dtype) for shape in shapes)
    b.op(kind, *ins, **steps, groups=channels, data_format=data_format, weights_format=weights_format, **more)
    return b.graph()
