"""Gradients: backward ops alone, and the backward passes of layers."""

from __future__ import annotations

from functools import partial

from benchgraph.core.dtypes import DType
from benchgraph.graph import GraphBuilder

from .case import NARROW, add, case, conv_attrs

UNARY: dict[str, dict[str, float]] = {
    "AbsBackward": {}, "ClampBackward": {"min": -4.5, "max": 4.5}, "EluBackward": {"alpha": 0.5}, "GELUBackward": {},
    "HardSigmoidBackward": {"alpha": 1 / 6, "beta": 0.5}, "HardSwishBackward": {}, "MishBackward": {}, "ReLUBackward": {},
    "SigmoidBackward": {}, "SoftPlusBackward": {}, "SqrtBackward": {}, "TanhBackward": {},
}  # fmt: skip
VALUES = {
    "GELUBackward": "0:mode:gelu_tanh",
    "SoftPlusBackward": "0:beta:2",
    "HardSigmoidBackward": "0:alpha:0.05*beta:0.4",
    "AbsBackward": "", "HardSwishBackward": "", "MishBackward": "",
}  # fmt: skip
FROM_SRC = "0:use_dst:0"  # the others know both src and dst, from which they can start


def _unary(b: GraphBuilder, kind: str) -> None:
    b.op(kind, b.input((32, 65)), b.input((32, 65)), **UNARY[kind])


for _kind in UNARY:
    _attrs = VALUES.get(_kind, FROM_SRC)
    _sweep = (NARROW, "--in-shapes=0:1+1:1,0:0x65+1:0x65,0:7x129*ba+1:7x129", *([f"--op-attrs={_attrs}"] if _attrs else []))
    add(__name__, "op", _kind.lower(), partial(_unary, kind=_kind), smoke=_kind == "GELUBackward", sweep=_sweep)


@case("op", sweep=(NARROW, "--in-shapes=0:1x8x1x1,0:2x8x5x7*acdb"))
def biasaddbackward(b: GraphBuilder) -> None:
    b.op("BiasAddBackward", b.input((2, 8, 5, 7)), data_format="NCX")


@case("op", sweep=(NARROW,))
def prelubackward(b: GraphBuilder) -> None:
    b.outs("PReLUBackward", b.input((4, 5, 33)), b.input((33,)), b.input((4, 5, 33)), dtypes=(None, None))


@case("op", sweep=(NARROW, "--op-attrs=0:axis:0,0:axis:1"))
def softmaxbackward(b: GraphBuilder) -> None:
    b.op("SoftMaxBackward", b.input((4, 16, 33)), b.input((4, 16, 33)), axis=-1)


@case("op", sweep=(NARROW, "--op-attrs=0:axis:0,0:axis:1"))
def logsoftmaxbackward(b: GraphBuilder) -> None:
    b.op("LogSoftmaxBackward", b.input((4, 16, 33)), b.input((4, 16, 33)), axis=-1)


@case("op", sweep=(NARROW,))
def layernormbackward(b: GraphBuilder) -> None:
    x, diff = b.input((4, 16, 33)), b.input((4, 16, 33))
    rows, columns = [b.input((4, 16)) for _ in range(2)], [b.input((33,)) for _ in range(2)]
    b.outs("LayerNormBackward", x, diff, *rows, *columns, dtypes=(None, DType.f32, DType.f32))


@case("op", sweep=(NARROW,))
def batchnormtrainingbackward(b: GraphBuilder) -> None:
    x, diff = b.input((2, 5, 7, 17)), b.input((2, 5, 7, 17))
    f32 = DType.f32
    b.outs("BatchNormTrainingBackward", x, diff, *(b.input((17,)) for _ in range(3)), dtypes=(None, f32, f32), epsilon=1e-5)


@case("pattern", sweep=(NARROW, "--in-shapes=0:3x48+2:3x67+3:3x67,0:129x48+2:129x67+3:129x67"))
def layer_backward(b: GraphBuilder) -> None:
    """Through a ReLU and a layer: the gradients of data, weights and bias. 67: data of period 13 make columns of 65 alike in all rows."""
    src, wei, dst, diff = b.input((33, 48)), b.input((48, 67)), b.input((33, 67)), b.input((33, 67))
    through = b.op("ReLUBackward", dst, diff)
    b.op("MatMul", through, wei, transpose_b=True)
    b.op("MatMul", src, through, transpose_a=True)
    b.op("BiasAddBackward", through)


@case("pattern", partitions=2, sweep=(NARROW,))
def mlp_backward(b: GraphBuilder) -> None:
    """Two layers; what the first one's gradient needs of the second goes on."""
    src, hidden, wei_0, wei_1 = b.input((33, 48)), b.input((33, 64)), b.input((48, 64)), b.input((64, 40))
    diff = b.input((33, 40))
    b.op("MatMul", b.op("GELU", hidden), diff, transpose_a=True)
    through = b.op("GELUBackward", hidden, b.op("MatMul", diff, wei_1, transpose_b=True))
    b.op("MatMul", src, through, transpose_a=True)
    b.op("MatMul", through, wei_0, transpose_b=True)


@case("complex_fusion", sweep=(NARROW, "--mb=1"))
def attention_training_forward(b: GraphBuilder) -> None:
    """The probabilities leave the graph: the backward pass starts from them."""
    q, k, v = b.input((2, 4, 33, 32)), b.input((2, 4, 32, 47)), b.input((2, 4, 47, 32))
    scores = b.op("Divide", b.op("MatMul", q, k), b.input((1,)))
    probabilities = b.op("SoftMax", b.op("Add", scores, b.input((2, 1, 1, 47))), axis=-1)
    b.end(probabilities)
    b.op("MatMul", probabilities, v)


@case("complex_fusion", partitions=2, sweep=(NARROW, "--mb=1"))
def attention_backward(b: GraphBuilder) -> None:
    """The gradients of queries, keys and values from the saved probabilities."""
    q, k, v = b.input((2, 4, 33, 32)), b.input((2, 4, 47, 32)), b.input((2, 4, 47, 32))
    probabilities, diff, scale = b.input((2, 4, 33, 47)), b.input((2, 4, 33, 32)), b.input((1,))
    b.op("MatMul", probabilities, diff, transpose_a=True)
    scores = b.op("SoftMaxBackward", b.op("MatMul", diff, v, transpose_b=True), probabilities, axis=-1)
    scaled = b.op("Divide", scores, scale)
    b.op("MatMul", scaled, k)
    b.op("MatMul", scaled, q, transpose_a=True)


@case("pattern", sweep=(NARROW,))
def conv_backward(b: GraphBuilder) -> None:
    """Through ReLU, batch normalisation and convolution."""
    src, middle, diff = b.input((2, 9, 9, 16)), b.input((2, 9, 9, 24)), b.input((2, 9, 9, 24))
    through = b.op("ReLUBackward", b.input((2, 9, 9, 24)), diff)
    statistics, f32 = [b.input((24,)) for _ in range(3)], DType.f32
    norm = b.outs("BatchNormTrainingBackward", middle, through, *statistics, dtypes=(None, f32, f32), epsilon=1e-5)[0]
    wei = b.constant((3, 3, 16, 24))
    b.op("ConvolutionBackwardData", norm, wei, **conv_attrs(dst_shape=(2, 9, 9, 16)))
    b.op("ConvolutionBackwardWeights", src, norm, **conv_attrs(weights_shape=(3, 3, 16, 24)))
