"""A mask that selects scores.

Select(computed condition, s, %fill) before softmax   -> %fill: -inf
Select(%condition, s, %fill) before softmax           -> %condition: always s
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from benchgraph.graph.ir import Graph
from benchgraph.ops.fill_rules.filling import constant
from benchgraph.ops.spec import Computes, Filling
from benchgraph.reference.displace.rule import Displaced, computing, softmax_behind, source


def find(graph: Graph) -> Iterator[Displaced]:
    for op in computing(graph, Computes.choice):
        condition, first, second = (source(graph, t) for t in op.inputs)
        if (first is None) == (second is None) or softmax_behind(graph, op) is None:
            continue
        if condition is not None:
            yield Displaced(condition.tensor.id, Filling("always the computed one", constant(float(first is None)).make))
        elif (fill := first or second) is not None:
            yield Displaced(fill.tensor.id, constant(-inf))
