"""Products with panels of weights as the outermost loop: when, their loops, and results."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchgraph.core.dtypes import DType
from benchgraph.core.options import Forced
from benchgraph.core.tensor import PropertyType
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.lower import lower
from benchgraph.machine.target import current
from benchgraph.reference.compare import compare, tolerance
from benchgraph.reference.evaluate import evaluate
from benchgraph.reference.fill import fill
from benchgraph.tir.ir import Const, For, LoopKind
from benchgraph.tir.visit import walk
from tests.lower.batched_products import matmul, nest, partition
from tests.support.graph_ir import scheduled
from tests.support.reference_check import executed
from tests.support.targets import TARGET

SMALL_L2 = 40 << 10  # which holds 32 columns of the weights below, and not all 72
MEDIUM_L2 = 400 << 10  # of which 0.3 holds two panels of 64 columns, and which does not hold 712 columns
WIDENED_L2 = 100 << 10  # which holds 64 columns of the f16 weights below
FEW = replace(TARGET, l2_bytes=SMALL_L2)
f32, bf16 = DType.f32, DType.bf16


def convolution(images: int = 3, side: int = 7, dtype: DType = f32, channels: int = 24, columns: int = 72) -> Graph:
    b = GraphBuilder()
    wei = b.input((columns, channels, 3, 3), dtype, property_type=PropertyType.constant)
    window = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    formats = {"data_format": "NCX", "weights_format": "OIX", "groups": 1}
    y = b.op("Convolution", b.input((images, channels, side, side), dtype), wei, **window, **formats)
    b.op("ReLU", b.op("BiasAdd", y, b.input((columns,), dtype), data_format="NCX"))
    return b.graph()


def widened(entries: int, rows: int, columns: int = 712) -> Graph:
    """Variable weights that are widened as they are loaded, and a src that is converted to f32 first."""
    b = GraphBuilder()
    b.op("MatMul", b.input((entries, rows, 216), DType.f16), b.input((216, columns), DType.f16))
    return b.graph()


@pytest.mark.parametrize(
    ("graph", "panels_first"),
    [
        (convolution(), True),
        (convolution(dtype=bf16, columns=144), True),
        (matmul(60, 3), True),
        (convolution(images=1, side=2), False),
        (convolution(side=50), False),
        (matmul(4, 3), False),
        (matmul(60, 3, one=False), False),
        (matmul(1, 180), False),
    ],
    ids=["windows", "of bf16", "entries", "few windows", "long rows", "few entries", "weights of their own", "no entries"],
)
def test_products_with_panels_first(graph: Graph, panels_first: bool) -> None:
    found = nest(scheduled(partition(graph), FEW))
    assert found.panels_first == panels_first
    if panels_first:
        assert found.parameters is not None
        assert (found.parameters.nb, found.split_n) == (32, True)


def test_weights_that_fit_l2_are_the_inner_loop() -> None:
    assert not nest(scheduled(partition(convolution()), TARGET)).panels_first


def test_panels_are_the_outermost_loop() -> None:
    main = lower(scheduled(partition(convolution()), FEW), FEW).main
    loops = [s for s in walk(main.body) if isinstance(s, For) and s.kind is LoopKind.parallel]
    at = next(i for i, s in enumerate(loops) if s.var.name.startswith("no"))
    assert loops[at].extent == Const(3)
    inside = [s for s in walk(loops[at].body) if isinstance(s, For) and s.kind is LoopKind.parallel]
    assert [s.extent for s in inside] == [Const(3), Const(7), Const(1)]  # images, windows along y, blocks of rows


def test_panels_that_fit_l2_together_are_one_task() -> None:
    """712 columns are 12 panels, in groups of two: a group leaves room in L2 for the rows it is multiplied by."""
    g = scheduled(partition(matmul(60, 3, columns=712)), replace(TARGET, l2_bytes=MEDIUM_L2))
    found = nest(g)
    assert found.parameters is not None
    assert (found.panels_first, found.parameters.nb, found.parameters.ns, found.parameters.npn) == (True, 64, 128, 6)
    loops = (s for s in walk(lower(g, TARGET).main.body) if isinstance(s, For))
    (outermost,) = (s for s in loops if s.var.name.startswith("no") and s.extent == Const(6))
    assert outermost.kind is LoopKind.parallel


@pytest.mark.parametrize(("cores", "columns", "ns"), [(1, 704, 128), (2, 704, 64), (2, 768, 128)], ids=["one core", "not alike", "alike"])
def test_groups_of_panels_balance_the_load(cores: int, columns: int, ns: int) -> None:
    """Eleven panels by twos: of 60 entries one of two cores would have 360 panels and the other 300."""
    found = nest(scheduled(partition(matmul(60, 3, columns=columns)), replace(TARGET, l2_bytes=MEDIUM_L2, cores=cores)))
    assert found.parameters is not None
    assert (found.panels_first, found.parameters.ns) == (True, ns)


@pytest.mark.parametrize(
    ("graph", "l2_bytes"),
    [
        (convolution(), SMALL_L2),
        (convolution(dtype=bf16, columns=136), SMALL_L2),
        (matmul(60, 3), SMALL_L2),
        (convolution(columns=712), MEDIUM_L2),
        (matmul(60, 3, columns=712), MEDIUM_L2),
        (matmul(60, 3, columns=648), MEDIUM_L2),
        (widened(60, 1), WIDENED_L2),
    ],
    ids=["f32", "bf16", "matmul", "windows past two panels", "entries past two panels", "a last group of less than a panel", "made src"],
)
def test_results_are_right_and_the_same_for_any_number_of_threads(graph: Graph, l2_bytes: int) -> None:
    """The last panel has columns left over."""
    p = partition(graph)
    assert nest(scheduled(p, replace(current(), l2_bytes=l2_bytes))).panels_first
    want = evaluate(graph, fill(graph, seed=1))[graph.outputs[0].id]
    found = [executed(graph, p, replace(current(), l2_bytes=l2_bytes, cores=cores))[0] for cores in (1, 2, 3)]
    assert compare(found[0], want, graph.outputs[0].dtype, tolerance(graph)).ok
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()


def test_weights_are_not_read_block_by_block() -> None:
    """Nothing is prefetched for blocks, and each task converts all of its rows of src."""
    g = scheduled(partition(widened(60, 1)), replace(TARGET, l2_bytes=WIDENED_L2))
    p = nest(g).parameters
    assert p is not None
    assert (p.panels_first, p.ks, p.prefetch) == (True, 0, False)
    assert not any(r.parameter in ("ks", "ahead") for r in p.why)


@pytest.mark.parametrize(
    ("nb", "split_n", "panels_first"), [(32, True, True), (32, False, False), (48, True, False)], ids=["blocked", "all rows", "not blocked"]
)
def test_forced_parameters_hold(nb: int, split_n: bool, panels_first: bool) -> None:
    """Tuning can measure the schedule's own choice."""
    p = partition(matmul(60, 3))
    forced = Forced("f32:f32 60x3x216x72 constant", mb=2, nb=nb, split_n=split_n)
    found = nest(scheduled(replace(p, options=replace(p.options, forced=(forced,))), FEW))
    assert found.parameters is not None
    assert (found.mb, found.parameters.nb, found.split_n, found.panels_first) == (2, nb, split_n, panels_first)
