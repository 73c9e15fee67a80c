"""An anchor and what joins it."""

from __future__ import annotations

from benchgraph.graph import GraphBuilder

from .case import CHANNELS_FIRST, NARROW, POOL, case, conv_attrs, layer, random_numbers


@case("pattern", sweep=(NARROW, "--mb=1,5"))
def conv_relu_conv(b: GraphBuilder) -> None:
    x = b.op("Convolution", b.input((2, 12, 12, 16)), b.constant((3, 3, 16, 32)), b.constant((32,)), **conv_attrs())
    b.op("Convolution", b.op("ReLU", x), b.constant((1, 1, 32, 24)), **conv_attrs(pad=0))


@case("pattern", sweep=(NARROW, "--mb=1,5"))
def conv_batchnorm_add_relu(b: GraphBuilder) -> None:
    x = b.op("Convolution", b.input((2, 8, 14, 14)), b.constant((16, 8, 3, 3)), **conv_attrs(**CHANNELS_FIRST))
    norm = b.op("BatchNormInference", x, *(b.constant((16,)) for _ in range(4)), epsilon=1e-5, data_format="NCX")
    b.op("ReLU", b.op("Add", norm, b.input((2, 16, 14, 14))))


@case("pattern", smoke=True, ci=(NARROW,), sweep=("--in-shapes=0:1x48,0:129x48*ba", "--op-kind=1:Tanh,1:GELU,1:Sigmoid,1:Mish,1:HardSwish"))
def matmul_relu(b: GraphBuilder) -> None:
    b.op("ReLU", layer(b, b.input((64, 48)), 80))


@case("pattern", sweep=(NARROW, "--mb=1,5"))
def matmul_biasadd_gelu(b: GraphBuilder) -> None:
    x = b.op("MatMul", b.input((64, 48)), b.constant((48, 80)))
    b.op("GELU", b.op("BiasAdd", x, b.constant((80,))))


@case("pattern", sweep=(NARROW, "--op-kind=1:Subtract,1:Minimum+2:Divide,1:Maximum+4:Add"))
def matmul_post_op_chain(b: GraphBuilder) -> None:
    x = layer(b, b.input((33, 48)), 65)
    x = b.op("Multiply", b.op("Add", x, b.input((33, 65))), b.input((1,)))
    b.op("Maximum", b.op("Tanh", x), b.input((33, 1)))


@case("pattern", sweep=(NARROW, "--mb=1,5"))
def matmul_interior_end(b: GraphBuilder) -> None:
    x = layer(b, b.input((32, 48)), 64)
    b.op("ReLU", x)
    b.end(x)


@case("pattern", partitions=2, sweep=(NARROW,))
def two_islands(b: GraphBuilder) -> None:
    b.op("ReLU", layer(b, b.input((32, 48)), 64))
    b.op("SoftMax", b.input((32, 48)), axis=1)


@case("pattern", sweep=(NARROW, "--mb=1,5"))
def matmul_softmax(b: GraphBuilder) -> None:
    b.op("SoftMax", layer(b, b.input((32, 48)), 100), axis=1)


@case("pattern", sweep=(NARROW, "--mb=1,5"))
def softmax_scaled(b: GraphBuilder) -> None:
    b.op("Multiply", b.op("SoftMax", b.input((8, 16, 33)), axis=-1), b.input((1,)))


@case("pattern", sweep=(NARROW, "--mb=1,5"))
def matmul_transpose_reorder(b: GraphBuilder) -> None:
    x = b.op("MatMul", b.input((2, 4, 16, 24)), b.input((2, 4, 24, 8)))
    b.op("Reorder", b.op("StaticTranspose", x, order=(0, 2, 1, 3)))


@case("pattern", sweep=(NARROW,))
def layernorm_from_basics(b: GraphBuilder) -> None:
    x = b.input((16, 65))
    centred = b.op("Subtract", x, b.op("ReduceMean", x, axes=(1,), keep_dims=True))
    variance = b.op("ReduceMean", b.op("Square", centred), axes=(1,), keep_dims=True)
    deviation = b.op("Sqrt", b.op("Add", variance, b.input((1,))))
    scaled = b.op("Multiply", b.op("Divide", centred, deviation), b.constant((65,)))
    b.op("Add", scaled, b.constant((65,)))


@case("pattern", sweep=(NARROW, "--mb=1,7,129"))
def mlp_residual(b: GraphBuilder) -> None:
    x = b.input((32, 64))
    hidden = b.op("GELU", layer(b, x, 128))
    b.op("Add", layer(b, hidden, 64), x)


@case("pattern", sweep=(NARROW, "--mb=1,5"))
def maxpool_add_relu(b: GraphBuilder) -> None:
    x = b.op("MaxPool", b.input((2, 16, 15, 15)), data_format="NCX", **POOL)
    b.op("ReLU", b.op("Add", x, b.input(x.known_shape)))


@case("pattern", sweep=(NARROW, "--mb=1,5"))
def concat_add_relu(b: GraphBuilder) -> None:
    x = b.op("Concat", b.op("Tanh", b.input((4, 8, 33))), b.input((4, 5, 33)), axis=1)
    b.op("ReLU", b.op("Add", x, b.input((4, 13, 33))))


@case("pattern", sweep=(NARROW, "--mb=1,5"))
def interpolate_multiply_add(b: GraphBuilder) -> None:
    x = b.op("Interpolate", b.input((2, 8, 8, 24)), mode="linear", scales=(2.0, 2.0), coordinate_transformation_mode="align_corners")
    b.op("Add", b.op("Multiply", x, b.input((24,))), b.input(x.known_shape))


@case("pattern", sweep=(NARROW, "--mb=1,5"))
def matmul_bias_dropout_add(b: GraphBuilder) -> None:
    """The end of a transformer's block in training; the residual."""
    b.op("Add", b.op("Dropout", layer(b, b.input((33, 48)), 65), *random_numbers(b)), b.input((33, 65)))


@case("pattern", sweep=(NARROW, "--mb=1"))
def conv_depthwise_pointwise(b: GraphBuilder) -> None:
    """A separable convolution, as mobile networks have it."""
    x = b.op("Convolution", b.input((2, 9, 9, 32)), b.constant((3, 3, 1, 32)), **conv_attrs(groups=32))
    b.op(
        "Clamp", b.op("Convolution", b.op("Clamp", x, min=0.0, max=6.0), b.constant((1, 1, 32, 48)), **conv_attrs(pad=0)), min=0.0, max=6.0
    )


@case("pattern", sweep=(NARROW, "--mb=1,5"))
def matmul_swish(b: GraphBuilder) -> None:
    x = layer(b, b.input((33, 48)), 65)
    b.op("Multiply", x, b.op("Sigmoid", x))


@case("pattern", sweep=(NARROW, "--mb=1,5"))
def matmul_layernorm(b: GraphBuilder) -> None:
    x = b.input((33, 48))
    y = b.op("Add", layer(b, b.input((33, 64)), 48), x)
    b.op("LayerNorm", y, b.constant((48,)), b.constant((48,)), keep_stats=False)


@case("pattern", sweep=(NARROW, "--mb=1,5"))
def rmsnorm_matmul(b: GraphBuilder) -> None:
    b.op("MatMul", b.op("RMSNorm", b.input((33, 64)), b.constant((64,))), b.constant((64, 48)))


@case("pattern", sweep=(NARROW, "--mb=1,5"))
def groupnorm_swish(b: GraphBuilder) -> None:
    x = b.input((2, 5, 5, 16))
    y = b.op("GroupNorm", x, b.constant((16,)), b.constant((16,)), groups=4, keep_stats=False)
    b.op("Multiply", y, b.op("Sigmoid", y))


@case("pattern", sweep=(NARROW, "--mb=1,5"))
def reduce_of_a_chain(b: GraphBuilder) -> None:
    """The reduction's operand is never written down."""
    b.op("ReduceSum", b.op("SquaredDifference", b.op("Exp", b.input((16, 65))), b.input((65,))), axes=(1,), keep_dims=False)


@case("pattern", sweep=(NARROW,))
def matmul_prelu(b: GraphBuilder) -> None:
    b.op("PReLU", layer(b, b.input((33, 48)), 65), b.constant((65,)))


@case("pattern", sweep=(NARROW,))
def value_used_three_times(b: GraphBuilder) -> None:
    x = layer(b, b.input((33, 48)), 65)
    b.op("Add", b.op("Multiply", x, b.op("Sigmoid", x)), x)
