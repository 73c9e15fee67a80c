"""Weights that change are packed into panels where that pays (docs/measurements/weight-packing.md)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.core.tensor import Shape
from benchgraph.gir.ir import FusedOp
from benchgraph.graph.build import GraphBuilder
from benchgraph.machine.target import ISAS, Target
from tests.support.graph_ir import scheduled

TARGET = Target(ISAS["avx512_core"], l1_bytes=32 << 10, l2_bytes=1 << 20, cores=4)
KEEPS_UP = replace(TARGET, l1_bytes=48 << 10, machine="amd")


def blocks(src: Shape, wei: Shape, target: Target = TARGET) -> tuple[int, ...]:
    """Widths of the panels that the microkernel reads; () for unpacked weights."""
    b = GraphBuilder()
    b.op("MatMul", b.input(src), b.input(wei))
    g = scheduled(b.graph(), target)
    (product,) = (stage.ops[0] for node in g.nodes if isinstance(node, FusedOp) for stage in node.stages if stage.parameters is not None)
    return tuple(size for _, size in g.value(product.ins[1]).layout.blocks)


@pytest.mark.parametrize(
    ("src", "wei", "want", "why"),
    [
        ((64, 512), (512, 512), (64,), "its rows are 2 KiB apart"),
        ((8, 1024), (1024, 1024), (64,), "few rows of much work"),
        ((16, 4, 512), (512, 512), (64,), "rows of all entries count where they share the weights"),
        ((4, 1024), (1024, 4096), (), "too few rows to read the copy often"),
        ((128, 128), (128, 128), (), "too little work for a parallel loop more"),
        ((4096, 512), (512, 64), (), "one panel lies densely as it is"),
        ((8, 64, 128), (8, 128, 128), (64,), "each entry packs its own"),
        ((8, 32, 128), (8, 128, 512), (), "too few rows of an entry"),
        ((2, 32, 64), (2, 64, 128), (), "too few entries for the cores, and too little work"),
        ((2, 4, 1024), (2, 1024, 1024), (), "few rows read rows of large weights side by side"),
        ((2, 16, 1024), (2, 1024, 1024), (64,), "too few entries for the cores, which share the work on all rows"),
    ],
)
def test_a_product(src: Shape, wei: Shape, want: tuple[int, ...], why: str) -> None:
    assert blocks(src, wei) == want, why


@pytest.mark.parametrize(
    ("wei", "want", "why"),
    [
        ((8, 64, 512), (64,), "rows 2 KiB apart fall in 8 sets of 64, whose 12 ways hold 24 of the 64 rows"),
        ((8, 64, 520), (), "32 bytes more, and they fall in all sets"),
        ((8, 96, 128), (), "rows 512 bytes apart: L1 holds all 96"),
        ((8, 384, 512), (), "L1 does not hold a panel of 384 rows, packed or not"),
    ],
)
def test_batch_entries_on_cores_that_keep_up(wei: Shape, want: tuple[int, ...], why: str) -> None:
    assert blocks((8, 128, wei[1]), wei, KEEPS_UP) == want, why
    assert blocks((8, 47, wei[1]), wei, KEEPS_UP) == (), "too few rows"
    assert blocks((8, 128, wei[1]), wei) == (64,), "other cores"


@pytest.mark.parametrize(
    ("src", "wei", "want", "why"),
    [
        ((64, 1024), (1024, 1024), (64,), "of rows 4 KiB apart L2 holds 256, three quarters of it 192 of 1024"),
        ((64, 1024), (1024, 1000), (), "rows fall in all sets"),
        ((128, 1024), (1024, 1280), (64,), "768 of 1024 are held"),
        ((95, 1024), (1024, 1280), (), "95 rows fetch what 23 do where none is held"),
        ((28, 1024), (1024, 1024), (), "28 rows as 22 do"),
        ((30, 1024), (1024, 1024), (64,), "30 as 24"),
        ((4, 40, 512), (512, 512), (64,), "rows of all entries count where they share the weights"),
        ((4, 59, 1024), (4, 1024, 1024), (), "59 rows of an entry as 47 do"),
        ((4, 60, 1024), (4, 1024, 1024), (64,), "60 as 48 do"),
        ((3, 59, 1024), (3, 1024, 1024), (64,), "fewer entries than cores: their panels are packed by all"),
    ],
)
def test_single_products_on_cores_that_keep_up(src: Shape, wei: Shape, want: tuple[int, ...], why: str) -> None:
    assert blocks(src, wei, KEEPS_UP) == want, why


def test_attention_packs_per_entry_and_stays_one_nest() -> None:
    b = GraphBuilder()
    scores = b.op("SoftMax", b.op("MatMul", b.input((2, 4, 64, 32)), b.input((2, 4, 32, 128))), axis=-1)
    b.op("MatMul", scores, b.input((2, 4, 128, 96)))
    (nest,) = (node for node in scheduled(b.graph(), TARGET).nodes if isinstance(node, FusedOp))
    assert [stage.ops[0].kind for stage in nest.stages if stage.is_batch_invariant] == ["Reorder", "Reorder"]


def test_weights_computed_in_the_partition_are_not_packed() -> None:
    b = GraphBuilder()
    made = b.op("MatMul", b.input((512, 512)), b.constant((512, 512)))
    b.op("MatMul", b.input((512, 512)), made)
    g = scheduled(b.graph(), TARGET)
    second = next(op for node in g.nodes if isinstance(node, FusedOp) for op in node.ops if op.outs == (g.outs[-1],))
    assert not g.value(second.ins[1]).layout.blocks
