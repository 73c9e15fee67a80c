"""int8, f8, s4 and u4: the ops that go there and back, alone and around others."""

from __future__ import annotations

from benchgraph.core.dtypes import DType
from benchgraph.graph import GraphBuilder

from .case import POOL, SCALE, ZERO_POINT, case, conv_attrs, dequantised


@case("op", smoke=True, sweep=("--in-shapes=0:7x129*ba,0:1x1,0:0x33",))
def quantize(b: GraphBuilder) -> None:
    b.op("Quantize", b.input((16, 33)), dtype=DType.u8, scales=(SCALE,), zps=(ZERO_POINT,))


@case("op")
def quantize_per_channel(b: GraphBuilder) -> None:
    b.op("Quantize", b.input((16, 4)), dtype=DType.s8, qtype="per_channel", axis=1, scales=(0.1, 0.2, 0.5, 1.0), zps=(0, 0, 0, 0))


@case("op")
def quantize_saturated(b: GraphBuilder) -> None:
    """A scale so small that many numbers lie beyond the type's range, on both sides."""
    b.op("Quantize", b.input((16, 33)), dtype=DType.s8, scales=(0.01,), zps=(0,))


@case("op", sweep=("--in-shapes=0:7x129*ba,0:1x1,0:0x33",))
def dequantize(b: GraphBuilder) -> None:
    b.op("Dequantize", b.input((16, 33), DType.s8), scales=(SCALE,), zps=(ZERO_POINT,))


@case("op")
def dequantize_per_channel(b: GraphBuilder) -> None:
    b.op("Dequantize", b.input((16, 4), DType.u8), qtype="per_channel", axis=1, scales=(0.1, 0.2, 0.5, 1.0), zps=(3, 0, 128, 7))


@case("op")
def dynamic_dequantize_s4(b: GraphBuilder) -> None:
    """Rows of odd length in memory, so that every other one begins in the middle of a byte."""
    src = b.input((2, 16, 33), DType.s4, strides=(560, 35, 1))
    b.op("DynamicDequantize", src, b.input((16,)), b.input((16,), DType.s4), qtype="per_channel", axis=1)


@case("op")
def dynamic_dequantize_u4(b: GraphBuilder) -> None:
    dequantised(b, b.input((64, 33), DType.u4), (16, 1), DType.bf16)


@case("pattern", smoke=True, sweep=("--in-shapes=0:1x48,0:33x48*ba", "--dt=0:s8"))
def quantised_matmul_relu(b: GraphBuilder) -> None:
    src = b.op("Dequantize", b.input((32, 48), DType.u8), scales=(SCALE,), zps=(ZERO_POINT,))
    wei = b.op("Dequantize", b.constant((48, 64), DType.s8), scales=(SCALE,), zps=(0,))
    b.op("Quantize", b.op("ReLU", b.op("MatMul", src, wei)), dtype=DType.u8, scales=(SCALE,), zps=(ZERO_POINT,))


@case("pattern")
def quantised_avgpool(b: GraphBuilder) -> None:
    x = b.op("Dequantize", b.input((2, 9, 9, 24), DType.u8), scales=(SCALE,), zps=(ZERO_POINT,))
    b.op("Quantize", b.op("AvgPool", x, exclude_pad=False, **POOL), dtype=DType.u8, scales=(SCALE,), zps=(ZERO_POINT,))


@case("pattern")
def quantised_concat(b: GraphBuilder) -> None:
    sources = [b.op("Dequantize", b.input((2, n, 17), DType.u8), scales=(SCALE,), zps=(ZERO_POINT,)) for n in (8, 5, 16)]
    b.op("Quantize", b.op("Concat", *sources, axis=1), dtype=DType.u8, scales=(SCALE,), zps=(ZERO_POINT,))


@case("op")
def quantize_f8_e4m3(b: GraphBuilder) -> None:
    b.op("Quantize", b.input((16, 33)), dtype=DType.f8_e4m3, scales=(0.5,))


@case("op")
def quantize_f8_e5m2(b: GraphBuilder) -> None:
    b.op("Quantize", b.input((16, 33)), dtype=DType.f8_e5m2, scales=(0.5,))


@case("op")
def dequantize_f8_e4m3(b: GraphBuilder) -> None:
    b.op("Dequantize", b.input((16, 33), DType.f8_e4m3), scales=(0.5,))


@case("op")
def dequantize_f8_e5m2(b: GraphBuilder) -> None:
    b.op("Dequantize", b.input((16, 33), DType.f8_e5m2), scales=(0.5,))


@case("op", sweep=("--in-shapes=0:7x129*ba",))
def dynamic_quantize(b: GraphBuilder) -> None:
    b.op("DynamicQuantize", b.input((16, 33)), b.input((1,)), b.input((1,), DType.s32), dtype=DType.u8)


@case("op")
def dynamic_quantize_per_channel(b: GraphBuilder) -> None:
    b.op("DynamicQuantize", b.input((2, 16, 33)), b.input((16,)), dtype=DType.s8, qtype="per_channel", axis=1)


@case("op")
def dynamic_dequantize(b: GraphBuilder) -> None:
    b.op("DynamicDequantize", b.input((16, 33), DType.u8), b.input((1,)), b.input((1,), DType.u8))


@case("pattern", sweep=("--in-shapes=0:1x48,0:65x48",))
def f8_matmul(b: GraphBuilder) -> None:
    src = b.op("Dequantize", b.input((32, 48), DType.f8_e5m2), scales=(0.5,))
    wei = b.op("Dequantize", b.constant((48, 64), DType.f8_e4m3), scales=(0.25,))
    b.op("Quantize", b.op("MatMul", src, wei), dtype=DType.f8_e4m3, scales=(0.5,))


@case("pattern")
def quantised_matmul_bf16(b: GraphBuilder) -> None:
    """int8 on the outside, bf16 in between."""
    src = b.op("Dequantize", b.input((33, 48), DType.u8), scales=(SCALE,), zps=(ZERO_POINT,))
    wei = b.op("Dequantize", b.constant((48, 65), DType.s8), qtype="per_channel", axis=1, scales=(SCALE,) * 65, zps=(0,) * 65)
    narrow = [b.op("TypeCast", t, dtype=DType.bf16) for t in (src, wei)]
    y = b.op("GELU", b.op("MatMul", *narrow, b.constant((65,), DType.bf16)))
    b.op("Quantize", b.op("TypeCast", y, dtype=DType.f32), dtype=DType.u8, scales=(SCALE,), zps=(ZERO_POINT,))


@case("pattern")
def quantised_matmul_sum(b: GraphBuilder) -> None:
    """The residual is quantised too."""
    src = b.op("Dequantize", b.input((32, 48), DType.s8), scales=(SCALE,), zps=(ZERO_POINT,))
    wei = b.op("Dequantize", b.constant((48, 64), DType.s8), scales=(SCALE,), zps=(0,))
    residual = b.op("Dequantize", b.input((32, 64), DType.u8), scales=(SCALE,), zps=(ZERO_POINT,))
    y = b.op("ReLU", b.op("Add", b.op("MatMul", src, wei), residual))
    b.op("Quantize", y, dtype=DType.u8, scales=(SCALE,), zps=(ZERO_POINT,))


@case("pattern")
def quantised_conv_relu(b: GraphBuilder) -> None:
    src = b.op("Dequantize", b.input((2, 9, 9, 16), DType.u8), scales=(SCALE,), zps=(ZERO_POINT,))
    wei = b.op("Dequantize", b.constant((3, 3, 16, 24), DType.s8), qtype="per_channel", axis=3, scales=(SCALE,) * 24, zps=(0,) * 24)
    y = b.op("ReLU", b.op("Convolution", src, wei, b.constant((24,)), **conv_attrs()))
    b.op("Quantize", y, dtype=DType.u8, scales=(SCALE,), zps=(ZERO_POINT,))


@case("pattern")
def quantised_softmax(b: GraphBuilder) -> None:
    x = b.op("SoftMax", b.input((8, 16, 33)), axis=-1)
    b.op("Quantize", x, dtype=DType.u8, scales=(1 / 255,), zps=(0,))


@case("pattern")
def matmul_s4_weights(b: GraphBuilder) -> None:
    b.op("MatMul", b.input((17, 64)), dequantised(b, b.constant((64, 40), DType.s4), (16, 1)))


@case("pattern", sweep=("--in-shapes=0:1x96,0:300x96",))
def matmul_s4_weights_that_change(b: GraphBuilder) -> None:
    """A scale and zero point for every 16 rows of a column; six groups are not whole pieces."""
    b.op("MatMul", b.input((5, 96)), dequantised(b, b.input((96, 80), DType.s4), (16, 1)))


@case("pattern", sweep=("--in-shapes=0:1x40,0:300x40",))
def matmul_s8_weights_that_change(b: GraphBuilder) -> None:
    """A scale and zero point for every column, which are rows in memory."""
    wei = b.op("Dequantize", b.input((130, 40), DType.s8), qtype="per_channel", axis=0, scales=(SCALE,) * 130, zps=(ZERO_POINT,) * 130)
    b.op("MatMul", b.input((9, 40)), wei, transpose_b=True)


@case("pattern")
def matmul_bf16_u4_weights(b: GraphBuilder) -> None:
    wei = dequantised(b, b.constant((64, 40), DType.u4), (32, 1), DType.bf16)
    b.op("MatMul", b.input((17, 64), DType.bf16), wei)
