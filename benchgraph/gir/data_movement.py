"""Questions about layout ops: ops that only move elements."""

from __future__ import annotations

from benchgraph.core.memoise import memoised
from benchgraph.gir.ir import Graph, Node, Op
from benchgraph.ops.spec import DataMovement


def movement(node: Node | None) -> DataMovement | None:
    """How a layout op moves its only operand; None for all other nodes."""
    form = node.lowering.form if isinstance(node, Op) else None
    return form if isinstance(form, DataMovement) and isinstance(node, Op) and len(node.ins) == 1 else None


def is_moved_input(g: Graph, v: int) -> bool:
    """Whether a value is an input of the graph or only a layout op away from one: its readers can then read the input through a view."""
    return v in _moved_inputs(g)


@memoised
def _moved_inputs(g: Graph) -> frozenset[int]:
    values = set(g.ins)
    for node in g.nodes:
        if movement(node) is not None and node.ins[0] in values:
            values.add(node.outs[0])
    return frozenset(values)
