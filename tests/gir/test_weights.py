"""Weights that are stored narrower than they are multiplied: which op converts them, where, and in blocks of which size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.gir.passes import PIPELINE
from benchgraph.graph.build import GraphBuilder
from benchgraph.machine.table import table
from benchgraph.machine.target import ISAS, Target
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions
from tests.support.graph_ir import kernels, nests, scheduled
from tests.support.partitions import Build, graph_of
from tests.support.targets import TARGET


def gated(b: GraphBuilder, rows: int = 16, dtype: DType = DType.f16) -> None:
    x = b.input((rows, 256), dtype)
    gate, up = (b.op("MatMul", x, b.input((256, 2048), dtype)) for _ in range(2))
    b.op("MatMul", b.op("Multiply", b.op("GELU", gate), up), b.input((2048, 256), dtype))


def grouped(b: GraphBuilder, rows: int = 1, k: int = 256, group: int = 32, dtype: DType = DType.s4) -> LogicalTensor:
    scales, zps = b.input((k // group, 1024)), b.input((k // group, 1024), dtype)
    wei = b.op("DynamicDequantize", b.input((k, 1024), dtype), scales, zps, qtype="per_group", group_shape=(group, 1))
    return b.op("MatMul", b.input((rows, k)), wei)


def per_channel(b: GraphBuilder, rows: int = 1) -> None:
    wei = b.op("Dequantize", b.input((256, 1024), DType.s8), qtype="per_channel", axis=1, scales=(0.5,) * 1024, zps=(3,) * 1024)
    b.op("MatMul", b.input((rows, 256)), wei)


@pytest.mark.parametrize("build", [gated, grouped, per_channel], ids=lambda f: f.__name__)
def test_every_product_converts_its_own_weights(build: Build) -> None:
    g = scheduled(build)
    assert all(stage.parameters is not None and stage.parameters.ks for stage in kernels(g))
    narrow = {v for v in g.ins if g.value(v).type.elements > 1 << 16}
    assert {v for n in nests(g) for v in n.ins if v in narrow} == narrow
    wide = {v for n in nests(g) for v in n.outs if g.value(v).type.elements > 1 << 16}
    assert wide == set()


def test_constant_weights_are_converted_by_init() -> None:
    def build(b: GraphBuilder) -> None:
        b.op("MatMul", b.input((128, 64), DType.f16), b.constant((64, 256), DType.f16))

    (stage,) = kernels(scheduled(build))
    assert stage.parameters is not None
    assert stage.parameters.ks == 0


MACHINE = table(TARGET)
SMALL = replace(TARGET, l2_bytes=16 << 10)  # caches that hold no weights here


def constant_s4(b: GraphBuilder, rows: int = 1) -> None:
    groups = (8, 1024)
    ins = b.constant((256, 1024), DType.s4), b.constant(groups), b.constant(groups, DType.s4)
    b.op("MatMul", b.input((rows, 256)), b.op("DynamicDequantize", *ins, qtype="per_group", group_shape=(32, 1)))


def constant_f16(b: GraphBuilder, rows: int = 1) -> None:
    b.op("MatMul", b.input((rows, 256), DType.f16), b.constant((1024, 256), DType.f16), transpose_b=True)


def constant_s8(b: GraphBuilder, rows: int = 1) -> None:
    wei = b.op("Dequantize", b.constant((256, 1024), DType.s8), qtype="per_channel", axis=1, scales=(0.5,) * 1024, zps=(3,) * 1024)
    b.op("MatMul", b.input((rows, 256)), wei)


CONSTANT = (constant_s4, constant_f16, constant_s8)


@pytest.mark.parametrize(
    ("rows", "dtype", "target", "multiplied"),
    [
        (MACHINE.widened_constant_rows, DType.f16, SMALL, (DType.f32, DType.f16)),
        (MACHINE.widened_constant_rows + 1, DType.f16, SMALL, (DType.f32, DType.f32)),
        (1, DType.f16, TARGET, (DType.f32, DType.f32)),  # L2 holds them in f32
        (1, DType.f16, replace(SMALL, isa=ISAS["portable"]), (DType.f32, DType.f32)),  # one by one
        (1, DType.bf16, SMALL, (DType.f32, DType.bf16)),
        (1, DType.bf16, replace(SMALL, isa=ISAS["portable"]), (DType.f32, DType.bf16)),
        (1, DType.bf16, replace(SMALL, isa=ISAS["avx512_core_bf16"]), (DType.bf16, DType.bf16)),
    ],
)
def test_which_constant_weights_are_widened_as_they_are_loaded(
    rows: int, dtype: DType, target: Target, multiplied: tuple[DType, DType]
) -> None:
    def build(b: GraphBuilder) -> None:
        b.op("MatMul", b.input((rows, 256), dtype), b.constant((256, 1024), dtype))

    g = scheduled(build, target)
    (stage,) = kernels(g)
    assert tuple(g.value(v).dtype for v in stage.ops[0].ins) == multiplied


@pytest.mark.parametrize("batch", [(2,), ()])
def test_constant_weights_of_f16_that_are_no_one_matrix_are_widened_by_init(batch: tuple[int, ...]) -> None:
    """A matrix for each batch entry, and a lone column."""

    def build(b: GraphBuilder) -> None:
        b.op("MatMul", b.input((*batch, 1, 1 << 15), DType.f16), b.constant((*batch, 1 << 15, 2 if batch else 1), DType.f16))

    g = scheduled(build, SMALL)
    (stage,) = kernels(g)
    assert [g.value(v).dtype for v in stage.ops[0].ins] == [DType.f32, DType.f32]


@pytest.mark.parametrize("build", CONSTANT, ids=lambda f: f.__name__)
def test_init_keeps_large_weights_compressed(build: Build) -> None:
    g = scheduled(build, SMALL)
    kept = [g.value(v) for n in nests(g) for v in n.outs if g.value(v).is_constant and g.value(v).type.elements == 256 * 1024]
    assert [v.dtype.bits for v in kept] == [16 if build is constant_f16 else 8]
    assert all(v.layout.blocks for v in kept)


@pytest.mark.parametrize("build", CONSTANT, ids=lambda f: f.__name__)
@pytest.mark.parametrize(("rows", "target"), [(1, TARGET), (129, SMALL), (8, replace(SMALL, cores=8))], ids=["L2", "rows", "cores"])
def test_other_constant_weights_are_widened_once(build: Callable[..., None], rows: int, target: Target) -> None:
    (stage,) = kernels(scheduled(lambda b: build(b, rows), target))
    assert stage.parameters is not None
    assert stage.parameters.ks == 0


def test_weights_of_a_product_in_init_are_widened_by_init() -> None:
    """src is constant too; no value of main may come between."""

    def build(b: GraphBuilder) -> None:
        wei = b.op("Dequantize", b.constant((256, 1024), DType.s8), qtype="per_channel", axis=1, scales=(0.5,) * 1024, zps=(3,) * 1024)
        b.op("Add", b.op("MatMul", b.constant((16, 256)), wei), b.input((16, 1024)))

    g = scheduled(build, SMALL)
    *once, last = nests(g)
    assert all(g.value(v).is_constant for n in once for v in n.outs)
    assert last.outs == g.outs


def test_constant_weights_with_scales_that_change_are_no_constants() -> None:
    """Init packs only values all of whose operands are constant."""

    def build(b: GraphBuilder) -> None:
        ins = b.constant((256, 1024), DType.s8), b.input((1024,))
        b.op("MatMul", b.input((1, 256)), b.op("DynamicDequantize", *ins, qtype="per_channel", axis=1))

    g = scheduled(build, SMALL)
    assert not [v for n in nests(g) for v in n.outs if g.value(v).is_constant and g.value(v).dtype is DType.s8]


def test_weights_with_other_readers_are_converted_once() -> None:
    """The wide weights are an output of the partition; a packed block could not be."""

    def build(b: GraphBuilder) -> None:
        wei = b.op("Dequantize", b.input((64, 256), DType.s8), qtype="per_tensor", scales=(0.5,), zps=(1,))
        b.op("MatMul", b.input((5, 64)), wei)
        b.op("ReLU", wei)

    for p in partitions(graph_of(build), Policy.fused):
        g = scheduled(p)
        assert all(not (s.parameters is not None and s.parameters.ks) for s in kernels(g))


@pytest.mark.parametrize("l2_bytes", [1 << 20, 16 << 20])
@pytest.mark.parametrize("rows", [128, 512, 2048])
def test_weights_of_several_products_are_converted_by_few_tasks(rows: int, l2_bytes: int) -> None:
    """Three products in one nest over rows: every task converts all of their weights."""
    found = [s.parameters for s in kernels(scheduled(lambda b: gated(b, rows=rows), replace(TARGET, l2_bytes=l2_bytes)))]
    assert all(p is not None and p.ks and p.mpn <= 4 for p in found)


def test_a_lone_product_uses_a_packed_block_for_many_rows() -> None:
    (stage,) = kernels(scheduled(lambda b: grouped(b, rows=1000)))
    assert stage.parameters is not None
    assert stage.parameters.ks
    assert stage.parameters.mpn <= 8


@pytest.mark.parametrize("group", [16, 32, 48, 64, 128])
def test_a_packed_block_is_whole_groups(group: int) -> None:
    (stage,) = kernels(scheduled(lambda b: grouped(b, k=768, group=group)))
    assert stage.parameters is not None
    assert stage.parameters.ks % group == 0


def test_the_pass_can_be_left_out() -> None:
    assert "pack-on-the-fly" in {p.switch for p in PIPELINE}


@pytest.mark.parametrize(("m", "dtype"), [(577, DType.f16), (64, DType.f16), (577, DType.bf16), (64, DType.bf16)])
def test_computed_rows_are_not_repeated_for_every_packed_block(m: int, dtype: DType) -> None:
    """Rows of f16 are converted by the task that reads them: columns are then tasks only where all rows are one task."""
    target = replace(TARGET, isa=ISAS["avx512_core_bf16"], cores=2)
    *_, stage = kernels(scheduled(lambda b: b.op("MatMul", b.input((m, 100), dtype), b.input((100, 768), dtype)), target))
    p = stage.parameters
    assert p is not None
    assert p.ks
    assert p.tasks >= 2
    assert dtype is DType.bf16 or not p.split_n or p.mb == m
