"""dead-op: ops whose results nothing uses are dropped, and values that no op mentions.

%1 = ReLU(%0)          ->   %2 = Exp(%0)
%2 = Exp(%0)                return %2
return %2
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.gir.ir import Graph, Node
from benchgraph.machine.target import Target


def dead_op(g: Graph, target: Target) -> Graph:
    live = {g.root(v) for v in g.outs}
    kept: list[Node] = []
    for node in reversed(g.nodes):
        if any(g.root(v) in live for v in node.outs):
            kept.append(node)
            live.update(g.root(v) for v in node.ins)
    mentioned = {*g.ins, *g.outs} | {v for node in kept for v in (*node.ins, *node.outs)}
    mentioned |= {g.root(v) for v in mentioned} | _bases(g, mentioned)
    values = tuple(v for v in g.values if v.id in mentioned)
    if len(kept) == len(g.nodes) and len(values) == len(g.values):
        return g
    return replace(g, nodes=tuple(reversed(kept)), values=values)


def _bases(g: Graph, ids: set[int]) -> set[int]:
    """Every value on the way from a view to its root."""
    bases: set[int] = set()
    for id in ids:
        view = g.value(id).view
        while view is not None:
            bases.add(view.base)
            view = g.value(view.base).view
    return bases
