"""Convolutions of 8-bit integers one after the other, with channels first: what is stored between them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.gir.ir import FusedOp, Graph, Op
from benchgraph.graph.build import GraphBuilder
from benchgraph.machine.target import Target
from benchgraph.tir.groups import BYTES
from tests.gir.quantised import quantised
from tests.support.graph_ir import gir, products, up_to
from tests.support.reference_check import matches_reference
from tests.support.targets import EMULATED_DOTS

CHANNELS = 16  # so few that copying an element for each product would cost more than bytes save


def conv(b: GraphBuilder, x: LogicalTensor, size: int, scale: float) -> LogicalTensor:
    """A convolution of windows of size x size, quantised again."""
    attrs = {"strides": (1, 1), "dilations": (1, 1), "pads_begin": (size // 2,) * 2, "pads_end": (size // 2,) * 2, "data_format": "NCX"}
    wei = quantised(b, b.constant((CHANNELS, x.known_shape[1], size, size), DType.s8), 0.5, 0)
    return again(b, b.op("ReLU", b.op("Convolution", x, wei, weights_format="OIX", **attrs)), scale)


def again(b: GraphBuilder, x: LogicalTensor, scale: float) -> LogicalTensor:
    return quantised(b, b.op("Quantize", x, dtype=DType.u8, scales=[scale], zps=[0], qtype="per_tensor"), scale, 0)


def image(b: GraphBuilder) -> LogicalTensor:
    return quantised(b, b.input((2, 16, 6, 7), DType.u8), 0.25, 0)


def bottleneck(b: GraphBuilder) -> None:
    """A block of ResNet and what follows it: products read the sum, and it is added to another one."""
    x = conv(b, image(b), 1, 8.0)
    for _ in range(2):
        y = conv(b, conv(b, conv(b, x, 1, 64.0), 3, 4096.0), 1, 32768.0)
        x = again(b, b.op("ReLU", b.op("Add", y, x)), 32768.0)
    conv(b, x, 1, 262144.0)


def at_each_execution(g: Graph, *, kind: str = "") -> list[Op]:
    ops = [op for node in g.nodes for op in (node.ops if isinstance(node, FusedOp) else (node,))]
    return [op for op in ops if not g.value(op.outs[0]).is_constant and kind in ("", op.kind)]


def test_products_of_what_products_have_written_are_of_bytes() -> None:
    """Channels come first, but not in memory."""
    assert set(products(up_to(gir(bottleneck), "dead-op", EMULATED_DOTS))) == {BYTES}


def test_padding_does_not_move_channels() -> None:
    g = up_to(gir(bottleneck), "dead-op", EMULATED_DOTS)
    pads = at_each_execution(g, kind="_Pad")
    assert len(pads) == 2
    assert {g.value(g.root(v)).shape[-1] for op in pads for v in (*op.ins, *op.outs)} == {CHANNELS}
    assert not [
        op
        for op in at_each_execution(g)
        if op.lowering.is_layout_op and not {g.root(op.ins[0]), op.outs[0]} & {*g.ins, *g.outs} and op not in pads
    ]


def stored(g: Graph) -> set[DType]:
    """The dtypes of what nests write for each other."""
    return {g.value(v).dtype for node in g.nodes for v in node.outs if v not in g.outs and not g.value(v).is_constant}


def test_nests_store_bytes_for_each_other() -> None:
    """The sum is read as bytes by a product, and as floats by the next sum."""
    g = up_to(gir(bottleneck), "fuse-fine", EMULATED_DOTS)
    assert stored(g) == {DType.u8}
    assert len({v for op in at_each_execution(g) for v in op.outs}) == len(at_each_execution(g)), "each op has a result of its own"


def two_readers(b: GraphBuilder) -> None:
    """Rows, whose floats have one number for both readers."""

    def rows(x: LogicalTensor, scale: float) -> LogicalTensor:
        wei = quantised(b, b.constant((CHANNELS, CHANNELS), DType.s8), 0.5, 0)
        return again(b, b.op("ReLU", b.op("MatMul", x, wei)), scale)

    x = rows(quantised(b, b.input((24, CHANNELS), DType.u8), 0.25, 0), 8.0)
    for kind, scale in (("Add", 64.0), ("Multiply", 4096.0)):
        rows(again(b, b.op(kind, rows(x, 64.0), x), scale), 8 * scale)


def read_by_a_window(b: GraphBuilder) -> None:
    x = conv(b, image(b), 1, 8.0)
    pool = {"kernel": (3, 3), "strides": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1), "data_format": "NCX"}
    b.op("Add", conv(b, x, 1, 64.0), b.op("MaxPool", x, **pool))


@pytest.mark.parametrize("build", [two_readers, read_by_a_window])
def test_what_several_ops_or_a_window_read_stays_in_floats(build: Callable[[GraphBuilder], None]) -> None:
    """A window reads each element several times."""
    assert DType.f32 in stored(up_to(gir(build), "fuse-fine", EMULATED_DOTS))
    assert matches_reference(build)


@pytest.mark.parametrize("target", [None, EMULATED_DOTS], ids=["machine", "emulated"])
def test_results_are_those_of_the_reference(target: Target | None) -> None:
    assert matches_reference(bottleneck, target=target)
