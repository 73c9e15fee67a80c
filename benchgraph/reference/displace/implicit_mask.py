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

CONDITION, CHOICES = 0, (1, 2)


def find(graph: Graph) -> Iterator[Displaced]:
    for op in computing(graph, Computes.choice):
        computed = [port for port in CHOICES if source(graph, op.inputs[port]) is None]
        if len(computed) != 1 or softmax_behind(graph, op) is None:
            continue
        (selected,) = computed
        condition, fill = source(graph, op.inputs[CONDITION]), source(graph, op.inputs[3 - selected])
        if condition is not None:
            yield Displaced(condition.tensor.id, Filling("always the computed one", constant(float(selected == CHOICES[0])).make))
        elif fill is not None:
            yield Displaced(fill.tensor.id, constant(-inf))
