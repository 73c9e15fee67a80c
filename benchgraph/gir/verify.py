"""What every Graph IR graph satisfies. A violation is a bug of ours, and names the op."""

from __future__ import annotations

from benchgraph.core.errors import BenchgraphError
from benchgraph.gir.ir import Fused, Graph, Op
from benchgraph.gir.text import print_gir


class GirError(BenchgraphError):
    """An invalid Graph IR graph."""


def verify(g: Graph) -> None:
    """Values are defined before use, written once, typed as their ops infer, and views end in values with buffers."""
    known = {v.id for v in g.values}
    written = set(g.ins) | {v.id for v in g.values if v.literal is not None}
    for node in g.nodes:
        ops = node.ops if isinstance(node, Fused) else (node,)
        for op in ops:
            _check(g, op, known, written)
            written |= {g.root(v) for v in op.outs}
    for v in g.outs:
        if g.root(v) not in written:
            raise GirError(f"output %{v} is never written\n{print_gir(g)}", where="Graph IR")


def _check(g: Graph, op: Op, known: set[int], written: set[int]) -> None:
    for v in (*op.ins, *op.outs):
        if v not in known:
            raise GirError(f"{op.kind} uses %{v}, which the graph does not declare", where="Graph IR")
    for v in op.ins:
        if g.root(v) not in written:
            raise GirError(f"{op.kind} reads %{v} before it is written\n{print_gir(g)}", where="Graph IR")
    for v in op.outs:
        if g.root(v) in written:
            raise GirError(f"{op.kind} writes %{v}, which already has a value\n{print_gir(g)}", where="Graph IR")
        view = g.value(v).view
        if view is not None and not view.inverse:
            raise GirError(f"{op.kind} writes %{v}, which is a read-only view", where="Graph IR")
