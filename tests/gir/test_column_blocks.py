"""Columns of a microkernel call, and the reason that `benchgraph explain` prints for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.gir.column_blocks import columns_reason
from benchgraph.gir.product import product
from benchgraph.graph.build import GraphBuilder
from benchgraph.machine.target import ISAS, Target
from tests.support.graph_ir import gir, kernels, scheduled
from tests.support.targets import TARGET

ZEN4 = Target(ISAS["avx512_core_bf16"], 32 << 10, 1 << 20, 1, llc_bytes=32 << 20, machine="zen4")
AMX = replace(TARGET, isa=ISAS["avx512_core_amx"])


def matmul(m: int, k: int, n: int, dtype: DType = DType.f32) -> Callable[[GraphBuilder], object]:
    return lambda b: b.op("MatMul", b.input((m, k), dtype), b.constant((k, n), dtype))


def convolution(images: int, side: int, channels: int, columns: int, groups: int) -> Callable[[GraphBuilder], object]:
    window = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
    formats = {"data_format": "NXC", "weights_format": "XIO", "groups": groups}

    def build(b: GraphBuilder) -> object:
        src, wei = b.input((images, side, side, channels)), b.constant((3, 3, channels // groups, columns))
        return b.op("Convolution", src, wei, **window, **formats)

    return build


@pytest.mark.parametrize(
    ("build", "target", "nb", "why"),
    [
        (matmul(8, 64, 48), TARGET, 48, "all 48 columns"),
        (matmul(8, 64, 1024), TARGET, 64, "alone in a nest with 64 columns"),
        (matmul(256, 1000, 1024, DType.bf16), AMX, 256, "alone in a nest with 64 columns"),
        (convolution(1, 8, 32, 160, groups=2), TARGET, 16, "the widest register tile"),
        (convolution(2, 32, 512, 512, groups=1), TARGET, 32, "alone in a nest with 64 columns"),
    ],
    ids=["one panel", "few rows", "rows that are copied once", "groups", "L2 does not hold wide panels"],
)
def test_columns_are_those_of_least_cost(build: Callable[[GraphBuilder], object], target: Target, nb: int, why: str) -> None:
    (stage,) = kernels(scheduled(build, target))
    assert stage.parameters is not None
    (reason,) = (r.text for r in stage.parameters.why if r.parameter == "nb")
    assert stage.parameters.nb == nb
    assert why in reason


def changing(m: int, k: int, n: int, dtype: DType) -> Callable[[GraphBuilder], object]:
    return lambda b: b.op("MatMul", b.input((m, k), dtype), b.input((k, n), dtype))


@pytest.mark.parametrize(
    ("build", "nb", "why"),
    [
        (changing(316, 319, 21, DType.f32), 16, "1 vector of 16: 5% less time in this nest than 32 columns"),
        (changing(1376, 142, 22, DType.bf16), 16, "1 vector of 16: 5% less time in this nest than 32 columns"),
        (changing(256, 512, 512, DType.f32), 64, "4 vectors of 16: the widest register tile"),
        (changing(16, 4096, 14336, DType.f32), 64, "4 vectors of 16: the widest register tile"),
    ],
    ids=["read in place", "packed", "whole vectors", "packed from memory"],
)
def test_weights_that_change_have_columns_of_least_cost_in_their_nest(build: Callable[[GraphBuilder], object], nb: int, why: str) -> None:
    """A Zen 4 multiplies by the 5 columns that 21 are more than 16 in half the time of 16."""
    g = scheduled(build, ZEN4)
    (stage,) = kernels(g)
    assert stage.parameters is not None
    assert stage.parameters.nb == nb
    assert why in next(r.text for r in stage.parameters.why if r.parameter == "nb")
    wei = g.value(stage.ops[0].ins[1])
    assert not wei.layout.blocks or wei.layout.blocks[0][1] == nb


def test_weights_that_came_in_other_panels_are_the_reason() -> None:
    g = gir(matmul(8, 64, 1024))
    (op,) = g.ops
    assert columns_reason(product(g, op), 48, TARGET) == "3 vectors of 16: the weights are packed in panels of this width"
