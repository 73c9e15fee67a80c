"""round-operands: products of f32 in bf16, where the math mode and the machine allow it and it pays; all else stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from benchgraph.compile import compile_partition
from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.gir.build import CONVERT
from benchgraph.gir.ir import FusedOp, Op
from benchgraph.gir.passes.round_operands import round_operands
from benchgraph.graph.build import GraphBuilder
from benchgraph.harness.buffers import load_inputs
from benchgraph.machine.table import table
from benchgraph.machine.target import ISAS, Target, current
from benchgraph.ops.internal import PAD
from benchgraph.reference import compare, domain, evaluate, tolerance
from tests.support.graph_ir import gir, products, up_to
from tests.support.partitions import partition_of
from tests.support.targets import EMULATED_DOTS, TARGET

BF16, F32, F16 = DType.bf16, DType.f32, DType.f16
Build = Callable[[GraphBuilder], None]
LEAST_USES = table(TARGET).macs_per_converted_element
IN_BF16 = [(BF16, BF16, F32)]
AMX = Target(ISAS["avx512_core_amx"], l1_bytes=48 << 10, l2_bytes=2 << 20, cores=2, machine="granite_rapids")


def under(mode: str, build: Build, target=EMULATED_DOTS):
    return up_to(replace(gir(build), fpmath_mode=mode), "round-operands", target)


def linear(rows: int = LEAST_USES, columns: int = LEAST_USES, dtype: DType = F32, *, is_constant: bool = True) -> Build:
    def build(b: GraphBuilder) -> None:
        b.op("MatMul", b.input((rows, 32), dtype), (b.constant if is_constant else b.input)((32, columns), dtype))

    return build


@pytest.mark.parametrize("mode", ["bf16", "any"])
def test_modes_that_allow_it(mode: str) -> None:
    assert products(under(mode, linear())) == IN_BF16


@pytest.mark.parametrize("mode", ["strict", "f16", "tf32"])
def test_modes_that_do_not(mode: str) -> None:
    assert products(under(mode, linear())) == [(F32, F32, F32)]


def test_a_machine_that_does_not_multiply_bf16_has_nothing_to_gain() -> None:
    assert products(under("bf16", linear(), TARGET)) == [(F32, F32, F32)]


@pytest.mark.parametrize(
    ("build", "pays"),
    [
        (linear(rows=1), True),
        (linear(columns=LEAST_USES - 1), False),
        (linear(is_constant=False), True),
        (linear(rows=LEAST_USES - 1, is_constant=False), False),
    ],
    ids=["constant weights, one row", "few columns", "weights that change", "and few rows"],
)
def test_operands_are_rounded_only_for_enough_rows_and_columns(build: Build, *, pays: bool) -> None:
    assert (products(under("bf16", build)) == IN_BF16) == pays


def test_computed_weights_are_rounded_for_many_rows_only() -> None:
    """They are packed in pairs, which saves half of the steps for each row."""

    def chain(rows: int) -> Build:
        def build(b: GraphBuilder) -> None:
            b.op("MatMul", b.input((rows, 64)), b.op("MatMul", b.input((64, 32)), b.constant((32, LEAST_USES))))

        return build

    assert products(under("bf16", chain(512))) == IN_BF16 * 2
    assert products(under("bf16", chain(32))) == [*IN_BF16, (F32, F32, F32)]


def weights_by_groups(b: GraphBuilder) -> None:
    wei = b.op("Dequantize", b.constant((32, 64), DType.s8), scales=[0.5] * 32, zps=[0] * 32, qtype="per_channel", axis=0)
    b.op("MatMul", b.input((64, 32)), wei)


def from_f16(b: GraphBuilder) -> None:
    b.op("MatMul", *(b.op("TypeCast", b.input((64, 64), F16), dtype=F32) for _ in range(2)))


def single_channels(b: GraphBuilder) -> None:
    x, wei = b.input((1, 2, 9, 9)), b.constant((128, 1, 3, 3))
    pads = {key: [1, 1] for key in ("pads_begin", "pads_end", "strides", "dilations")}
    b.op("Convolution", x, wei, groups=2, data_format="NCX", weights_format="OIX", **pads)


NARROW_ALREADY = {"narrow weights": weights_by_groups, "f16": from_f16, "single channels": single_channels, "f16 itself": linear(dtype=F16)}


@pytest.mark.parametrize("build", NARROW_ALREADY.values(), ids=NARROW_ALREADY)
def test_operands_that_the_mode_does_not_concern_stay(build: Build) -> None:
    g = replace(up_to(gir(build), "low-precision", EMULATED_DOTS), fpmath_mode="bf16")
    assert round_operands(g, EMULATED_DOTS) is g


def test_an_operand_of_several_products_is_rounded_once() -> None:
    def build(b: GraphBuilder) -> None:
        x = b.input((64, 32))
        gate, up = (b.op("MatMul", x, b.constant((32, 64))) for _ in range(2))
        b.op("Multiply", b.op("Sigmoid", gate), up)

    g = under("bf16", build)
    assert products(g) == 2 * IN_BF16
    assert sum(node.kind == CONVERT for node in g.nodes if isinstance(node, Op)) == 3


def test_a_product_with_itself_rounds_once() -> None:
    def build(b: GraphBuilder) -> None:
        x = b.input((64, 64))
        b.op("MatMul", x, x)

    g = under("bf16", build)
    assert (products(g), len(g.nodes)) == (IN_BF16, 2)


@pytest.mark.parametrize("mode", ["bf16", "any"])
def test_it_computes_what_the_mode_allows(mode: str) -> None:
    """Real numbers, which bf16 does not hold: within the mode's tolerance, and beyond that of f32."""
    b = GraphBuilder()
    x = b.op("ReLU", b.op("MatMul", b.input((96, 200)), b.constant((200, 128)), b.constant((128,))))
    b.op("MatMul", x, b.constant((128, 80)))
    graph = replace(b.graph(), fpmath_mode=mode)
    p = partition_of(graph)
    numbers = domain(graph, 0)
    (t,) = graph.outputs
    want = evaluate(graph, numbers)[t.id]
    tensors = load_inputs(graph, numbers)
    out = np.zeros(t.known_shape, np.float32)
    compile_partition(p, replace(current(), cores=2, emulated=EMULATED_DOTS.emulated)).bind([tensors[t.id] for t in p.inputs], [out])()
    assert compare(out, want, t.dtype, tolerance(graph)).ok
    assert not compare(out, want, t.dtype, tolerance(replace(graph, fpmath_mode="strict"))).ok


def block_of_an_image(b: GraphBuilder) -> None:
    """ReLU(1x1 + x), its 3x3 and its 1x1, as in residual networks from ONNX; the 3x3 is padded."""
    none: dict[str, object] = {"strides": [1, 1], "dilations": [1, 1], "data_format": "NCX", "weights_format": "OIX"}

    def convolved(x: LogicalTensor, size: int) -> LogicalTensor:
        pads = [size // 2] * 2
        return b.op("ReLU", b.op("Convolution", x, b.constant((64, 64, size, size)), pads_begin=pads, pads_end=pads, **none))

    x = convolved(b.input((1, 64, 14, 14)), 1)
    y = b.op("ReLU", b.op("Add", convolved(x, 1), x))
    b.op("Add", convolved(convolved(y, 1), 3), y)


def test_a_value_is_rounded_once_in_the_nest_that_makes_it() -> None:
    """Whatever layout ops and padding are between it and its readers; where rows flow on, nests of products become one."""
    g = up_to(replace(gir(block_of_an_image), fpmath_mode="bf16"), "fuse-coarse", AMX)
    stages = [stage for node in g.nodes if isinstance(node, FusedOp) and not g.value(node.outs[0]).is_constant for stage in node.stages]
    of_products = [stage for stage in stages if stage.ops[0].lowering.is_contraction]
    others = [op.kind for stage in stages if stage not in of_products for op in stage.ops]
    assert [op.kind for stage in of_products for op in stage.ops].count(CONVERT) == 3
    assert others == [CONVERT, PAD]  # of the input, and of what has been rounded
    assert len(of_products) == 4
    assert len([node for node in g.nodes if any(stage in of_products for stage in node.stages)]) == 2
