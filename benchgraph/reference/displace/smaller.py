"""Operands of a Minimum whose result is used further. Our own rule: benchdnn fills them like any operands.

    s = Minimum(%a, %b); ReLU(s)   -> %a, %b: -8 .. 24 without 0

The minimum of numbers of either sign is negative three times of four, and a ReLU makes zeros of it, which prove little. These numbers are
positive three times of four, and so are 9 of 16 minima.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchgraph.graph.ir import Graph
from benchgraph.ops.fill_rules.filling import choices
from benchgraph.ops.spec import Computes
from benchgraph.reference.displace.rule import Displaced, computing, next_computing, source

NUMBERS = (*range(-8, 0), *range(1, 25))


def find(graph: Graph) -> Iterator[Displaced]:
    for op in computing(graph, Computes.minimum):
        given = [origin for t in op.inputs if (origin := source(graph, t)) is not None]
        if len(given) == len(op.inputs) and next_computing(graph, op) is not None:
            yield from (Displaced(origin.tensor.id, choices(NUMBERS)) for origin in given if not origin.is_dequantised)
