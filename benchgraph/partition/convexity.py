"""Which ops can be one partition without a cycle of partitions.

A group is convex when no path leaves it and comes back. Convexity of each group is not enough: with a -> b and c -> d, the groups {a, d}
and {b, c} are both convex and depend on each other. So finished groups are contracted: from then on each of their ops reaches what any of
them reaches, and a path through one is a path through all.

Sets of ops are Python integers used as bitsets over the graph's topological order, so a test costs a few machine words per 64 ops.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from benchgraph.graph.ir import Graph


def bits(mask: int) -> Iterator[int]:
    """The positions of the set bits, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def union(masks: Iterable[int]) -> int:
    result = 0
    for mask in masks:
        result |= mask
    return result


@dataclass(frozen=True)
class Group:
    """Ops of one partition. below, above: the ops that some member reaches, and those that reach one; members included."""

    members: int
    below: int
    above: int


class Reachability:
    """Dependences among the ops of a graph, while groups of them are contracted.

    Ops are named by their position in `graph.order`. producers[i], consumers[i]: the ops next to op i. below[i], above[i]: every op that
    depends on i and every op that i depends on, i included. exposed: the ops that make a tensor without readers, or one that output_ports
    names.
    """

    def __init__(self, graph: Graph) -> None:
        self.ops = graph.order
        position = {op.id: i for i, op in enumerate(self.ops)}
        made = graph.producers
        named = set(graph.output_ports or ())
        kept = [any(t.id in named or t.id not in graph.consumers for t in op.outputs) for op in self.ops]
        self.exposed = union(1 << i for i, is_kept in enumerate(kept) if is_kept)
        self.producers = [union(1 << position[made[t.id].id] for t in op.inputs if t.id in made) for op in self.ops]
        self.consumers = [0] * len(self.ops)
        self.above = [1 << i for i in range(len(self.ops))]
        self.below = list(self.above)
        for i, sources in enumerate(self.producers):
            for source in bits(sources):
                self.consumers[source] |= 1 << i
                self.above[i] |= self.above[source]
        for i in reversed(range(len(self.ops))):
            self.below[i] |= union(self.below[consumer] for consumer in bits(self.consumers[i]))

    def single(self, op: int) -> Group:
        return Group(1 << op, self.below[op], self.above[op])

    def between(self, group: Group, op: int) -> int:
        """The ops on any path between the group and this op, all of which must join the group with it."""
        path = (group.below & self.above[op]) | (self.below[op] & group.above)
        return path & ~(group.members | 1 << op)

    def joined(self, group: Group, more: int) -> Group:
        """The group with these ops; it is convex if `more` contains, with each op, all ops on paths between it and the group."""
        below = group.below | union(self.below[i] for i in bits(more))
        above = group.above | union(self.above[i] for i in bits(more))
        return Group(group.members | more, below, above)

    def stays_inside(self, op: int, group: Group) -> bool:
        """Whether only the group reads the results of this op."""
        return self.consumers[op] & ~group.members == 0 and not self.exposed >> op & 1

    def contract(self, group: Group) -> None:
        """Contract a group: an op that reaches one of its ops now reaches all that any of them reaches."""
        if group.members & (group.members - 1) == 0:
            return
        for i in bits(group.above):
            self.below[i] |= group.below
        for i in bits(group.below):
            self.above[i] |= group.above
