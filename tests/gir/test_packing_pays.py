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
CASCADE_LAKE = Target(ISAS["avx512_core_vnni"], 32 << 10, 1 << 20, 2, llc_bytes=33 << 20, machine="cascade_lake")
ZEN4 = Target(ISAS["avx512_core_bf16"], 32 << 10, 1 << 20, 1, llc_bytes=32 << 20, machine="zen4")
ZEN5 = replace(ZEN4, l1_bytes=48 << 10, cores=2, machine="zen5")


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
        ((4, 1024), (1024, 4096), (), "too few rows to read the copy often"),
        ((4096, 512), (512, 64), (), "one panel lies densely as it is"),
        ((8, 64, 128), (8, 128, 128), (64,), "each entry packs its own"),
        ((2, 4, 1024), (2, 1024, 1024), (), "few rows read rows of large weights side by side"),
    ],
)
def test_a_product(src: Shape, wei: Shape, want: tuple[int, ...], why: str) -> None:
    assert blocks(src, wei) == want, why


MEASURED: dict[Target, dict[tuple[int, ...], float]] = {
    CASCADE_LAKE: {
        (64, 128, 128, 128): 0.83, (16, 96, 64, 256): 0.76, (64, 16, 128, 128): 1.26, (512, 128, 128): 0.83, (32, 512, 512): 0.74,
        (32, 1024, 1024): 0.50, (128, 1024, 1024): 0.50, (1024, 1024, 1024): 0.66,
    },
    ZEN5: {
        (9, 1500, 1000): 1.91, (24, 1500, 500): 1.36, (48, 512, 3000): 1.16, (64, 1500, 512): 0.78, (96, 2048, 1536): 0.80,
        (1024, 768, 1024): 0.83, (256, 2048, 1024): 0.61, (4, 512, 768, 2048): 0.83, (2, 200, 1500, 1024): 0.65,
    },
    replace(ZEN5, cores=1): {(24, 1500, 2048): 0.82, (1024, 1024, 1024): 0.76, (256, 2048, 2048): 0.56},
    ZEN4: {
        (24, 3072, 1500): 0.45, (24, 2048, 2048): 0.64, (16, 1280, 3072): 0.74, (48, 4096, 1024): 0.81, (2, 12, 4096, 1000): 1.68,
        (2, 12, 1000, 2048): 1.41, (8, 24, 300, 1024): 1.18, (4, 32, 1536, 4096): 1.16,
    },
}  # fmt: skip


@pytest.mark.parametrize(("target", "shape"), [(target, shape) for target, shapes in MEASURED.items() for shape in shapes], ids=str)
def test_what_was_measured_decides(target: Target, shape: tuple[int, ...]) -> None:
    """By entries, m, k and n, time with packing over that without: clear ones of docs/measurements/weight-packing.md, of which the cost
    knows the sign, and shall not lose it."""
    *entries, m, k, n = shape
    assert bool(blocks((*entries, m, k), (*entries, k, n), target)) == (MEASURED[target][shape] < 1)


def test_attention_packs_per_entry_and_stays_one_nest() -> None:
    b = GraphBuilder()
    scores = b.op("SoftMax", b.op("MatMul", b.input((2, 4, 128, 64)), b.input((2, 4, 64, 256))), axis=-1)
    b.op("MatMul", scores, b.input((2, 4, 256, 128)))
    (nest,) = (node for node in scheduled(b.graph(), TARGET).nodes if isinstance(node, FusedOp))
    assert [stage.ops[0].kind for stage in nest.stages if stage.is_batch_invariant] == ["Reorder", "Reorder"]


def test_weights_computed_in_the_partition_are_not_packed() -> None:
    b = GraphBuilder()
    made = b.op("MatMul", b.input((512, 512)), b.constant((512, 512)))
    b.op("MatMul", b.input((512, 512)), made)
    g = scheduled(b.graph(), TARGET)
    second = next(op for node in g.nodes if isinstance(node, FusedOp) for op in node.ops if op.outs == (g.outs[-1],))
    assert not g.value(second.ins[1]).layout.blocks
