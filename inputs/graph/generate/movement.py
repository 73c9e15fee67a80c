"""Ops that move elements: concatenation, transposition, reshaping, copies."""

from __future__ import annotations

from benchgraph.graph import GraphBuilder

from .case import NARROW, case


@case("op", ci=(NARROW,), sweep=("--op-attrs=0:axis:-3", "--in-shapes=0:4x0x15x17,0:4x8x15x17*acdb"))
def concat(b: GraphBuilder) -> None:
    b.op("Concat", b.input((4, 8, 15, 17)), b.input((4, 3, 15, 17)), b.input((4, 1, 15, 17)), axis=1)


@case("op")
def concat_last_axis_strided(b: GraphBuilder) -> None:
    b.op("Concat", b.input((16, 33), strides=(1, 16)), b.input((16, 40), strides=(64, 1)), axis=-1)


@case("op", smoke=True, sweep=(NARROW, "--op-attrs=0:order:3x2x1x0,0:order:0x1x2x3", "--in-shapes=0:2x3x17x8*acdb,0:1x1x1x1,0:2x0x17x8"))
def transpose(b: GraphBuilder) -> None:
    b.op("StaticTranspose", b.input((2, 3, 17, 8)), order=(0, 2, 1, 3))


@case("op", sweep=(NARROW, "--in-shapes=0:4x6x10*cab"))
def reshape(b: GraphBuilder) -> None:
    b.op("StaticReshape", b.input((4, 6, 10)), shape=(0, -1), special_zero=True)


@case("op", sweep=(NARROW, "--in-shapes=0:33x65*ba,0:1x1,0:0x33"))
def reorder(b: GraphBuilder) -> None:
    b.op("Reorder", b.input((16, 33), strides=(1, 16)))


@case("op", sweep=(NARROW,))
def concat_many(b: GraphBuilder) -> None:
    b.op("Concat", *(b.input((3, 1 + n % 3)) for n in range(20)), axis=1)


@case("op", sweep=(NARROW,))
def transpose_strided(b: GraphBuilder) -> None:
    b.op("StaticTranspose", b.input((5, 7, 9), strides=(200, 20, 2)), order=(2, 0, 1))


@case("op", sweep=(NARROW,))
def reshape_to_a_scalar_and_back(b: GraphBuilder) -> None:
    one = b.op("StaticReshape", b.input((1, 1)), shape=(), special_zero=False)
    b.op("StaticReshape", b.op("Tanh", one), shape=(1, 1, 1), special_zero=False)
