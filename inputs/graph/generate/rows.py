"""Ops that need whole rows: softmax, norms, reductions."""

from __future__ import annotations

from functools import partial

from benchgraph.core.dtypes import DType
from benchgraph.graph import GraphBuilder

from .case import NARROW, add, case


@case(
    "op",
    smoke=True,
    ci=(NARROW,),
    sweep=(
        "--in-shapes=0:1x1x1,0:3x5x1,0:3x0x5,0:7x5x129,0:4x16x100*acb",
        "--op-attrs=0:mode:inf_as_zero",
        "--dt=bf16 --in-shapes=0:3x5x33*bac",
    ),
)
def softmax(b: GraphBuilder) -> None:
    b.op("SoftMax", b.input((4, 16, 100)), axis=-1)


@case("op", sweep=(NARROW, "--op-attrs=0:axis:0,0:axis:2", "--in-shapes=0:4x16x33*cab"))
def softmax_middle_axis(b: GraphBuilder) -> None:
    b.op("SoftMax", b.input((4, 16, 33)), axis=1)


@case("op", sweep=(NARROW, "--op-attrs=0:axes:0,0:axes:1*keep_dims:1,0:axes:0x2", "--in-shapes=0:1x1x1,0:16x8x65*cba,0:0x8x65"))
def reduce_sum(b: GraphBuilder) -> None:
    b.op("ReduceSum", b.input((16, 8, 65)), axes=(2,), keep_dims=False)


@case("op", sweep=(NARROW,))
def reduce_max_keep_dims(b: GraphBuilder) -> None:
    b.op("ReduceMax", b.input((16, 8, 65)), axes=(0, 2), keep_dims=True)


@case("op")
def reduce_max_short_rows(b: GraphBuilder) -> None:
    """Every element is often enough the largest for its absence to show."""
    b.op("ReduceMax", b.input((16, 33, 3)), axes=(2,), keep_dims=False)


@case("op", sweep=(NARROW, "--in-shapes=0:16x1,0:129x33*ba"))
def reduce_mean(b: GraphBuilder) -> None:
    b.op("ReduceMean", b.input((16, 65)), axes=(-1,), keep_dims=True)


def _reduction(b: GraphBuilder, kind: str) -> None:
    b.op(kind, b.input((16, 5, 33)), axes=(-1,), keep_dims=True)


for _kind in ("ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"):
    add(__name__, "op", _kind.lower(), partial(_reduction, kind=_kind), sweep=(NARROW, "--op-attrs=0:axes:0x1,0:axes:1*keep_dims:0"))


@case("op", sweep=(NARROW,))
def softmax_stats(b: GraphBuilder) -> None:
    """With the second output, which training keeps."""
    b.outs("SoftMax", b.input((4, 16, 33)), dtypes=(None, DType.f32), axis=-1)


@case("op", sweep=(NARROW, "--op-attrs=0:axis:0,0:axis:1", "--in-shapes=0:4x1x33,0:3x5x129*bca"))
def logsoftmax(b: GraphBuilder) -> None:
    b.op("LogSoftmax", b.input((4, 16, 33)), axis=-1)


@case("op", ci=(NARROW,), sweep=("--in-shapes=0:1x1x100,0:7x33x100*bac", "--op-attrs=0:epsilon:0.01"))
def layernorm(b: GraphBuilder) -> None:
    x = b.input((4, 16, 100))
    b.op("LayerNorm", x, b.constant((100,)), b.constant((100,)), keep_stats=False)


@case("op", sweep=(NARROW,))
def layernorm_stats(b: GraphBuilder) -> None:
    x = b.input((4, 8, 33))
    f32 = DType.f32
    b.outs("LayerNorm", x, b.constant((8, 33)), b.constant((8, 33)), dtypes=(None, f32, f32), begin_norm_axis=1)


@case("op", sweep=(NARROW,))
def layernorm_plain(b: GraphBuilder) -> None:
    b.op("LayerNorm", b.input((33, 65)), keep_stats=False, use_affine=False)


@case("op", sweep=(NARROW, "--in-shapes=0:3x5x65*bac,0:1x1x65"))
def rmsnorm(b: GraphBuilder) -> None:
    b.op("RMSNorm", b.input((4, 16, 65)), b.constant((65,)))


@case("op", sweep=(NARROW,))
def groupnorm(b: GraphBuilder) -> None:
    attrs = {"groups": 4, "keep_stats": False, "data_format": "NCX"}
    b.op("GroupNorm", b.input((2, 12, 5, 7)), b.constant((12,)), b.constant((12,)), **attrs)


@case("op", sweep=(NARROW,))
def groupnorm_channels_last_stats(b: GraphBuilder) -> None:
    f32 = DType.f32
    b.outs("GroupNorm", b.input((2, 5, 7, 12)), b.constant((12,)), b.constant((12,)), dtypes=(None, f32, f32), groups=3)


@case("op", sweep=(NARROW, "--in-shapes=0:1x9x9x33,0:2x1x1x33"))
def batchnorm_inference(b: GraphBuilder) -> None:
    b.op("BatchNormInference", b.input((2, 9, 9, 33)), *(b.constant((33,)) for _ in range(4)), epsilon=1e-5)


@case("op", sweep=(NARROW,))
def batchnorm_training(b: GraphBuilder) -> None:
    operands = [b.input((2, 17, 5, 7)), *(b.input((17,)) for _ in range(4))]
    b.outs("BatchNormForwardTraining", *operands, dtypes=(None, *[DType.f32] * 4), epsilon=1e-5, momentum=0.1, data_format="NCX")
