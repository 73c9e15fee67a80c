"""Products over the same rows are one nest unless two, each with its own order of loops, take less time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.record import recorded
from benchgraph.gir.ir import Graph
from benchgraph.graph.build import GraphBuilder
from benchgraph.machine.target import ISAS, Target
from tests.support.graph_ir import kernels, nests, scheduled
from tests.support.targets import EMULATED_DOTS

GRANITE_RAPIDS = Target(ISAS["avx512_core_amx"], l1_bytes=48 << 10, l2_bytes=2 << 20, cores=2, machine="granite_rapids")


def residual_block(b: GraphBuilder, size: int, channels: int) -> None:
    """ReLU(conv 3x3 + conv 1x1 with a stride), as where a residual network halves its images."""
    x, y = b.input((1, size, size, channels)), b.input((1, 2 * size, 2 * size, channels // 2))
    attrs = {"data_format": "NXC", "weights_format": "XIO", "dilations": [1, 1]}
    wide = b.op("Convolution", x, b.constant((3, 3, channels, channels)), strides=[1, 1], pads_begin=[1, 1], pads_end=[1, 1], **attrs)
    near = b.op("Convolution", y, b.constant((1, 1, channels // 2, channels)), strides=[2, 2], pads_begin=[0, 0], pads_end=[0, 0], **attrs)
    b.op("ReLU", b.op("Add", wide, near))


def products(g: Graph) -> list[int]:
    """Of each nest with products, how many it has."""
    counts = (sum(op.lowering.is_contraction for op in nest.ops) for nest in nests(g))
    return [count for count in counts if count]


@pytest.mark.parametrize(
    ("size", "channels", "cores", "wanted"),
    [(28, 128, 1, [2]), (28, 128, 2, [2]), (14, 256, 2, [1, 1]), (7, 512, 1, [1, 1]), (7, 512, 2, [1, 1])],
)
def test_convolutions_whose_taps_l2_does_not_hold_stay_apart(size: int, channels: int, cores: int, wanted: list[int]) -> None:
    """Weights of 0.6, 2.5 and 10 MB: as one nest, every row of windows would read all of them, 14 windows while they fetch what is next."""
    g = scheduled(lambda b: residual_block(b, size, channels), replace(GRANITE_RAPIDS, cores=cores))
    assert products(g) == wanted
    if wanted == [1, 1]:
        largest = max(kernels(g), key=lambda stage: stage.parameters.k if stage.parameters else 0)
        assert largest.parameters is not None
        assert largest.parameters.panels_first


@pytest.mark.parametrize(("l2_bytes", "wanted"), [(2 << 20, [1, 1]), (64 << 20, [2])])
def test_a_larger_l2_makes_them_one_nest(l2_bytes: int, wanted: list[int]) -> None:
    g = scheduled(lambda b: residual_block(b, 7, 512), replace(GRANITE_RAPIDS, l2_bytes=l2_bytes, cores=1))
    assert products(g) == wanted


def test_the_reason_is_in_microseconds() -> None:
    with recorded() as record:
        scheduled(lambda b: residual_block(b, 7, 512), GRANITE_RAPIDS)
    assert any("as one nest they would take" in note.why and "us, as 2 at most" in note.why for note in record.notes)


def test_layers_whose_weights_l2_holds_are_one_nest() -> None:
    def layers(b: GraphBuilder) -> None:
        b.op("MatMul", b.op("ReLU", b.op("MatMul", b.input((128, 256)), b.constant((256, 256)))), b.constant((256, 256)))

    assert products(scheduled(layers, GRANITE_RAPIDS)) == [2]


def test_products_without_instructions_have_a_time() -> None:
    def layers(b: GraphBuilder) -> None:
        b.op(
            "MatMul", b.op("MatMul", b.input((64, 256), DType.bf16), b.constant((256, 256), DType.bf16)), b.constant((256, 256), DType.bf16)
        )

    assert products(scheduled(layers, EMULATED_DOTS)) == [2]
