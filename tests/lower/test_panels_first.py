"""Products with panels of weights as the outermost loop: when, their loops, and results."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.candidates import candidates
from benchgraph.core.dtypes import DType
from benchgraph.core.options import Forced
from benchgraph.core.tensor import PropertyType
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.lower import lower
from benchgraph.machine.target import Target, current
from benchgraph.partition.ir import Partition
from benchgraph.reference.compare import compare, tolerance
from benchgraph.reference.evaluate import evaluate
from benchgraph.reference.fill import fill
from benchgraph.schedule.primitives import parse
from benchgraph.schedule.space import Tiling
from benchgraph.tir.ir import Const, For, LoopKind
from benchgraph.tir.visit import walk
from tests.lower.batched_products import matmul, nest, partition
from tests.support.graph_ir import scheduled
from tests.support.reference_check import executed
from tests.support.targets import TARGET

f32, bf16 = DType.f32, DType.bf16


def convolution(images: int = 3, side: int = 7, dtype: DType = f32, channels: int = 24, columns: int = 72) -> Graph:
    b = GraphBuilder()
    wei = b.input((columns, channels, 3, 3), dtype, property_type=PropertyType.constant)
    window = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    formats = {"data_format": "NCX", "weights_format": "OIX", "groups": 1}
    y = b.op("Convolution", b.input((images, channels, side, side), dtype), wei, **window, **formats)
    b.op("ReLU", b.op("BiasAdd", y, b.input((columns,), dtype), data_format="NCX"))
    return b.graph()


def with_panels_first(p: Partition, mb: int, nb: int, ns: int, target: Target) -> Partition:
    """The partition with its only product in tasks of mb rows and ns columns, in calls of nb."""
    found, own = next((each, own) for each in candidates(p, target) if (own := parse(each.chosen.schedule)).tensorized)
    batch, taps = ([name for name in names if name[0] == axis] for names, axis in ((own.order, "b"), (own.tensorized, "r")))
    forced = Forced(found.nest, str(Tiling(mb, nb, spreads=True, ns=ns).schedule(batch, taps)))
    return replace(p, options=replace(p.options, forced=(forced,)))


@pytest.mark.parametrize(
    ("graph", "panels_first"),
    [
        (convolution(images=4, channels=512, columns=512), True),
        (matmul(60, 3, columns=4096), True),
        (matmul(60, 3, one=False), False),
        (matmul(1, 1), False),
    ],
    ids=["windows", "entries", "weights of their own", "one row"],
)
def test_panels_come_first_where_each_entry_would_fetch_all_weights(graph: Graph, panels_first: bool) -> None:
    assert nest(scheduled(partition(graph), replace(TARGET, cores=1))).panels_first == panels_first


def test_panels_are_the_outermost_loop() -> None:
    target = replace(TARGET, shares_all=True)
    main = lower(scheduled(with_panels_first(partition(convolution()), 4, 32, 32, target), target)).main
    loops = [s for s in walk(main.body) if isinstance(s, For) and s.kind is LoopKind.parallel]
    at = next(i for i, s in enumerate(loops) if s.var.name.startswith("no"))
    assert loops[at].extent == Const(3)
    inside = [s for s in walk(loops[at].body) if isinstance(s, For) and s.kind is LoopKind.parallel]
    assert [s.extent for s in inside] == [Const(3), Const(7), Const(2)]  # images, windows along y, blocks of rows


def test_some_panels_are_one_task() -> None:
    """712 columns are 12 panels, in groups of two."""
    g = scheduled(with_panels_first(partition(matmul(60, 3, columns=712)), 3, 64, 128, TARGET), TARGET)
    found = nest(g)
    assert found.parameters is not None
    assert (found.panels_first, found.parameters.nb, found.parameters.ns, found.parameters.npn) == (True, 64, 128, 6)
    loops = (s for s in walk(lower(g).main.body) if isinstance(s, For))
    (outermost,) = (s for s in loops if s.var.name.startswith("no") and s.extent == Const(6))
    assert outermost.kind is LoopKind.parallel


@pytest.mark.parametrize(
    ("graph", "mb", "nb", "ns"),
    [
        (convolution(), 7, 32, 32),
        (convolution(dtype=bf16, columns=136), 4, 48, 96),
        (matmul(60, 3), 3, 32, 32),
        (convolution(columns=712), 7, 64, 128),
        (matmul(60, 3, columns=712), 3, 64, 256),
        (matmul(60, 3, columns=648), 3, 96, 192),
    ],
    ids=["f32", "bf16", "matmul", "windows past two panels", "entries past two panels", "a last group of less than a panel"],
)
def test_results_are_right_and_the_same_for_any_number_of_threads(graph: Graph, mb: int, nb: int, ns: int) -> None:
    """The last panel has columns left over."""
    p = with_panels_first(partition(graph), mb, nb, ns, current())
    assert nest(scheduled(p, current())).panels_first
    want = evaluate(graph, fill(graph, seed=1))[graph.outputs[0].id]
    found = [executed(graph, p, replace(current(), cores=cores))[0] for cores in (1, 2, 3)]
    assert compare(found[0], want, graph.outputs[0].dtype, tolerance(graph)).ok
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()
