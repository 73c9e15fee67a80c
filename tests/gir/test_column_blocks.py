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
        (matmul(8, 64, 1024), TARGET, 64, "at most the widest register tile, and panels as equal as whole vectors allow"),
        (matmul(256, 1000, 1024, DType.bf16), AMX, 256, "wide calls on tile registers read src less often"),
        (matmul(32, 1024, 1536), replace(TARGET, cores=1), 32, "a wider panel would take too much of L2 for several passes over it"),
        (convolution(1, 8, 32, 160, groups=2), TARGET, 16, "the widest panel that divides the columns of a group"),
        (convolution(2, 32, 512, 512, groups=1), TARGET, 32, "L2 does not hold wider panels, which cost more"),
    ],
    ids=["one panel", "register tile", "wide calls", "several passes", "groups", "L2 blocking"],
)
def test_each_rule_for_columns_has_a_reason_of_its_own(build: Callable[[GraphBuilder], object], target: Target, nb: int, why: str) -> None:
    (stage,) = kernels(scheduled(build, target))
    assert stage.parameters is not None
    (reason,) = (r.text for r in stage.parameters.why if r.parameter == "nb")
    assert stage.parameters.nb == nb
    assert why in reason


def test_weights_that_came_in_other_panels_are_the_reason() -> None:
    g = gir(matmul(8, 64, 1024))
    (op,) = g.ops
    assert columns_reason(product(g, op), 48, TARGET) == "3 vectors of 16: the weights are packed in panels of this width"
