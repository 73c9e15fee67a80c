"""Whole networks, deep enough that data must be scaled from layer to layer: small ones for every day, those of their papers' sizes too."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph import Graph, GraphBuilder

from .case import SCALE, conv_attrs, layer

Tensor = LogicalTensor
FOLDER = "model"


# ---- what they are made of -------------------------------------------------------------------------------------------


def conv(b: GraphBuilder, x: Tensor, n: int, kernel: int = 3, stride: int = 1, groups: int = 1, *, has_bias: bool = False) -> Tensor:
    """A convolution with padding that keeps the size, but for the stride."""
    weights = b.constant((kernel, kernel, x.known_shape[-1] // groups, n))
    bias = (b.constant((n,)),) if has_bias else ()
    return b.op("Convolution", x, weights, *bias, **conv_attrs(pad=kernel // 2, strides=(stride, stride), groups=groups))


def normed(b: GraphBuilder, x: Tensor) -> Tensor:
    """Batch normalisation for inference."""
    return b.op("BatchNormInference", x, *(b.constant(x.known_shape[-1:]) for _ in range(4)), epsilon=1e-5)


def block(b: GraphBuilder, x: Tensor, n: int, kernel: int = 3, stride: int = 1, groups: int = 1, act: str = "ReLU") -> Tensor:
    y = normed(b, conv(b, x, n, kernel, stride, groups))
    return b.op(act, y) if act else y


def pooled(b: GraphBuilder, x: Tensor, size: int = 2) -> Tensor:
    pads = (size % 2,) * 2
    return b.op("MaxPool", x, kernel=(size, size), strides=(2, 2), pads_begin=pads, pads_end=pads)


def mean(b: GraphBuilder, x: Tensor, *, keep: bool = False) -> Tensor:
    return b.op("ReduceMean", x, axes=(1, 2), keep_dims=keep)


def gated(b: GraphBuilder, x: Tensor, act: str, gate: str) -> Tensor:
    """Squeeze and excitation."""
    channels = x.known_shape[-1]
    y = b.op(act, conv(b, mean(b, x, keep=True), max(8, channels // 4), 1, has_bias=True))
    attrs = {"alpha": 1 / 6, "beta": 0.5} if gate == "HardSigmoid" else {}
    return b.op("Multiply", x, b.op(gate, conv(b, y, channels, 1, has_bias=True), **attrs))


def layer_norm(b: GraphBuilder, x: Tensor) -> Tensor:
    return b.op("LayerNorm", x, b.constant(x.known_shape[-1:]), b.constant(x.known_shape[-1:]), keep_stats=False)


def attention(b: GraphBuilder, x: Tensor, heads: int, *, is_causal: bool = False) -> Tensor:
    batch, n, d = x.known_shape

    def head(order: tuple[int, ...]) -> Tensor:
        split = b.op("StaticReshape", layer(b, x, d), shape=(batch, n, heads, d // heads), special_zero=False)
        return b.op("StaticTranspose", split, order=order)

    scores = b.op("MatMul", head((0, 2, 1, 3)), head((0, 2, 3, 1)))
    scores = b.op("Multiply", scores, b.constant((1,)))
    if is_causal:
        scores = b.op("Add", scores, b.input((n, n)))
    context = b.op("MatMul", b.op("SoftMax", scores, axis=-1), head((0, 2, 1, 3)))
    joined = b.op("StaticReshape", b.op("StaticTranspose", context, order=(0, 2, 1, 3)), shape=(batch, n, d), special_zero=False)
    return layer(b, joined, d)


def transformer(b: GraphBuilder, x: Tensor, layers: int, heads: int, *, is_causal: bool = False, norms_first: bool = True) -> Tensor:
    for _ in range(layers):
        d = x.known_shape[-1]
        if norms_first:
            x = b.op("Add", x, attention(b, layer_norm(b, x), heads, is_causal=is_causal))
            x = b.op("Add", x, layer(b, b.op("GELU", layer(b, layer_norm(b, x), 4 * d)), d))
        else:
            x = layer_norm(b, b.op("Add", x, attention(b, x, heads)))
            x = layer_norm(b, b.op("Add", x, layer(b, b.op("GELU", layer(b, x, 4 * d)), d)))
    return x


# ---- the networks ----------------------------------------------------------------------------------------------------


def perceptron(b: GraphBuilder, layers: int = 48, width: int = 64) -> None:
    x = b.input((32, width))
    for _ in range(layers):
        x = b.op("ReLU", layer(b, x, width))


def convolutions(b: GraphBuilder, layers: int = 64, size: int = 8) -> None:
    x = b.input((1, size, size, 16))
    for _ in range(layers):
        x = b.op("ReLU", conv(b, x, 16, has_bias=True))


def resnet(b: GraphBuilder, size: int, width: int, blocks: tuple[int, ...], *, is_bottleneck: bool = False) -> None:
    x = pooled(b, block(b, b.input((1, size, size, 3)), width, 7, 2), 3)
    for stage, count in enumerate(blocks):
        inner, outer = width << stage, (width << stage) * (4 if is_bottleneck else 1)
        for i in range(count):
            stride = 2 if stage and not i else 1
            if is_bottleneck:
                y = block(b, block(b, block(b, x, inner, 1), inner, 3, stride), outer, 1, act="")
            else:
                y = block(b, block(b, x, inner, 3, stride), outer, act="")
            short = x if x.known_shape == y.known_shape else block(b, x, outer, 1, stride, act="")
            x = b.op("ReLU", b.op("Add", y, short))
    layer(b, mean(b, x), 10 if width < 64 else 1000)


def vgg16(b: GraphBuilder, size: int, width: int) -> None:
    x = b.input((1, size, size, 3))
    for stage, count in enumerate((2, 2, 3, 3, 3)):
        for _ in range(count):
            x = b.op("ReLU", conv(b, x, min(width << stage, 8 * width), has_bias=True))
        x = pooled(b, x)
    n = x.type.elements
    x = b.op("StaticReshape", x, shape=(1, n), special_zero=False)
    for _ in range(2):
        x = b.op("ReLU", layer(b, x, 64 * width))
    layer(b, x, 10 if width < 64 else 1000)


# (kernel, expanded, out, whether it is gated, activation, stride), per 16 channels of the first one: MobileNetV3-Large
MOBILE = (
    (3, 16, 16, False, "ReLU", 1), (3, 64, 24, False, "ReLU", 2), (3, 72, 24, False, "ReLU", 1), (5, 72, 40, True, "ReLU", 2),
    (5, 120, 40, True, "ReLU", 1), (5, 120, 40, True, "ReLU", 1), (3, 240, 80, False, "HardSwish", 2), (3, 200, 80, False, "HardSwish", 1),
    (3, 184, 80, False, "HardSwish", 1), (3, 184, 80, False, "HardSwish", 1), (3, 480, 112, True, "HardSwish", 1),
    (3, 672, 112, True, "HardSwish", 1), (5, 672, 160, True, "HardSwish", 2), (5, 960, 160, True, "HardSwish", 1),
    (5, 960, 160, True, "HardSwish", 1),
)  # fmt: skip


def mobilenet(b: GraphBuilder, size: int) -> None:
    x = block(b, b.input((1, size, size, 3)), 16, 3, 2, act="HardSwish")
    for kernel, inner, outer, is_gated, act, stride in MOBILE:
        y = block(b, x, inner, 1, act=act) if inner != x.known_shape[-1] else x
        y = block(b, y, inner, kernel, stride, inner, act)
        y = gated(b, y, "ReLU", "HardSigmoid") if is_gated else y
        y = block(b, y, outer, 1, act="")
        x = b.op("Add", x, y) if x.known_shape == y.known_shape else y
    x = mean(b, block(b, x, 960, 1, act="HardSwish"))
    layer(b, b.op("HardSwish", layer(b, x, 1280)), 1000)


def efficientnet(b: GraphBuilder) -> None:
    x = block(b, b.input((1, 32, 32, 3)), 16, 3, 2, act="ReLU")
    for outer, stride in ((16, 1), (24, 2), (24, 1), (40, 2), (40, 1)):
        inner = 4 * x.known_shape[-1]
        y = normed(b, conv(b, x, inner, 1))
        y = b.op("Multiply", y, b.op("Sigmoid", y))
        y = block(b, y, inner, 3, stride, inner)
        y = block(b, gated(b, y, "ReLU", "Sigmoid"), outer, 1, act="")
        x = b.op("Add", x, y) if x.known_shape == y.known_shape else y
    layer(b, mean(b, x), 10)


def densenet(b: GraphBuilder) -> None:
    x = conv(b, b.input((1, 16, 16, 3)), 16)
    for _ in range(12):
        y = conv(b, b.op("ReLU", normed(b, x)), 32, 1)
        x = b.op("Concat", x, conv(b, b.op("ReLU", normed(b, y)), 8), axis=-1)
    layer(b, mean(b, x), 10)


def unet(b: GraphBuilder) -> None:
    x, kept = b.input((1, 32, 32, 3)), list[Tensor]()
    for width in (8, 16, 32):
        x = block(b, block(b, x, width), width)
        kept.append(x)
        x = pooled(b, x)
    x = block(b, x, 64)
    for width in (32, 16, 8):
        weights = b.constant((2, 2, width, x.known_shape[-1]))
        x = b.op("ConvTranspose", x, weights, **conv_attrs(pad=0, strides=(2, 2)))
        x = block(b, block(b, b.op("Concat", x, kept.pop(), axis=-1), width), width)
    conv(b, x, 2, 1)


def convnext(b: GraphBuilder) -> None:
    x = layer_norm(b, conv(b, b.input((1, 32, 32, 3)), 32, 3, 2))
    for _ in range(8):
        y = layer_norm(b, conv(b, x, 32, 7, groups=32, has_bias=True))
        y = layer(b, b.op("GELU", layer(b, y, 128)), 32)
        x = b.op("Add", x, b.op("Multiply", y, b.constant((32,))))
    layer(b, mean(b, x), 10)


def encoder(b: GraphBuilder, tokens: int, d: int, heads: int) -> None:
    transformer(b, b.input((1, tokens, d)), 12, heads, norms_first=False)


def decoder(b: GraphBuilder) -> None:
    transformer(b, b.input((1, 16, 64)), 8, 4, is_causal=True)


def vit(b: GraphBuilder, patches: int, d: int, heads: int) -> None:
    x = b.op("Add", layer(b, b.input((1, patches + 1, 3 * 16 * 16)), d), b.constant((1, patches + 1, d)))
    layer(b, layer_norm(b, transformer(b, x, 12, heads)), 1000)


def quantised_perceptron(b: GraphBuilder) -> None:
    x = b.input((32, 64), DType.u8)
    for _ in range(24):
        real = b.op("Dequantize", x, scales=(SCALE,), zps=(2,))
        weights = b.op("Dequantize", b.constant((64, 64), DType.s8), qtype="per_channel", axis=1, scales=(0.02,) * 64, zps=(0,) * 64)
        y = b.op("ReLU", b.op("MatMul", real, weights, b.constant((64,))))
        x = b.op("Quantize", y, dtype=DType.u8, scales=(SCALE,), zps=(2,))


# Without coarse fusion, which takes long to compile nests of so many layers.
QUICK = "--policy=post_ops,one_op_each"
SMALL: dict[str, Callable[[GraphBuilder], None]] = {
    "perceptron_48": perceptron,
    "convolutions_64": convolutions,
    "resnet18_small": lambda b: resnet(b, 64, 16, (2, 2, 2, 2)),
    "bottlenecks_small": lambda b: resnet(b, 64, 16, (2, 2, 2, 2), is_bottleneck=True),
    "vgg16_small": lambda b: vgg16(b, 32, 8),
    "mobilenet_v3_small_images": lambda b: mobilenet(b, 32),
    "efficientnet_small": efficientnet,
    "densenet_small": densenet,
    "unet_small": unet,
    "convnext_small": convnext,
    "encoder_12_small": lambda b: encoder(b, 16, 64, 4),
    "decoder_8_small": decoder,
    "quantised_perceptron_24": quantised_perceptron,
}
FULL: dict[str, Callable[[GraphBuilder], None]] = {
    "resnet18": lambda b: resnet(b, 224, 64, (2, 2, 2, 2)),
    "resnet50": lambda b: resnet(b, 224, 64, (3, 4, 6, 3), is_bottleneck=True),
    "vgg16": lambda b: vgg16(b, 224, 64),
    "mobilenet_v3": lambda b: mobilenet(b, 224),
    "vit_b_16": lambda b: vit(b, 196, 768, 12),
    "encoder_12": lambda b: encoder(b, 128, 768, 12),
}


def graphs() -> Iterator[tuple[str, Graph]]:
    """The path of each network's file, relative to inputs/graph, and its graph."""
    for name, build in (SMALL | FULL).items():
        b = GraphBuilder()
        build(b)
        yield f"{FOLDER}/{name}.json", b.graph()


def harness(level: str) -> list[str]:
    """The lines of the batch of small networks, or of all."""
    names = {"ci": SMALL, "all": FULL}[level]
    below = ["--reset --batch=harness_graph_model_ci"] if level == "all" else []
    return [*below, *(f"--reset {QUICK} --case={FOLDER}/{name}.json" for name in names)]
