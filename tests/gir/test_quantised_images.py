"""Convolutions of 8-bit integers one after the other, with channels first: what is stored between them."""

from __future__ import annotations

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


@pytest.mark.parametrize("target", [None, EMULATED_DOTS], ids=["machine", "emulated"])
def test_results_are_those_of_the_reference(target: Target | None) -> None:
    assert matches_reference(bottleneck, target=target)
