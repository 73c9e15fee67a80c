"""Several anchors: perceptrons, attention with its masks, blocks of networks."""

from __future__ import annotations

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor, PropertyType
from benchgraph.graph import GraphBuilder

from .case import NARROW, SCALE, ZERO_POINT, case, conv_attrs, dequantised, layer, random_numbers

LAYERS = (13, 512, 256, 128)


@case(smoke=True, ci=(NARROW, "--mb=1,33"), sweep=("--mb=1,512 --dt=bf16", "--attr-fpmath=bf16"))
def mlp(b: GraphBuilder) -> None:
    x = b.input((128, LAYERS[0]))
    for i, n in enumerate(LAYERS[1:]):
        x = b.op("ReLU", layer(b, x, n, f"matmul_{i}"), name=f"relu_{i}")


@case(smoke=True, sweep=(NARROW, "--mb=1,2"))
def attention(b: GraphBuilder) -> None:
    q, k, v = b.input((4, 8, 128, 64)), b.input((4, 8, 64, 128)), b.input((4, 8, 128, 64))
    scores = b.op("MatMul", q, k, name="scores")
    scaled = b.op("Divide", scores, b.input((1,)), name="scale")
    masked = b.op("Add", scaled, b.input((4, 1, 1, 128)), name="mask")
    context = b.op("MatMul", b.op("SoftMax", masked, axis=3, name="probabilities"), v, name="context")
    b.op("Reorder", b.op("StaticTranspose", context, order=(0, 2, 1, 3), name="heads_last"), name="contiguous")


@case(smoke=True, sweep=("--mb=1,33",))
def quantised_mlp(b: GraphBuilder) -> None:
    x = b.input((128, LAYERS[0]), DType.u8)
    for n in LAYERS[1:]:
        src = b.op("Dequantize", x, qtype="per_tensor", scales=(SCALE,), zps=(ZERO_POINT,))
        wei = b.constant((x.known_shape[-1], n), DType.s8)
        real = b.op("Dequantize", wei, qtype="per_channel", axis=1, scales=(SCALE,) * n, zps=(0,) * n)
        y = b.op("ReLU", b.op("MatMul", src, real, b.constant((n,))))
        x = b.op("Quantize", y, dtype=DType.u8, qtype="per_tensor", scales=(SCALE,), zps=(ZERO_POINT,))


@case("complex_fusion", sweep=(NARROW, "--mb=1,3"))
def attention_transpose_b(b: GraphBuilder) -> None:
    q, k, v = b.input((2, 4, 64, 32)), b.input((2, 4, 64, 32)), b.input((2, 4, 64, 32))
    scores = b.op("MatMul", q, k, transpose_b=True)
    masked = b.op("Add", b.op("Divide", scores, b.input((1,))), b.input((2, 1, 1, 64)))
    b.op("MatMul", b.op("SoftMax", masked, axis=3), v)


@case("complex_fusion", sweep=(NARROW, "--mb=1,3"))
def attention_no_mask(b: GraphBuilder) -> None:
    q, k, v = b.input((2, 4, 33, 16)), b.input((2, 4, 16, 47)), b.input((2, 4, 47, 16))
    scores = b.op("Multiply", b.op("MatMul", q, k), b.input((1,)))
    b.op("MatMul", b.op("SoftMax", scores, axis=-1), v)


@case("complex_fusion", sweep=(NARROW, "--mb=1,3"))
def attention_causal_mask(b: GraphBuilder) -> None:
    """Bottom-right aligned: query i sees keys up to i + (number of keys) - (number of queries)."""
    q, k, v = b.input((2, 4, 33, 32)), b.input((2, 4, 47, 32)), b.input((2, 4, 47, 32))
    scores = b.op("Multiply", b.op("MatMul", q, k, transpose_b=True), b.input((1,)))
    keys, queries = (b.input((), DType.s32, property_type=PropertyType.host_scalar) for _ in range(2))
    last = b.op("Subtract", b.op("Add", b.op("GenIndex", scores, axis=-2), keys), queries)
    seen = b.op("GreaterEqual", last, b.op("GenIndex", scores, axis=-1))
    masked = b.op("Select", seen, scores, b.input((1,)))
    b.op("MatMul", b.op("SoftMax", masked, axis=-1, mode="inf_as_zero"), v)


@case("complex_fusion", sweep=(NARROW, "--mb=1,3"))
def heads_side_by_side(b: GraphBuilder) -> None:
    x = b.input((32, 64))
    heads = [layer(b, x, n) for n in (48, 16, 33)]
    layer(b, b.op("ReLU", b.op("Concat", *heads, axis=-1)), 64)


@case("complex_fusion", sweep=("--mb=1,3",))
def attention_compressed_keys_and_values(b: GraphBuilder) -> None:
    """s4 keys and values, a scale and zero point for every 16 numbers of a head."""
    q, k, v = b.input((2, 4, 33, 32)), b.input((2, 4, 47, 32), DType.s4), b.input((2, 4, 47, 32), DType.s4)
    scores = b.op("MatMul", q, dequantised(b, k, (1, 1, 1, 16)), transpose_b=True)
    probabilities = b.op("SoftMax", b.op("Divide", scores, b.input((1,))), axis=-1)
    b.op("MatMul", probabilities, dequantised(b, v, (1, 1, 1, 16)))


@case("complex_fusion", sweep=("--mb=1,3",))
def gated_mlp_u4_weights(b: GraphBuilder) -> None:
    x = b.input((32, 64))
    gate = b.op("MatMul", x, dequantised(b, b.constant((64, 96), DType.u4), (32, 1)))
    up = b.op("MatMul", x, dequantised(b, b.constant((64, 96), DType.u4), (32, 1)))
    swish = b.op("Multiply", gate, b.op("Sigmoid", gate))
    b.op("MatMul", b.op("Multiply", swish, up), dequantised(b, b.constant((96, 64), DType.u4), (32, 1)))


@case("complex_fusion", sweep=("--mb=1,3,300", "--mb=1 --dt=bf16"))
def gated_mlp_f16_weights_that_change(b: GraphBuilder) -> None:
    """Weights that are converted at every execution, in pieces whose rows and columns come out even nowhere."""
    x, wide, narrow = b.input((7, 70), DType.f16), (70, 600), (600, 70)
    gate = b.op("MatMul", x, b.input(wide, DType.f16))
    up = b.op("MatMul", x, b.input(wide, DType.f16))
    b.op("MatMul", b.op("Multiply", b.op("GELU", gate), up), b.input(narrow, DType.f16))


@case("complex_fusion", sweep=(NARROW, "--mb=1,3"))
def attention_dropout(b: GraphBuilder) -> None:
    q, k, v = b.input((2, 4, 33, 32)), b.input((2, 4, 47, 32)), b.input((2, 4, 47, 32))
    scores = b.op("Multiply", b.op("MatMul", q, k, transpose_b=True), b.input((1,)))
    b.op("MatMul", b.op("Dropout", b.op("SoftMax", scores, axis=-1), *random_numbers(b)), v)


@case("complex_fusion", sweep=(NARROW, "--mb=1,3"))
def gated_mlp(b: GraphBuilder) -> None:
    x = b.input((32, 64))
    gate = b.op("MatMul", x, b.constant((64, 96)))
    up = b.op("MatMul", x, b.constant((64, 96)))
    swish = b.op("Multiply", gate, b.op("Sigmoid", gate))
    b.op("MatMul", b.op("Multiply", swish, up), b.constant((96, 64)))


@case("complex_fusion", sweep=(NARROW, "--mb=1,3"))
def attention_select_mask(b: GraphBuilder) -> None:
    """A mask of booleans, one per query and key."""
    q, k, v = b.input((2, 4, 33, 32)), b.input((2, 4, 32, 47)), b.input((2, 4, 47, 32))
    scores = b.op("Divide", b.op("MatMul", q, k), b.input((1,)))
    masked = b.op("Select", b.input((2, 1, 33, 47), DType.boolean), scores, b.input((1,)))
    b.op("MatMul", b.op("SoftMax", masked, axis=-1), v)


@case("complex_fusion", sweep=(NARROW, "--mb=1,3"))
def attention_full_mask(b: GraphBuilder) -> None:
    """An addend for every query and key, the same for all heads."""
    q, k, v = b.input((2, 4, 33, 32)), b.input((2, 4, 32, 47)), b.input((2, 4, 47, 32))
    masked = b.op("Add", b.op("Multiply", b.op("MatMul", q, k), b.input((1,))), b.input((2, 1, 33, 47)))
    b.op("MatMul", b.op("SoftMax", masked, axis=-1), v)


@case("complex_fusion", sweep=(NARROW,))
def attention_causal_mask_top_left(b: GraphBuilder) -> None:
    """Query i sees keys up to i."""
    q, k, v = b.input((2, 4, 33, 32)), b.input((2, 4, 32, 33)), b.input((2, 4, 33, 32))
    scores = b.op("Multiply", b.op("MatMul", q, k), b.input((1,)))
    seen = b.op("GreaterEqual", b.op("GenIndex", scores, axis=-2), b.op("GenIndex", scores, axis=-1))
    b.op("MatMul", b.op("SoftMax", b.op("Select", seen, scores, b.input((1,))), axis=-1), v)


@case("complex_fusion", sweep=(NARROW, "--mb=1,3"))
def attention_grouped_queries(b: GraphBuilder) -> None:
    """Four query heads share a head of keys and values."""
    q, k, v = b.input((2, 2, 4, 33, 16)), b.input((2, 2, 1, 16, 47)), b.input((2, 2, 1, 47, 16))
    scores = b.op("Divide", b.op("MatMul", q, k), b.input((1,)))
    b.op("MatMul", b.op("SoftMax", scores, axis=-1), v)


@case("complex_fusion", sweep=(NARROW, "--mb=1,3"))
def attention_heads_in_columns(b: GraphBuilder) -> None:
    """One head of keys and values; the queries of four heads lie side by side, and are what the softmax runs over."""
    k, q, v = b.input((2, 33, 16)), b.input((2, 16, 4 * 47)), b.input((2, 32, 33))
    wide = b.op("StaticReshape", b.op("MatMul", k, q), shape=(2, 33, 4, 47), special_zero=False)
    masked = b.op("Add", b.op("StaticTranspose", wide, order=(0, 2, 1, 3)), b.input((2, 4, 33, 47)))
    back = b.op("StaticTranspose", b.op("SoftMax", masked, axis=-1), order=(0, 2, 1, 3))
    b.op("MatMul", v, b.op("StaticReshape", back, shape=(2, 33, 4 * 47), special_zero=False))


@case("complex_fusion", sweep=("--mb=1,3",))
def attention_heads_in_columns_int8(b: GraphBuilder) -> None:
    """The same, with u8 keys, queries, probabilities and values."""

    def real(shape: tuple[int, ...]) -> LogicalTensor:
        return b.op("Dequantize", b.input(shape, DType.u8), scales=(SCALE,), zps=(128,))

    scores = b.op("Divide", b.op("MatMul", real((2, 33, 16)), real((2, 16, 4 * 47))), b.input((1,)))
    apart = b.op("StaticTranspose", b.op("StaticReshape", scores, shape=(2, 33, 4, 47), special_zero=False), order=(0, 2, 1, 3))
    stored = b.op("Quantize", b.op("SoftMax", apart, axis=-1), dtype=DType.u8, scales=(1 / 255,), zps=(0,))
    back = b.op("StaticTranspose", b.op("Dequantize", stored, scales=(1 / 255,), zps=(0,)), order=(0, 2, 1, 3))
    context = b.op("MatMul", real((2, 32, 33)), b.op("StaticReshape", back, shape=(2, 33, 4 * 47), special_zero=False))
    b.op("Quantize", context, dtype=DType.u8, scales=(SCALE,), zps=(128,))


@case("complex_fusion", sweep=(NARROW, "--mb=1,3"))
def attention_softcap(b: GraphBuilder) -> None:
    """Scores are kept between two bounds by a tanh."""
    q, k, v = b.input((2, 4, 33, 32)), b.input((2, 4, 32, 47)), b.input((2, 4, 47, 32))
    scores = b.op("Multiply", b.op("MatMul", q, k), b.input((1,)))
    capped = b.op("Multiply", b.op("Tanh", scores), b.input((1,)))
    b.op("MatMul", b.op("SoftMax", capped, axis=-1), v)


@case("complex_fusion", sweep=("--mb=1,3",))
def attention_int8(b: GraphBuilder) -> None:
    """u8 queries, keys, probabilities and values; f32 in between."""

    def real(shape: tuple[int, ...]) -> LogicalTensor:
        return b.op("Dequantize", b.input(shape, DType.u8), scales=(SCALE,), zps=(128,))

    q, k, v = real((2, 4, 33, 32)), real((2, 4, 32, 47)), real((2, 4, 47, 32))
    masked = b.op("Add", b.op("Divide", b.op("MatMul", q, k), b.input((1,))), b.input((2, 1, 1, 47)))
    stored = b.op("Quantize", b.op("SoftMax", masked, axis=-1), dtype=DType.u8, scales=(1 / 255,), zps=(0,))
    context = b.op("MatMul", b.op("Dequantize", stored, scales=(1 / 255,), zps=(0,)), v)
    b.op("Quantize", context, dtype=DType.u8, scales=(SCALE,), zps=(128,))


@case("complex_fusion", sweep=(NARROW, "--mb=1,3"))
def transformer_feed_forward(b: GraphBuilder) -> None:
    """Norm, two layers, residual."""
    x = b.input((33, 64))
    y = b.op("LayerNorm", x, b.constant((64,)), b.constant((64,)), keep_stats=False)
    b.op("Add", layer(b, b.op("GELU", layer(b, y, 128)), 64), x)


@case("complex_fusion", sweep=(NARROW, "--mb=1,3"))
def bottleneck(b: GraphBuilder) -> None:
    """A residual block of three convolutions."""
    x = b.input((2, 9, 9, 32))
    y = b.op("ReLU", b.op("Convolution", x, b.constant((1, 1, 32, 16)), b.constant((16,)), **conv_attrs(pad=0)))
    y = b.op("ReLU", b.op("Convolution", y, b.constant((3, 3, 16, 16)), b.constant((16,)), **conv_attrs()))
    y = b.op("Convolution", y, b.constant((1, 1, 16, 32)), b.constant((32,)), **conv_attrs(pad=0))
    b.op("ReLU", b.op("Add", y, x))
