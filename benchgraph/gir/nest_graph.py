"""Fused ops as a graph: what crosses their borders, dependences, a topological order, and merging of pairs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeAlias

from benchgraph.core.memoise import memoised, memoised_within
from benchgraph.gir.closure import closure
from benchgraph.gir.ir import FusedOp, Graph, Op, Stage


def with_borders(g: Graph, nodes: Sequence[FusedOp]) -> list[FusedOp]:
    """The nodes with ins and outs that follow from their ops and those of the others."""
    nests = NestGraph(g, nodes)
    return [nests.with_border(key) for key in nests.order]


def topological_order(nodes: Sequence[FusedOp]) -> list[int]:
    """The positions of the nodes in topological order, stable."""
    makers = defaultdict[int, list[int]](list)
    for i, n in enumerate(nodes):
        for v in n.outs:
            makers[v].append(i)

    def before(i: int) -> Iterator[int]:
        return (maker for v in nodes[i].ins for maker in makers.get(v, ()))

    done, begun = list[int](), set[int]()
    for start in range(len(nodes)):
        path = [] if start in begun else [(start, before(start))]
        begun.add(start)
        while path:
            i, left = path[-1]
            needed = next((maker for maker in left if maker not in begun), None)
            if needed is None:
                done.append(i)
                path.pop()
            else:
                begun.add(needed)
                path.append((needed, before(needed)))
    return done


def nest_of(g: Graph, stages: Sequence[Stage]) -> FusedOp:
    """A nest of these stages alone."""
    ops = [op for stage in stages for op in stage.ops]
    made = dict.fromkeys(g.root(v) for op in ops for v in op.outs)
    inside, everywhere = Counter(v for op in ops for v in _read(g, op)), _readers(g)
    return FusedOp("", tuple(stages), tuple(v for v in inside if v not in made), tuple(v for v in made if everywhere[v] > inside[v]))


def _read(g: Graph, op: Op) -> set[int]:
    return {g.root(v) for v in op.ins}


@memoised
def _readers(g: Graph) -> Counter[int]:
    """By buffer, how many ops read it; one more where it leaves the graph."""
    return Counter(chain((v for op in g.ops for v in _read(g, op)), map(g.root, g.outs)))


@memoised_within
def _buffers(g: Graph, ops: tuple[Op, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Those that ops read and write, with repetitions."""
    return tuple(g.root(v) for op in ops for v in op.ins), tuple(g.root(v) for op in ops for v in op.outs)


class NestGraph:
    """Nodes that are merged pair by pair, with the makers and readers of each buffer.

    A node is known by a number, `nests[i]`; a merged node keeps one of the two. order: the numbers in topological order. makers, readers:
    of every buffer, the nodes whose ops write and read it, whether it crosses their borders or not.
    """

    def __init__(self, g: Graph, nodes: Sequence[FusedOp]) -> None:
        self.g, self.order = g, [*range(len(nodes))]
        self._nodes, self._graph_outs = dict(enumerate(nodes)), frozenset(g.outs)
        self.makers, self.readers = (defaultdict[int, set[int]](set) for _ in range(2))
        for key, stage in ((key, stage) for key, node in self._nodes.items() for stage in node.stages):
            read, made = _buffers(g, stage.ops)
            for values, by in ((read, self.readers), (made, self.makers)):
                for v in values:
                    by[v].add(key)
        # reader -> its makers that have not been tried since either changed
        self._untried = {key: self._sources(key) for key in self.order}
        self._is_ordered = topological_order(nodes) == self.order

    def __getitem__(self, key: int) -> FusedOp:
        return self._nodes[key]

    @property
    def nodes(self) -> list[FusedOp]:
        return [self._nodes[key] for key in self.order]

    def is_used_beyond(self, buffers: Iterable[int], pair: Collection[int]) -> bool:
        """Whether a node outside of this pair reads or writes one of these buffers, or it is an output of the graph."""
        return any(v in self._graph_outs or not (self.makers[v] | self.readers[v]).issubset(pair) for v in buffers)

    def is_read_beyond(self, buffer: int, pair: Collection[int]) -> bool:
        """Whether a buffer is read by a node outside of this pair that does not write it, or it is an output of the graph."""
        return buffer in self._graph_outs or not (self.readers[buffer] - self.makers[buffer]).issubset(pair)

    def pairs(self) -> Iterator[tuple[int, int]]:
        """All (i, j) where j reads a result of i, in order."""
        return ((i, j) for i in self.order for j in self._sorted(self._readers_of(i)))

    def first_pair(self, merge: Merge) -> tuple[int, int, FusedOp] | None:
        """The first pair, in the order of readers, that can be merged, and the merged node."""
        for j in self.order:
            for i in self._sorted(self._untried[j]):
                merged = merge(self, i, j)
                if isinstance(merged, FusedOp) and self._stays_acyclic(i, j):
                    return i, j, merged
                self._untried[j].discard(i)  # refused until one of the two changes
        return None

    def merge(self, i: int, j: int, merged: FusedOp) -> None:
        """Replace nodes i and j by a node of all their ops."""
        kept, gone = sorted((i, j), key=lambda key: len(self[key].stages), reverse=True)
        outs = {*self[i].outs, *self[j].outs}
        read, made = zip(*(_buffers(self.g, stage.ops) for stage in self[gone].stages), strict=True)
        for values, by in ((read, self.readers), (made, self.makers)):
            for v in chain(*values):
                by[v].discard(gone)
                by[v].add(kept)
        self._nodes[kept] = merged
        del self._nodes[gone], self._untried[gone]
        self._nodes[kept] = self.with_border(kept, outs)
        self._untried[kept] = self._sources(kept)
        readers = self._readers_of(kept)
        for reader in readers:
            self._untried[reader].discard(gone)
            self._untried[reader].add(kept)
        self._place(kept, gone, readers)

    def with_border(self, key: int, among: Collection[int] | None = None) -> FusedOp:
        """A node with its ins and outs. among: the buffers that can be outs; None: all."""
        node = self[key]
        read, made = (dict.fromkeys(chain(*each)) for each in zip(*(_buffers(self.g, s.ops) for s in node.stages), strict=True))
        outs = (v for v in made if among is None or v in among)
        needed = tuple(v for v in outs if v in self._graph_outs or not self.readers[v] <= {key})
        return replace(node, ins=tuple(v for v in read if v not in made), outs=needed)

    def _sources(self, key: int) -> set[int]:
        return {maker for v in self[key].ins for maker in self.makers.get(v, ()) if maker != key}

    def _readers_of(self, key: int) -> set[int]:
        return {reader for v in self[key].outs for reader in self.readers[v] - self.makers[v]}

    def _sorted(self, keys: Collection[int]) -> list[int]:
        return sorted(keys, key=self.order.index) if len(keys) > 1 else [*keys]

    def _stays_acyclic(self, i: int, j: int) -> bool:
        """Whether no path from i to its reader j runs through a third node."""
        begin, end = map(self.order.index, (i, j))
        between = {*self.order[begin + 1 : end]} if self._is_ordered else {*self.order} - {i, j}
        paths = closure(i, lambda key: self._readers_of(key) & between) if between else ()
        return all(key == i or j not in self._readers_of(key) for key in paths)

    def _place(self, kept: int, gone: int, readers: Collection[int]) -> None:
        """Put the merged node right before its first reader and leave the rest in place; if that is not a topological order, sort anew."""
        self.order.remove(gone)
        self.order.remove(kept)
        at = min(map(self.order.index, readers), default=len(self.order))
        if self._is_ordered and self._untried[kept].isdisjoint(self.order[at:]):
            self.order.insert(at, kept)
        else:
            self.order.append(kept)
            self.order = [self.order[i] for i in topological_order(self.nodes)]
            self._is_ordered = True


Merge: TypeAlias = Callable[[NestGraph, int, int], FusedOp | str | None]


def merge_pairs(g: Graph, nodes: Sequence[FusedOp], merge: Merge) -> NestGraph:
    """The nodes when no pair can be merged any more. merge(nests, i, j): node i and its reader j as one; anything else where they cannot be
    one, which holds until one of them changes."""
    nests = NestGraph(g, nodes)
    while (pair := nests.first_pair(merge)) is not None:
        nests.merge(*pair)
    return nests
