"""Ops that work element by element."""

from __future__ import annotations

from functools import partial

from benchgraph.core.dtypes import DType
from benchgraph.graph import GraphBuilder

from .case import NARROW, add, case, random_numbers

UNARY: dict[str, dict[str, float]] = {
    "Abs": {}, "Clamp": {"min": -1.0, "max": 1.0}, "Elu": {"alpha": 0.5}, "Exp": {}, "GELU": {},
    "HardSigmoid": {"alpha": 1 / 6, "beta": 0.5}, "HardSwish": {}, "LeakyReLU": {"alpha": 0.01}, "Log": {}, "Mish": {},
    "Pow": {"beta": 2.0}, "Reciprocal": {}, "ReLU": {}, "Round": {}, "Sigmoid": {}, "SoftPlus": {}, "Sqrt": {}, "Square": {}, "Tanh": {},
}  # fmt: skip
SHAPES = "--in-shapes=0:1,0:-,0:0x100,0:7x129*ba,0:3x5x17*17x51x1"  # one element, a scalar, none, column-major, the middle dim outermost
VALUES = {
    "Clamp": ("--op-attrs=0:min:0*max:6",),
    "Elu": ("--op-attrs=0:alpha:1",),
    "GELU": ("--op-attrs=0:mode:gelu_tanh",),
    "HardSigmoid": ("--op-attrs=0:alpha:0.2*beta:0",),
    "LeakyReLU": ("--op-attrs=0:alpha:0,0:alpha:2",),
    "Pow": ("--op-attrs=0:beta:0,0:beta:1,0:beta:-1,0:beta:0.5,0:beta:3",),
    "SoftPlus": ("--op-attrs=0:beta:2,0:beta:-1",),
}


def _unary(b: GraphBuilder, kind: str) -> None:
    b.op(kind, b.input((64, 100)), **UNARY[kind])


for _kind in UNARY:
    _sweep = (NARROW, SHAPES, "--dt=bf16 --in-shapes=0:7x129*ba", *VALUES.get(_kind, ()))
    add(__name__, "op", _kind.lower(), partial(_unary, kind=_kind), smoke=_kind == "ReLU", sweep=_sweep)


def _binary(b: GraphBuilder, kind: str) -> None:
    b.op(kind, b.input((32, 65)), b.input((65,)))


for _kind in ("SquaredDifference", "Minimum", "GreaterEqual"):
    add(__name__, "op", _kind.lower(), partial(_binary, kind=_kind), sweep=(NARROW, "--in-shapes=1:1,0:32x65*ba,0:1x65+1:32x65"))


@case("op", sweep=(NARROW, "--in-shapes=0:2x8x1x7,0:2x8x5x7*acdb"))
def biasadd(b: GraphBuilder) -> None:
    b.op("BiasAdd", b.input((2, 8, 5, 7)), b.constant((8,)), data_format="NCX")


@case(
    "op",
    smoke=True,
    sweep=(NARROW, "--in-shapes=0:1+1:7x129,0:0x1x33,0:16x1x33*cab", "--dt=0:bf16,1:bf16", "--op-kind=0:Multiply,0:Maximum,0:Minimum"),
)
def add_broadcast(b: GraphBuilder) -> None:
    b.op("Add", b.input((8, 1, 33)), b.input((16, 1)))


@case("op", sweep=(NARROW,))
def subtract(b: GraphBuilder) -> None:
    b.op("Subtract", b.input((32, 65)), b.input((32, 65)))


@case("op", sweep=(NARROW,))
def multiply_scalar(b: GraphBuilder) -> None:
    b.op("Multiply", b.input((32, 65)), b.input((1,)))


@case("op", sweep=(NARROW,))
def divide_rows(b: GraphBuilder) -> None:
    b.op("Divide", b.input((32, 65)), b.input((32, 1)))


@case("op", sweep=(NARROW,))
def maximum(b: GraphBuilder) -> None:
    b.op("Maximum", b.input((7, 129)), b.input((129,)))


@case("op", sweep=(NARROW,))
def exp_strided(b: GraphBuilder) -> None:
    b.op("Exp", b.input((16, 33), strides=(1, 16)))


@case("op", sweep=(NARROW,))
def select(b: GraphBuilder) -> None:
    b.op("Select", b.input((4, 1, 33), DType.boolean), b.input((4, 16, 33)), b.input((1,)))


@case("op", sweep=(NARROW,))
def dropout(b: GraphBuilder) -> None:
    b.op("Dropout", b.input((4, 16, 33)), *random_numbers(b))


@case("op")
def dropout_mask(b: GraphBuilder) -> None:
    b.outs("Dropout", b.input((7, 129), strides=(1, 7)), *random_numbers(b), dtypes=(None, DType.u8))


@case("op", sweep=(NARROW,))
def genindex(b: GraphBuilder) -> None:
    b.op("GenIndex", b.input((2, 16, 33, 40)), axis=-2)


@case("op", sweep=("--dt=1:f16", "--dt=0:bf16+1:f32", "--dt=0:f16+1:f32", "--in-shapes=0:7x129*ba,0:1x1,0:0x33"))
def typecast(b: GraphBuilder) -> None:
    b.op("TypeCast", b.input((16, 33)), dtype=DType.bf16)


@case("op")
def add_integers(b: GraphBuilder) -> None:
    b.op("Add", b.input((7, 33), DType.s32), b.input((33,), DType.s32))


@case("op", sweep=(NARROW, "--op-attrs=0:per_channel_broadcast:0"))
def prelu(b: GraphBuilder) -> None:
    b.op("PReLU", b.input((4, 5, 33)), b.constant((33,)))


@case("op", sweep=(NARROW,))
def prelu_channels_first(b: GraphBuilder) -> None:
    b.op("PReLU", b.input((2, 5, 3, 33)), b.constant((5,)), data_format="NCX")
