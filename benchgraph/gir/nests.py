"""Fused nodes as a graph of their own: what crosses their borders, what depends on what, an order to run them in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from benchgraph.gir.ir import Fused, Graph


def with_borders(g: Graph, nodes: Sequence[Fused]) -> list[Fused]:
    """The same nodes with ins and outs as their ops and everybody else's say."""
    made = [dict.fromkeys(g.root(v) for op in node.ops for v in op.outs) for node in nodes]
    read = [dict.fromkeys(g.root(v) for op in node.ops for v in op.ins) for node in nodes]
    found = []
    for i, node in enumerate(nodes):
        needed = set(g.outs).union(*(r for j, r in enumerate(read) if j != i))
        found.append(replace(node, ins=tuple(v for v in read[i] if v not in made[i]), outs=tuple(v for v in made[i] if v in needed)))
    return found


def reachable(nodes: Sequence[Fused]) -> list[set[int]]:
    """For each node the positions of those that depend on it, directly or not."""
    after = [{k for k, n in enumerate(nodes) if k != i and set(n.ins) & set(node.outs)} for i, node in enumerate(nodes)]
    found = []
    for start in range(len(nodes)):
        seen, work = set[int](), [start]
        while work:
            fresh = after[work.pop()] - seen
            seen |= fresh
            work.extend(fresh)
        found.append(seen)
    return found


def _stays_acyclic(nodes: Sequence[Fused], i: int, j: int) -> bool:
    """No path from i to j runs through a third node, or the other way round."""
    reach = reachable(nodes)
    return not any((k in reach[i] and j in reach[k]) or (k in reach[j] and i in reach[k]) for k in range(len(nodes)) if k not in (i, j))


def in_order(nodes: Sequence[Fused]) -> tuple[Fused, ...]:
    """Topological order, stable."""
    made: dict[int, list[int]] = {}
    for i, n in enumerate(nodes):
        for v in n.outs:
            made.setdefault(v, []).append(i)
    done: list[Fused] = []
    placed: set[int] = set()

    def place(i: int) -> None:
        if i in placed:
            return
        placed.add(i)
        for v in nodes[i].ins:
            for maker in made.get(v, ()):
                place(maker)
        done.append(nodes[i])

    for i in range(len(nodes)):
        place(i)
    return tuple(done)


def merged_in_pairs(g: Graph, nodes: list[Fused], merge: Callable[[list[Fused], int, int], Fused | str | None]) -> list[Fused]:
    """The nodes when no pair can be merged any more. merge(nodes, i, j): nodes i and j, which reads something of i, as one; anything
    else where they cannot be."""
    changed = True
    while changed:
        changed = False
        for i, j in ((i, j) for j in range(len(nodes)) for i in range(len(nodes)) if i != j):
            merged = merge(nodes, i, j)
            if isinstance(merged, Fused) and _stays_acyclic(nodes, i, j):
                rest = [n for k, n in enumerate(nodes) if k not in (i, j)]
                nodes = list(in_order(with_borders(g, [*rest, merged])))
                changed = True
                break
    return nodes
