from __future__ import annotations

from benchgraph.core.dtypes import DType
from benchgraph.core.tensor import LogicalTensor
from benchgraph.graph.ir import Graph, Op
from benchgraph.partition.convexity import Reachability, bits


def graph(*edges: tuple[int, int], ops: int) -> Graph:
    """Op i writes tensor i; an edge makes one op read another's tensor."""
    t = [LogicalTensor(i, DType.f32, (4,)) for i in range(ops)]
    return Graph(tuple(Op(i, "Any", inputs=tuple(t[a] for a, b in edges if b == i), outputs=(t[i],)) for i in range(ops)))


def test_bits_are_the_positions_lowest_first() -> None:
    assert list(bits(0b1010010)) == [1, 4, 6]
    assert list(bits(1 << 200 | 1)) == [0, 200]


def test_reachability_follows_paths_both_ways() -> None:
    reach = Reachability(graph((0, 1), (1, 2), ops=4))
    assert set(bits(reach.below[0])) == {0, 1, 2}
    assert set(bits(reach.above[2])) == {0, 1, 2}
    assert set(bits(reach.above[3] | reach.below[3])) == {3}


def test_between_is_every_op_on_a_path_in_either_direction() -> None:
    reach = Reachability(graph((0, 1), (1, 3), (0, 2), (2, 3), (0, 3), (3, 4), ops=5))
    assert set(bits(reach.between(reach.single(0), 3))) == {1, 2}
    assert set(bits(reach.between(reach.single(3), 0))) == {1, 2}
    assert reach.between(reach.single(3), 4) == 0


def test_paths_through_a_group_count_once_it_is_contracted() -> None:
    reach = Reachability(graph((0, 1), (2, 3), ops=4))
    assert reach.between(reach.single(0), 3) == 0
    reach.contract(reach.joined(reach.single(1), 1 << 2))
    assert set(bits(reach.between(reach.single(0), 3))) == {1, 2}


def test_two_groups_that_depend_on_each_other_are_detected() -> None:
    reach = Reachability(graph((0, 1), (2, 3), ops=4))  # {0, 3} and {1, 2} are each convex
    reach.contract(reach.joined(reach.single(0), 1 << 3))
    assert reach.between(reach.single(1), 2) != 0


def test_contraction_reaches_ops_further_away() -> None:
    reach = Reachability(graph((0, 1), (1, 2), (3, 4), (4, 5), ops=6))
    reach.contract(reach.joined(reach.single(1), 1 << 4))
    assert set(bits(reach.below[0])) == {0, 1, 2, 4, 5}
    assert set(bits(reach.above[5])) == {0, 1, 3, 4, 5}


def test_a_value_stays_inside_without_other_readers_and_ports() -> None:
    edges = graph((0, 1), (0, 2), ops=3)
    reach = Reachability(edges)
    assert not reach.stays_inside(0, reach.joined(reach.single(0), 1 << 1))
    assert reach.stays_inside(0, reach.joined(reach.single(0), 0b110))
    named = Reachability(Graph(edges.ops, output_ports=(0,)))
    assert not named.stays_inside(0, named.joined(named.single(0), 0b110))
