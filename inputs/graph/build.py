"""Writes the graph cases of this folder, and the batch file `test_ci` over them: `python inputs/graph/build.py [FOLDER]`.

Each case is a function that builds a graph; its name is the file's. The decorator says where the file goes and into how many
partitions the fused policy cuts the graph.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor, PropertyType
from benchgraph.graph import Graph, GraphBuilder, save

BUILDS: list[Case] = []


@dataclass(frozen=True)
class Case:
    """path: relative to the folder. partitions: what the fused policy makes of it, not counting End."""

    path: str
    build: Callable[[GraphBuilder], None]
    partitions: int = 1

    def graph(self) -> Graph:
        b = GraphBuilder()
        self.build(b)
        return b.graph()

    @property
    def line(self) -> str:
        """Its line of the batch file."""
        expected = "" if self.partitions == 1 else f"--expected-n-partitions={self.partitions} "
        return f"--reset {expected}--case={self.path}"


def case(folder: str = "", partitions: int = 1) -> Callable[[Callable[[GraphBuilder], None]], Callable[[GraphBuilder], None]]:
    """Register a build function under its own name."""

    def register(build: Callable[[GraphBuilder], None]) -> Callable[[GraphBuilder], None]:
        BUILDS.append(Case(f"{folder}/{build.__name__}.json".lstrip("/"), build, partitions))
        return build

    return register


# ---- the main cases --------------------------------------------------------------------------------------------------

LAYERS = (13, 512, 256, 128)
SCALE = 0.12  # of every quantised tensor, as in the Graph Compiler paper's int8 workloads
ZERO_POINT = 2


def layer(b: GraphBuilder, x: LogicalTensor, n: int, name: str = "") -> LogicalTensor:
    """x times constant weights, plus a constant bias."""
    k = x.known_shape[-1]
    return b.op("MatMul", x, b.constant((k, n), x.dtype), b.constant((n,), x.dtype), name=name)


def dequantised(b: GraphBuilder, x: LogicalTensor, group: tuple[int, ...], dtype: DType = DType.f32) -> LogicalTensor:
    """x, of four bits, with a scale in dtype and a zero point of x's dtype per group; constant if x is."""
    groups = tuple(d // g for d, g in zip(x.known_shape, group, strict=True))
    scales, zps = (b.constant(groups, t) if x.is_constant else b.input(groups, t) for t in (dtype, x.dtype))
    return b.op("DynamicDequantize", x, scales, zps, qtype="per_group", group_shape=group)


@case()
def mlp(b: GraphBuilder) -> None:
    x = b.input((128, LAYERS[0]))
    for i, n in enumerate(LAYERS[1:]):
        x = b.op("ReLU", layer(b, x, n, f"matmul_{i}"), name=f"relu_{i}")


@case()
def attention(b: GraphBuilder) -> None:
    q, k, v = b.input((4, 8, 128, 64)), b.input((4, 8, 64, 128)), b.input((4, 8, 128, 64))
    scores = b.op("MatMul", q, k, name="scores")
    scaled = b.op("Divide", scores, b.input((1,)), name="scale")
    masked = b.op("Add", scaled, b.input((4, 1, 1, 128)), name="mask")
    context = b.op("MatMul", b.op("SoftMax", masked, axis=3, name="probabilities"), v, name="context")
    b.op("Reorder", b.op("StaticTranspose", context, order=(0, 2, 1, 3), name="heads_last"), name="contiguous")


@case()
def quantised_mlp(b: GraphBuilder) -> None:
    x = b.input((128, LAYERS[0]), DType.u8)
    for n in LAYERS[1:]:
        src = b.op("Dequantize", x, qtype="per_tensor", scales=(SCALE,), zps=(ZERO_POINT,))
        wei = b.constant((x.known_shape[-1], n), DType.s8)
        real = b.op("Dequantize", wei, qtype="per_channel", axis=1, scales=(SCALE,) * n, zps=(0,) * n)
        y = b.op("ReLU", b.op("MatMul", src, real, b.constant((n,))))
        x = b.op("Quantize", y, dtype=DType.u8, qtype="per_tensor", scales=(SCALE,), zps=(ZERO_POINT,))


# ---- op: one op each -------------------------------------------------------------------------------------------------


@case("op")
def matmul(b: GraphBuilder) -> None:
    b.op("MatMul", b.input((64, 96)), b.constant((96, 80)))


@case("op")
def matmul_bias(b: GraphBuilder) -> None:
    layer(b, b.input((33, 65)), 47)


@case("op")
def matmul_transposed(b: GraphBuilder) -> None:
    b.op("MatMul", b.input((40, 24)), b.input((56, 40)), transpose_a=True, transpose_b=True)


@case("op")
def matmul_square_transposed(b: GraphBuilder) -> None:
    """A square operand, whose shape does not give away that it was not transposed."""
    b.op("MatMul", b.input((24, 40)), b.input((40, 40)), transpose_b=True)


@case("op")
def matmul_batched(b: GraphBuilder) -> None:
    b.op("MatMul", b.input((2, 3, 17, 19)), b.input((1, 3, 19, 23)))


@case("op")
def biasadd(b: GraphBuilder) -> None:
    b.op("BiasAdd", b.input((2, 8, 5, 7)), b.constant((8,)), data_format="NCX")


@case("op")
def add_broadcast(b: GraphBuilder) -> None:
    b.op("Add", b.input((8, 1, 33)), b.input((16, 1)))


@case("op")
def subtract(b: GraphBuilder) -> None:
    b.op("Subtract", b.input((32, 65)), b.input((32, 65)))


@case("op")
def multiply_scalar(b: GraphBuilder) -> None:
    b.op("Multiply", b.input((32, 65)), b.input((1,)))


@case("op")
def divide_rows(b: GraphBuilder) -> None:
    b.op("Divide", b.input((32, 65)), b.input((32, 1)))


@case("op")
def maximum(b: GraphBuilder) -> None:
    b.op("Maximum", b.input((7, 129)), b.input((129,)))


@case("op")
def relu(b: GraphBuilder) -> None:
    b.op("ReLU", b.input((64, 100)))


@case("op")
def leakyrelu(b: GraphBuilder) -> None:
    b.op("LeakyReLU", b.input((64, 100)), alpha=0.01)


@case("op")
def gelu(b: GraphBuilder) -> None:
    b.op("GELU", b.input((64, 100)))


@case("op")
def tanh(b: GraphBuilder) -> None:
    b.op("Tanh", b.input((64, 100)))


@case("op")
def sigmoid(b: GraphBuilder) -> None:
    b.op("Sigmoid", b.input((64, 100)))


@case("op")
def exp_strided(b: GraphBuilder) -> None:
    b.op("Exp", b.input((16, 33), strides=(1, 16)))


@case("op")
def softmax(b: GraphBuilder) -> None:
    b.op("SoftMax", b.input((4, 16, 100)), axis=-1)


@case("op")
def softmax_middle_axis(b: GraphBuilder) -> None:
    b.op("SoftMax", b.input((4, 16, 33)), axis=1)


@case("op")
def reduce_sum(b: GraphBuilder) -> None:
    b.op("ReduceSum", b.input((16, 8, 65)), axes=(2,), keep_dims=False)


@case("op")
def reduce_max_keep_dims(b: GraphBuilder) -> None:
    b.op("ReduceMax", b.input((16, 8, 65)), axes=(0, 2), keep_dims=True)


@case("op")
def reduce_max_short_rows(b: GraphBuilder) -> None:
    """Every element is often enough the largest for its absence to show."""
    b.op("ReduceMax", b.input((16, 33, 3)), axes=(2,), keep_dims=False)


@case("op")
def reduce_mean(b: GraphBuilder) -> None:
    b.op("ReduceMean", b.input((16, 65)), axes=(-1,), keep_dims=True)


@case("op")
def select(b: GraphBuilder) -> None:
    b.op("Select", b.input((4, 1, 33), DType.boolean), b.input((4, 16, 33)), b.input((1,)))


@case("op")
def concat(b: GraphBuilder) -> None:
    b.op("Concat", b.input((4, 8, 15, 17)), b.input((4, 3, 15, 17)), b.input((4, 1, 15, 17)), axis=1)


@case("op")
def concat_last_axis_strided(b: GraphBuilder) -> None:
    b.op("Concat", b.input((16, 33), strides=(1, 16)), b.input((16, 40), strides=(64, 1)), axis=-1)


def random_numbers(b: GraphBuilder) -> tuple[LogicalTensor, LogicalTensor, LogicalTensor]:
    """seed, offset and probability of a Dropout."""
    dtypes = (DType.s64, DType.s64, DType.f32)
    seed, offset, probability = (b.input((), dtype, property_type=PropertyType.host_scalar) for dtype in dtypes)
    return seed, offset, probability


@case("op")
def dropout(b: GraphBuilder) -> None:
    b.op("Dropout", b.input((4, 16, 33)), *random_numbers(b))


@case("op")
def dropout_mask(b: GraphBuilder) -> None:
    b.outs("Dropout", b.input((7, 129), strides=(1, 7)), *random_numbers(b), dtypes=(None, DType.u8))


@case("op")
def genindex(b: GraphBuilder) -> None:
    b.op("GenIndex", b.input((2, 16, 33, 40)), axis=-2)


@case("op")
def transpose(b: GraphBuilder) -> None:
    b.op("StaticTranspose", b.input((2, 3, 17, 8)), order=(0, 2, 1, 3))


@case("op")
def reshape(b: GraphBuilder) -> None:
    b.op("StaticReshape", b.input((4, 6, 10)), shape=(0, -1), special_zero=True)


@case("op")
def reorder(b: GraphBuilder) -> None:
    b.op("Reorder", b.input((16, 33), strides=(1, 16)))


@case("op")
def typecast(b: GraphBuilder) -> None:
    b.op("TypeCast", b.input((16, 33)), dtype=DType.bf16)


@case("op")
def quantize(b: GraphBuilder) -> None:
    b.op("Quantize", b.input((16, 33)), dtype=DType.u8, scales=(SCALE,), zps=(ZERO_POINT,))


@case("op")
def quantize_per_channel(b: GraphBuilder) -> None:
    b.op("Quantize", b.input((16, 4)), dtype=DType.s8, qtype="per_channel", axis=1, scales=(0.1, 0.2, 0.5, 1.0), zps=(0, 0, 0, 0))


@case("op")
def dynamic_dequantize_s4(b: GraphBuilder) -> None:
    """Rows of odd length in memory, so that every other one begins in the middle of a byte."""
    src = b.input((2, 16, 33), DType.s4, strides=(560, 35, 1))
    b.op("DynamicDequantize", src, b.input((16,)), b.input((16,), DType.s4), qtype="per_channel", axis=1)


@case("op")
def dynamic_dequantize_u4(b: GraphBuilder) -> None:
    dequantised(b, b.input((64, 33), DType.u4), (16, 1), DType.bf16)


@case("op")
def dequantize(b: GraphBuilder) -> None:
    b.op("Dequantize", b.input((16, 33), DType.s8), scales=(SCALE,), zps=(ZERO_POINT,))


@case("op")
def dequantize_per_channel(b: GraphBuilder) -> None:
    b.op("Dequantize", b.input((16, 4), DType.u8), qtype="per_channel", axis=1, scales=(0.1, 0.2, 0.5, 1.0), zps=(3, 0, 128, 7))


@case("op")
def quantize_saturated(b: GraphBuilder) -> None:
    """A scale so small that many numbers lie beyond the type's range, on both sides."""
    b.op("Quantize", b.input((16, 33)), dtype=DType.s8, scales=(0.01,), zps=(0,))


# ---- op: windows -----------------------------------------------------------------------------------------------------

POOL = {"kernel": (3, 3), "strides": (2, 2), "pads_begin": (1, 1), "pads_end": (1, 1)}  # as after a first convolution


def conv_attrs(rank: int = 2, pad: int = 1, **more: object) -> dict[str, object]:
    """Stride 1, dilation 1, `pad` on all sides, in oneDNN's default formats, but for what `more` says."""
    ones, pads = (1,) * rank, (pad,) * rank
    return {"strides": ones, "dilations": ones, "pads_begin": pads, "pads_end": pads, **more}


CHANNELS_FIRST = {"data_format": "NCX", "weights_format": "OIX"}


@case("op")
def conv(b: GraphBuilder) -> None:
    b.op("Convolution", b.input((2, 14, 14, 32)), b.constant((3, 3, 32, 48)), b.constant((48,)), **conv_attrs())


@case("op")
def conv_channels_first(b: GraphBuilder) -> None:
    b.op("Convolution", b.input((2, 16, 15, 15)), b.constant((24, 16, 3, 3)), **conv_attrs(strides=(2, 2), **CHANNELS_FIRST))


@case("op")
def conv_grouped_3d(b: GraphBuilder) -> None:
    b.op("Convolution", b.input((1, 5, 6, 7, 12)), b.constant((3, 3, 3, 3, 20)), **conv_attrs(3, groups=4, dilations=(1, 2, 1)))


@case("op")
def conv_depthwise(b: GraphBuilder) -> None:
    b.op("Convolution", b.input((2, 33, 9, 9)), b.constant((33, 1, 3, 3)), **conv_attrs(groups=33, **CHANNELS_FIRST))


@case("op")
def conv_backward_data(b: GraphBuilder) -> None:
    attrs = conv_attrs(strides=(2, 2), dst_shape=(2, 15, 15, 16))
    b.op("ConvolutionBackwardData", b.input((2, 8, 8, 24)), b.constant((3, 3, 16, 24)), **attrs)


@case("op")
def conv_backward_weights(b: GraphBuilder) -> None:
    attrs = conv_attrs(weights_shape=(3, 3, 16, 24))
    b.op("ConvolutionBackwardWeights", b.input((2, 9, 9, 16)), b.input((2, 9, 9, 24)), **attrs)


@case("op")
def convtranspose(b: GraphBuilder) -> None:
    attrs = conv_attrs(strides=(2, 2), data_format="NCX", weights_format="IOX", output_padding=(1, 1))
    b.op("ConvTranspose", b.input((2, 16, 7, 7)), b.constant((16, 24, 3, 3)), b.constant((24,)), **attrs)


@case("op")
def convtranspose_backward_data(b: GraphBuilder) -> None:
    b.op("ConvTransposeBackwardData", b.input((2, 13, 13, 24)), b.constant((3, 3, 24, 16)), **conv_attrs(strides=(2, 2)))


@case("op")
def convtranspose_backward_weights(b: GraphBuilder) -> None:
    attrs = conv_attrs(strides=(2, 2), weights_shape=(3, 3, 24, 16))
    b.op("ConvTransposeBackwardWeights", b.input((2, 7, 7, 16)), b.input((2, 13, 13, 24)), **attrs)


@case("op")
def avgpool(b: GraphBuilder) -> None:
    b.op("AvgPool", b.input((2, 14, 14, 33)), exclude_pad=True, **POOL)


@case("op")
def avgpool_channels_first(b: GraphBuilder) -> None:
    b.op("AvgPool", b.input((2, 5, 9, 37)), exclude_pad=False, data_format="NCX", auto_pad="SAME_UPPER", **POOL)


@case("op")
def maxpool(b: GraphBuilder) -> None:
    b.op("MaxPool", b.input((2, 14, 14, 33)), rounding_type="ceil", **POOL)


@case("op")
def maxpool_channels_first(b: GraphBuilder) -> None:
    b.op("MaxPool", b.input((2, 5, 9, 37)), data_format="NCX", dilations=(2, 2), **POOL)


@case("op")
def avgpool_backward(b: GraphBuilder) -> None:
    b.op("AvgPoolBackward", b.input((2, 7, 7, 33)), exclude_pad=True, src_shape=(2, 14, 14, 33), **POOL)


@case("op")
def maxpool_backward(b: GraphBuilder) -> None:
    b.op("MaxPoolBackward", b.input((2, 5, 9, 37)), b.input((2, 5, 5, 19)), data_format="NCX", **POOL)


@case("op")
def interpolate(b: GraphBuilder) -> None:
    b.op("Interpolate", b.input((2, 7, 9, 33)), mode="bilinear", scales=(2.0, 1.5))


@case("op")
def interpolate_nearest(b: GraphBuilder) -> None:
    b.op("Interpolate", b.input((2, 5, 9, 17)), mode="nearest", sizes=(14, 35), data_format="NCX")


@case("op")
def interpolate_backward(b: GraphBuilder) -> None:
    b.op("InterpolateBackward", b.input((2, 7, 9, 33)), b.input((2, 14, 13, 33)), mode="linear", sizes=(14, 13))


# ---- pattern: an anchor and what joins it ----------------------------------------------------------------------------


@case("pattern")
def conv_relu_conv(b: GraphBuilder) -> None:
    x = b.op("Convolution", b.input((2, 12, 12, 16)), b.constant((3, 3, 16, 32)), b.constant((32,)), **conv_attrs())
    b.op("Convolution", b.op("ReLU", x), b.constant((1, 1, 32, 24)), **conv_attrs(pad=0))


@case("pattern")
def conv_batchnorm_add_relu(b: GraphBuilder) -> None:
    x = b.op("Convolution", b.input((2, 8, 14, 14)), b.constant((16, 8, 3, 3)), **conv_attrs(**CHANNELS_FIRST))
    norm = b.op("BatchNormInference", x, *(b.constant((16,)) for _ in range(4)), epsilon=1e-5, data_format="NCX")
    b.op("ReLU", b.op("Add", norm, b.input((2, 16, 14, 14))))


@case("pattern")
def matmul_relu(b: GraphBuilder) -> None:
    b.op("ReLU", layer(b, b.input((64, 48)), 80))


@case("pattern")
def matmul_biasadd_gelu(b: GraphBuilder) -> None:
    x = b.op("MatMul", b.input((64, 48)), b.constant((48, 80)))
    b.op("GELU", b.op("BiasAdd", x, b.constant((80,))))


@case("pattern")
def matmul_post_op_chain(b: GraphBuilder) -> None:
    x = layer(b, b.input((33, 48)), 65)
    x = b.op("Multiply", b.op("Add", x, b.input((33, 65))), b.input((1,)))
    b.op("Maximum", b.op("Tanh", x), b.input((33, 1)))


@case("pattern")
def matmul_interior_end(b: GraphBuilder) -> None:
    x = layer(b, b.input((32, 48)), 64)
    b.op("ReLU", x)
    b.end(x)


@case("pattern", partitions=2)
def two_islands(b: GraphBuilder) -> None:
    b.op("ReLU", layer(b, b.input((32, 48)), 64))
    b.op("SoftMax", b.input((32, 48)), axis=1)


@case("pattern")
def matmul_softmax(b: GraphBuilder) -> None:
    b.op("SoftMax", layer(b, b.input((32, 48)), 100), axis=1)


@case("pattern")
def softmax_scaled(b: GraphBuilder) -> None:
    b.op("Multiply", b.op("SoftMax", b.input((8, 16, 33)), axis=-1), b.input((1,)))


@case("pattern")
def matmul_transpose_reorder(b: GraphBuilder) -> None:
    x = b.op("MatMul", b.input((2, 4, 16, 24)), b.input((2, 4, 24, 8)))
    b.op("Reorder", b.op("StaticTranspose", x, order=(0, 2, 1, 3)))


@case("pattern")
def layernorm_from_basics(b: GraphBuilder) -> None:
    x = b.input((16, 65))
    centred = b.op("Subtract", x, b.op("ReduceMean", x, axes=(1,), keep_dims=True))
    variance = b.op("ReduceMean", b.op("Square", centred), axes=(1,), keep_dims=True)
    deviation = b.op("Sqrt", b.op("Add", variance, b.input((1,))))
    scaled = b.op("Multiply", b.op("Divide", centred, deviation), b.constant((65,)))
    b.op("Add", scaled, b.constant((65,)))


@case("pattern")
def mlp_residual(b: GraphBuilder) -> None:
    x = b.input((32, 64))
    hidden = b.op("GELU", layer(b, x, 128))
    b.op("Add", layer(b, hidden, 64), x)


@case("pattern")
def quantised_matmul_relu(b: GraphBuilder) -> None:
    src = b.op("Dequantize", b.input((32, 48), DType.u8), scales=(SCALE,), zps=(ZERO_POINT,))
    wei = b.op("Dequantize", b.constant((48, 64), DType.s8), scales=(SCALE,), zps=(0,))
    b.op("Quantize", b.op("ReLU", b.op("MatMul", src, wei)), dtype=DType.u8, scales=(SCALE,), zps=(ZERO_POINT,))


@case("pattern")
def maxpool_add_relu(b: GraphBuilder) -> None:
    x = b.op("MaxPool", b.input((2, 16, 15, 15)), data_format="NCX", **POOL)
    b.op("ReLU", b.op("Add", x, b.input(x.known_shape)))


@case("pattern")
def quantised_avgpool(b: GraphBuilder) -> None:
    x = b.op("Dequantize", b.input((2, 9, 9, 24), DType.u8), scales=(SCALE,), zps=(ZERO_POINT,))
    b.op("Quantize", b.op("AvgPool", x, exclude_pad=False, **POOL), dtype=DType.u8, scales=(SCALE,), zps=(ZERO_POINT,))


@case("pattern")
def quantised_concat(b: GraphBuilder) -> None:
    sources = [b.op("Dequantize", b.input((2, n, 17), DType.u8), scales=(SCALE,), zps=(ZERO_POINT,)) for n in (8, 5, 16)]
    b.op("Quantize", b.op("Concat", *sources, axis=1), dtype=DType.u8, scales=(SCALE,), zps=(ZERO_POINT,))


@case("pattern")
def concat_add_relu(b: GraphBuilder) -> None:
    x = b.op("Concat", b.op("Tanh", b.input((4, 8, 33))), b.input((4, 5, 33)), axis=1)
    b.op("ReLU", b.op("Add", x, b.input((4, 13, 33))))


@case("pattern")
def interpolate_multiply_add(b: GraphBuilder) -> None:
    x = b.op("Interpolate", b.input((2, 8, 8, 24)), mode="linear", scales=(2.0, 2.0), coordinate_transformation_mode="align_corners")
    b.op("Add", b.op("Multiply", x, b.input((24,))), b.input(x.known_shape))


@case("pattern")
def matmul_bias_gelu_dropout(b: GraphBuilder) -> None:
    b.op("Dropout", b.op("GELU", layer(b, b.input((33, 48)), 65)), *random_numbers(b))


# ---- complex_fusion: several anchors ---------------------------------------------------------------------------------


@case("complex_fusion")
def attention_transpose_b(b: GraphBuilder) -> None:
    q, k, v = b.input((2, 4, 64, 32)), b.input((2, 4, 64, 32)), b.input((2, 4, 64, 32))
    scores = b.op("MatMul", q, k, transpose_b=True)
    masked = b.op("Add", b.op("Divide", scores, b.input((1,))), b.input((2, 1, 1, 64)))
    b.op("MatMul", b.op("SoftMax", masked, axis=3), v)


@case("complex_fusion")
def attention_no_mask(b: GraphBuilder) -> None:
    q, k, v = b.input((2, 4, 33, 16)), b.input((2, 4, 16, 47)), b.input((2, 4, 47, 16))
    scores = b.op("Multiply", b.op("MatMul", q, k), b.input((1,)))
    b.op("MatMul", b.op("SoftMax", scores, axis=-1), v)


@case("complex_fusion")
def attention_causal_mask(b: GraphBuilder) -> None:
    """Bottom-right aligned: query i sees keys up to i + (number of keys) - (number of queries)."""
    q, k, v = b.input((2, 4, 33, 32)), b.input((2, 4, 47, 32)), b.input((2, 4, 47, 32))
    scores = b.op("Multiply", b.op("MatMul", q, k, transpose_b=True), b.input((1,)))
    keys, queries = (b.input((), DType.s32, property_type=PropertyType.host_scalar) for _ in range(2))
    last = b.op("Subtract", b.op("Add", b.op("GenIndex", scores, axis=-2), keys), queries)
    seen = b.op("GreaterEqual", last, b.op("GenIndex", scores, axis=-1))
    masked = b.op("Select", seen, scores, b.input((1,)))
    b.op("MatMul", b.op("SoftMax", masked, axis=-1, mode="inf_as_zero"), v)


@case("complex_fusion")
def heads_side_by_side(b: GraphBuilder) -> None:
    x = b.input((32, 64))
    heads = [layer(b, x, n) for n in (48, 16, 33)]
    layer(b, b.op("ReLU", b.op("Concat", *heads, axis=-1)), 64)


@case("complex_fusion")
def attention_compressed_keys_and_values(b: GraphBuilder) -> None:
    """s4 keys and values, a scale and zero point for every 16 numbers of a head."""
    q, k, v = b.input((2, 4, 33, 32)), b.input((2, 4, 47, 32), DType.s4), b.input((2, 4, 47, 32), DType.s4)
    scores = b.op("MatMul", q, dequantised(b, k, (1, 1, 1, 16)), transpose_b=True)
    probabilities = b.op("SoftMax", b.op("Divide", scores, b.input((1,))), axis=-1)
    b.op("MatMul", probabilities, dequantised(b, v, (1, 1, 1, 16)))


@case("complex_fusion")
def gated_mlp_u4_weights(b: GraphBuilder) -> None:
    x = b.input((32, 64))
    gate = b.op("MatMul", x, dequantised(b, b.constant((64, 96), DType.u4), (32, 1)))
    up = b.op("MatMul", x, dequantised(b, b.constant((64, 96), DType.u4), (32, 1)))
    swish = b.op("Multiply", gate, b.op("Sigmoid", gate))
    b.op("MatMul", b.op("Multiply", swish, up), dequantised(b, b.constant((96, 64), DType.u4), (32, 1)))


@case("complex_fusion")
def attention_dropout(b: GraphBuilder) -> None:
    q, k, v = b.input((2, 4, 33, 32)), b.input((2, 4, 47, 32)), b.input((2, 4, 47, 32))
    scores = b.op("Multiply", b.op("MatMul", q, k, transpose_b=True), b.input((1,)))
    b.op("MatMul", b.op("Dropout", b.op("SoftMax", scores, axis=-1), *random_numbers(b)), v)


@case("complex_fusion")
def gated_mlp(b: GraphBuilder) -> None:
    x = b.input((32, 64))
    gate = b.op("MatMul", x, b.constant((64, 96)))
    up = b.op("MatMul", x, b.constant((64, 96)))
    swish = b.op("Multiply", gate, b.op("Sigmoid", gate))
    b.op("MatMul", b.op("Multiply", swish, up), b.constant((96, 64)))


# ---- writing ---------------------------------------------------------------------------------------------------------


def write(folder: Path) -> None:
    """All cases and the batch file; running it twice changes nothing."""
    for each in BUILDS:
        path = folder / each.path
        path.parent.mkdir(parents=True, exist_ok=True)
        save(each.graph(), path)
    lines = ["# Correctness of every case here; written by build.py.", *(each.line for each in BUILDS)]
    (folder / "test_ci").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
