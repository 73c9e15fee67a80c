"""Operands of the smaller of two, where more is computed with that. A rule of our own: benchdnn fills them as any operands.

    s = Minimum(%a, %b); ReLU(s)   -> %a, %b: of -8 .. 24 but for 0

Of numbers as often negative as positive, the smaller one is negative three times of four, and a rectifier leaves zeros, which prove little.
These are positive three times of four: so are 9 of 16 of the smaller ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchgraph.graph.ir import Graph
from benchgraph.ops.spec import Computes
from benchgraph.ops.strategies.filling import choices
from benchgraph.reference.displace.rule import Displaced, computing, next_computing, source

NUMBERS = (*range(-8, 0), *range(1, 25))


def find(graph: Graph) -> Iterator[Displaced]:
    for op in computing(graph, Computes.minimum):
        given = [found for t in op.inputs if (found := source(graph, t)) is not None]
        if len(given) == len(op.inputs) and next_computing(graph, op) is not None:
            yield from (Displaced(found.tensor.id, choices(NUMBERS)) for found in given if not found.is_dequantised)
