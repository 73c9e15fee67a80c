"""Questions about movements of data that several passes ask."""

from __future__ import annotations

from benchgraph.core.remember import remembered
from benchgraph.gir.ir import Graph, Node, Op
from benchgraph.ops import spec
from benchgraph.ops.spec import DataMovement


def movement(node: Node | None) -> DataMovement | None:
    """How an op moves its only operand; None for all others."""
    how = spec(node.kind).lowering.form if isinstance(node, Op) else None
    return how if isinstance(how, DataMovement) and isinstance(node, Op) and len(node.ins) == 1 else None


def is_given(g: Graph, v: int) -> bool:
    """Whether a value is an input, or one that has only been moved: then readers can read the input, through the movements."""
    return v in _given(g)


@remembered
def _given(g: Graph) -> frozenset[int]:
    found = set(g.ins)
    for node in g.nodes:
        if movement(node) is not None and node.ins[0] in found:
            found.add(node.outs[0])
    return frozenset(found)
