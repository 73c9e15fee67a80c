"""Which op of the partition each op of its compiled form comes from, found from the graphs between the passes alone.

Passes keep the ids of values whose elements stay the same, so the op that makes such a value computes the op that made it at first. Values
that a pass adds are on the way to those: their makers take the origin of the first of their readers that has one.

%2 = SoftMax(%1)       %3 = Exp(%1)             of %2, which reads the sum of it
%4 = ReLU(%2)     ->   %2 = Divide(%3, ...)     SoftMax
                       %4 = ReLU(%2)            ReLU
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from benchgraph.gir.ir import Graph


def origins(graphs: Sequence[Graph]) -> dict[int, int]:
    """Of the values that ops of the last graph make: the position, in the first graph, of the op that they are part of. graphs: before the
    first pass, and after each."""
    known = {v: position for position, op in enumerate(graphs[0].ops) for v in op.outs}
    for before, after in pairwise(graphs):
        if after is not before:
            known = _carried(known, before, after)
    return known


def _carried(known: dict[int, int], before: Graph, after: Graph) -> dict[int, int]:
    """The origins after one pass."""
    left_as = {new: known[old] for old, new in zip(before.outs, after.outs, strict=True) if old in known}
    found, read_by = dict[int, int](), dict[int, int]()
    for op in reversed(after.ops):
        for v in op.outs:
            origin = known.get(v, left_as.get(v, read_by.get(v, read_by.get(after.root(v)))))
            if origin is not None:
                found[v] = origin
        if (origin := next((found[v] for v in op.outs if v in found), None)) is not None:
            for v in op.ins:
                read_by[v] = read_by[after.root(v)] = origin
    return found
