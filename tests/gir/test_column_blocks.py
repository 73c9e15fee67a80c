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


def test_weights_that_came_in_other_panels_are_the_reason() -> None:
    g = gir(matmul(8, 64, 1024))
    (op,) = g.ops
    assert columns_reason(product(g, op), 48, TARGET) == "3 vectors of 16: the weights are packed in panels of this width"
