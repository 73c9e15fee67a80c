"""Schedules for tile registers, which wait for operands: tall tasks by weights that L2 does not keep, separate nests for few rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.layout import plain
from benchgraph.gir.ir import FusedOp, Graph
from benchgraph.graph.build import GraphBuilder
from benchgraph.machine.target import ISAS, Target
from benchgraph.ops import spec
from tests.support import graph_ir

TILES = Target(ISAS["avx512_core_amx"], l1_bytes=48 << 10, l2_bytes=2 << 20, cores=2)
VECTORS = replace(TILES, isa=ISAS["avx512_core_bf16"])


def scheduled(rows: int, *sizes: int, target: Target = TILES, dtype: DType = DType.bf16) -> Graph:
    """A chain of products with ReLU that have weights of these sizes."""
    b = GraphBuilder()
    value = b.input((rows, sizes[0]), dtype)
    for k, n in pairwise(sizes):
        value = b.op("ReLU", b.op("MatMul", value, b.constant((k, n), dtype)))
    return graph_ir.scheduled(b.graph(), target)


def layers(rows: int, *sizes: int, target: Target = TILES, dtype: DType = DType.bf16) -> list[FusedOp]:
    """The nests of `scheduled`, without those of init."""
    g = scheduled(rows, *sizes, target=target, dtype=dtype)
    return [n for n in g.nodes if isinstance(n, FusedOp) and any(spec(op.kind).lowering.is_contraction for op in n.ops)]


def test_tasks_are_taller_where_weights_come_from_beyond_l2() -> None:
    (near,), (far,) = layers(1024, 512, 512, 512), layers(1024, 1536, 1536, 1536)
    assert far.mb >= 2 * near.mb


@pytest.mark.parametrize(("rows", "nests"), [(32, 2), (1024, 1)])
def test_few_rows_have_a_nest_for_each_product(rows: int, nests: int) -> None:
    """Each core then reads a part of them."""
    assert len(layers(rows, 1024, 1024, 1024)) == nests


def test_few_rows_by_small_weights_share_a_nest() -> None:
    assert len(layers(32, 256, 256, 256)) == 1


def test_calls_that_copy_rows_of_src_are_wide() -> None:
    """Each call copies rows that begin within cache lines."""
    (nest,) = layers(128, 479, 512)
    assert nest.parameters is not None
    assert nest.parameters.nb == 256


@pytest.mark.parametrize("target", [TILES, VECTORS], ids=["tiles", "vectors"])
def test_activations_are_row_major(target: Target) -> None:
    g = scheduled(128, 64, 512, 512, target=target)
    (nest,) = (n for n in g.nodes if isinstance(n, FusedOp) and sum(spec(op.kind).lowering.is_contraction for op in n.ops) == 2)
    first, second = (op for op in nest.ops if spec(op.kind).lowering.is_contraction)
    assert g.value(first.outs[0]).layout == g.value(second.ins[0]).layout == plain(2)


@pytest.mark.parametrize(("rows", "k", "n"), [(64, 479, 1024), (128, 1024, 512), (512, 13, 512), (512, 479, 1024)])
def test_lone_products_have_tasks_of_whole_squares_of_tiles(rows: int, k: int, n: int) -> None:
    """Or all rows at once: blocks of 22 rows load weights for two tiles of eleven."""
    (nest,) = layers(rows, k, n)
    assert nest.mb % 32 == 0 or nest.mb == rows
