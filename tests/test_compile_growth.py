"""Graphs of which a pass might look at every path, at every pair, or at all again for each op, and what each of them costs, counted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchgraph.core.tensor import LogicalTensor
from benchgraph.gir import passes as gir_passes
from benchgraph.gir import rewrite
from benchgraph.gir.flash_attention import is_monotone
from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.passes.make_views import make_views
from benchgraph.gir.passes.sink_layout_ops import sink_layout_ops
from benchgraph.graph import GraphBuilder
from benchgraph.lower import lower
from benchgraph.machine.target import host
from benchgraph.partition.convexity import Reachability
from benchgraph.partition.ir import Policy
from benchgraph.partition.partitioner import partitions
from benchgraph.tir import passes as tir_passes
from benchgraph.tir.passes.interchange_loops import interchange_loops
from benchgraph.tir.passes.mark_inplace import mark_inplace
from benchgraph.tir.passes.shrink_tensors import shrink_tensors
from benchgraph.tir.passes.simplify import simplify
from tests.support.call_counts import calls, counted
from tests.support.graph_ir import gir, unverified
from tests.support.reference_check import matches_reference
from tests.support.tensor_ir import before

Network = Callable[[GraphBuilder, int], object]


def built(network: Network, length: int) -> GraphBuilder:
    b = GraphBuilder()
    network(b, length)
    return b


def growth(work: Callable[[int], Callable[[], object]], length: int) -> float:
    """How many times what one length takes, in calls of Python, twice the length does, beyond what half the length takes in both."""
    calls(work(1))  # what is looked up once in a process
    half, one, two = (calls(work(n)) for n in (length // 2, length, 2 * length))
    return (two - one) / (one - half)


# ---- movements of what is moved --------------------------------------------------------------------------------------


def matrix(b: GraphBuilder, rows: int, columns: int) -> LogicalTensor:
    return b.op("MatMul", b.input((rows, columns)), b.constant((columns, columns)))


def shaped(b: GraphBuilder, x: LogicalTensor, *shape: int) -> LogicalTensor:
    return b.op("StaticReshape", x, shape=shape, special_zero=False)


def heads(b: GraphBuilder, length: int) -> None:
    """Each of these finds its elements by several indices of the one before it."""
    x = matrix(b, 8, 32)
    for _ in range(length):
        x = shaped(b, b.op("StaticTranspose", shaped(b, x, 4, 2, 4, 8), order=(1, 0, 2, 3)), 8, 32)
    b.op("MatMul", x, b.constant((32, 8)))


def odd_shapes(b: GraphBuilder, length: int) -> None:
    """No index becomes simpler here."""
    x = matrix(b, 6, 10)
    for n in range(length):
        x = b.op("StaticTranspose", shaped(b, x, *((4, 15), (6, 10))[n % 2]), order=(1, 0))
    b.op("ReLU", x)


def concatenations(b: GraphBuilder, length: int) -> None:
    x = matrix(b, 3, 4)
    for _ in range(length):
        x = b.op("StaticTranspose", b.op("Concat", x, b.input((1, x.known_shape[1])), axis=0), order=(1, 0))
    b.op("ReLU", x)


@pytest.mark.parametrize("network", [heads, odd_shapes])
def test_movements_of_what_is_moved_are_found_in_few_steps(network: Network) -> None:
    def work(length: int) -> Callable[[], object]:
        b = built(network, length)
        return lambda: simplify(lower(unverified(b.graph(), host())).main, host())

    assert growth(work, 6) <= 3


@pytest.mark.parametrize(("network", "length"), [(heads, 6), (odd_shapes, 9), (concatenations, 6)])
def test_movements_of_what_is_moved_mean_what_they_say(network: Network, length: int) -> None:
    graph = built(network, length).graph()
    (partition,) = partitions(graph, Policy.fused)
    assert matches_reference(graph, partition)


def test_an_index_that_does_not_become_simpler_ends_at_a_copy() -> None:
    g = unverified(built(odd_shapes, 12).graph(), host())
    moves = [op for node in g.nodes for op in node.ops if op.kind in ("StaticReshape", "StaticTranspose")]
    assert 0 < len(moves) < 12


def test_movements_go_past_no_more_ops_than_there_are_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    def movements(b: GraphBuilder, length: int) -> None:
        x = matrix(b, 8, 8)
        for _ in range(length):
            x = b.op("ReLU", b.op("StaticTranspose", x, order=(1, 0)))

    def work(length: int) -> Callable[[], object]:
        g = gir(lambda b: movements(b, length))
        return lambda: sink_layout_ops(g, host())

    monkeypatch.setattr(rewrite, "MOST_SWEEPS", 4)
    assert growth(work, 12) <= 2.3


def test_what_is_before_a_movement_is_looked_at_once() -> None:
    def movements(b: GraphBuilder, length: int) -> None:
        x = b.op("Abs", b.input((8, 8)))
        for _ in range(length):
            x = b.op("StaticTranspose", x, order=(1, 0))
        b.op("SoftMax", x, axis=-1)

    def work(length: int) -> Callable[[], object]:
        g = gir(lambda b: movements(b, length))
        return lambda: (sink_layout_ops(g, host()), make_views(g, host()))

    assert growth(work, 20) <= 2.2


# ---- paths -----------------------------------------------------------------------------------------------------------


def diamonds(kinds: tuple[str, str, str]) -> Network:
    """Of a value on both sides and an op that joins them, one after the other."""

    def network(b: GraphBuilder, length: int) -> None:
        one, other, both = kinds
        x = b.input((8, 32))
        for _ in range(length):
            x = b.op(both, b.op(one, x), b.op(other, x))

    return network


def squares(b: GraphBuilder, length: int) -> None:
    x = b.input((8, 32))
    for _ in range(length):
        x = b.op("Multiply", x, x)


def test_the_passes_do_not_follow_every_path() -> None:
    def work(length: int) -> Callable[[], object]:
        g = gir(lambda b: squares(b, length))

        def through() -> None:
            h = g
            for each in gir_passes.PIPELINE:
                h = each.fn(h, host())

        return through

    assert growth(work, 6) <= 3


def last(g: Graph) -> int:
    return g.nodes[-1].outs[0]


def makers(g: Graph) -> dict[int, Op]:
    return {v: op for op in g.nodes if isinstance(op, Op) for v in op.outs}


POINTWISE, MAXIMA = ("ReLU", "Tanh", "Add"), ("Maximum", "Maximum", "Maximum")


def test_no_question_follows_every_path() -> None:
    def work(length: int) -> Callable[[], object]:
        g = gir(lambda b: diamonds(POINTWISE)(b, length))
        return lambda: last(g) in g.computed_from_constants

    assert growth(work, 8) <= 2.2


def test_no_question_follows_what_an_op_reads_twice() -> None:
    def doubled(b: GraphBuilder, kind: str, length: int) -> None:
        x = b.input((1, 1))
        for _ in range(length):
            x = b.op(kind, x, x)

    def work(length: int) -> Callable[[], object]:
        graphs = [gir(lambda b, kind=kind: doubled(b, kind, length)) for kind in ("Maximum", "Add")]

        def ask() -> list[bool]:
            return [is_monotone(g, makers(g), last(g)) for g in graphs]

        return ask

    assert growth(work, 8) <= 2.2


# ---- pairs -----------------------------------------------------------------------------------------------------------


def test_parts_of_a_concatenation_are_not_held_against_each_other() -> None:
    def work(length: int) -> Callable[[], object]:
        b = GraphBuilder()
        b.op("ReLU", b.op("Concat", *(b.op("Tanh", b.input((4, 8))) for _ in range(length)), axis=1))
        func = simplify(lower(unverified(b.graph(), host())).main, host())
        return lambda: shrink_tensors(func, host())

    assert growth(work, 12) <= 2.6


def test_results_of_a_loop_are_not_held_against_each_other() -> None:
    def work(length: int) -> Callable[[], object]:
        b = GraphBuilder()
        x = matrix(b, 8, 32)
        for _ in range(length):
            b.op("ReLU", x)
        func = lower(unverified(b.graph(), host())).main
        return lambda: interchange_loops(func, host())

    assert growth(work, 12) <= 2.2


def test_a_line_of_post_ops_is_not_read_again_for_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(length: int) -> int:
        b = GraphBuilder()
        x = b.input((8, 32))
        for _ in range(length):
            x = b.op("ReLU", x)
        return counted(monkeypatch, Reachability, "stays_inside", lambda: partitions(b.graph(), Policy.post_ops))

    short, long = asked(20), asked(40)
    assert short >= 19
    assert long <= 2.2 * short


def test_pairs_that_may_lie_in_place_are_read_alone() -> None:
    def work(length: int) -> Callable[[], object]:
        b = GraphBuilder()
        x = matrix(b, 8, 32)
        for _ in range(length):
            x = b.op("Add", x, b.input((8, 32)))
        func = tir_passes.run(lower(unverified(b.graph(), host())).main, host(), lambda *_: None, before("mark-inplace"))
        return lambda: mark_inplace(func, host())

    assert growth(work, 16) <= 2.2
