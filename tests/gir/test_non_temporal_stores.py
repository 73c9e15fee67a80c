"""non-temporal-stores: results that no cache could keep until they are read go past the caches; no others do."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import pytest

from benchgraph.core.tensor import PropertyType
from benchgraph.gir.ir import FusedOp
from benchgraph.graph.build import GraphBuilder
from benchgraph.graph.ir import Graph
from benchgraph.machine.table import table
from benchgraph.machine.target import Target
from tests.support.graph_ir import scheduled
from tests.support.targets import TARGET

MATRIX = 64 * 32 * 4
SMALL = replace(TARGET, cores=1, llc_bytes=2 * MATRIX)


def uncached(graph: Graph, target: Target = SMALL) -> list[int]:
    """How many results of each nest go past the caches."""
    return [len(node.non_temporal) for node in scheduled(graph, target).nodes if isinstance(node, FusedOp)]


def relu() -> Graph:
    b = GraphBuilder()
    b.op("ReLU", b.input((64, 32)))
    return b.graph()


def pool(side: int) -> Graph:
    b = GraphBuilder()
    box = {"kernel": [side, side], "strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "data_format": "NXC"}
    b.op("MaxPool", b.input((1, 20, 20, 64)), **box)
    return b.graph()


def test_a_nest_counts_with_those_that_it_alone_reads() -> None:
    """Of MaxPoolBackward's three nests, of which the last reads diff_dst and the two before it read src."""
    b = GraphBuilder()
    box = {"kernel": [2, 2], "strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "data_format": "NXC"}
    b.op("MaxPoolBackward", b.input((1, 16, 16, 64)), b.input((1, 8, 8, 64)), **box)
    src, diff_dst = 16 * 16 * 64 * 4, 8 * 8 * 64 * 4
    assert uncached(b.graph(), replace(SMALL, llc_bytes=2 * src + diff_dst)) == [0, 0, 1]
    assert uncached(b.graph(), replace(SMALL, llc_bytes=2 * src + diff_dst + 1)) == [0, 0, 0]


@pytest.mark.parametrize(
    ("target", "count"),
    [
        (SMALL, 1),
        (replace(SMALL, llc_bytes=SMALL.llc_bytes + 1), 0),
        (replace(SMALL, llc_bytes=0), 0),
        (replace(SMALL, cores=2, llc_bytes=SMALL.llc_bytes * 2 // 3), 1),
        (replace(SMALL, cores=2, llc_bytes=SMALL.llc_bytes * 2 // 3 + 1), 0),
    ],
    ids=["more than the cache holds", "as much", "of a cache that nothing is known of", "half more than several cores' cache", "less"],
)
def test_it_depends_on_the_machine(target: Target, count: int) -> None:
    assert uncached(relu(), target) == [count]


@pytest.mark.parametrize(("more", "count"), [(0, 1), (1, 0)])
def test_the_size_of_a_cache_is_capped(more: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = replace(table(SMALL), llc_most_bytes=SMALL.llc_bytes + more)
    monkeypatch.setattr(import_module("benchgraph.schedule.limits"), "table", lambda target: machine)
    assert uncached(relu(), replace(SMALL, llc_bytes=480 << 20)) == [count]


@pytest.mark.parametrize(("side", "count"), [(2, 1), (3, 0)])
def test_windows_that_read_much_more_than_they_write_are_unchanged(side: int, count: int) -> None:
    assert uncached(pool(side)) == [count]


def test_what_another_nest_reads_stays_in_a_cache() -> None:
    b = GraphBuilder()
    x = b.op("SoftMax", b.input((64, 32)), axis=1)
    b.op("SoftMax", x, axis=0)
    b.end(x)
    assert uncached(b.graph(), replace(SMALL, llc_bytes=1)) == [0, 1]


def test_constants_that_init_makes_go_past_them() -> None:
    b = GraphBuilder()
    weights = b.input((64, 32), property_type=PropertyType.constant)
    b.op("Add", b.input((64, 32)), b.op("Sigmoid", weights))
    assert uncached(b.graph(), replace(SMALL, llc_bytes=1)) == [1, 1]
