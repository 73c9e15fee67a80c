"""What every Graph IR graph satisfies. A violation is a bug of the compiler, and names the op or value."""

from __future__ import annotations

from benchgraph.core.errors import BenchgraphError
from benchgraph.gir.ir import Graph, Op
from benchgraph.gir.text import print_gir


class GirError(BenchgraphError):
    """An invalid Graph IR graph."""


def verify(g: Graph) -> None:
    """Values are written before they are read, once, as a whole or in parts, and constant only if made of constants; layout ops convert
    nothing; views end in values with buffers."""
    for v in g.values:
        if v.literal is not None and v.dtype.is_packed:
            raise GirError(f"the literal %{v.id} is {v.dtype.value}, two elements to a byte; only inputs can be", where="Graph IR")
    written = _Written(g)
    for op in g.ops:
        _check(g, op, written)
    for out in g.outs:
        if not written.has(out):
            raise GirError(f"output %{out} is never written", where="Graph IR", shown=print_gir(g))


class _Written:
    """What has been written so far. A buffer may be written in parts, through several views, which move elements one to one: parts with as
    many elements as the buffer, each written once, are the whole buffer."""

    def __init__(self, g: Graph) -> None:
        self.g = g
        self.missing = {v.id: v.type.elements for v in g.values if v.view is None}
        self.complete = set(g.ins) | {v.id for v in g.values if v.literal is not None}
        self.values: set[int] = set()

    def has(self, id: int) -> bool:
        return self.g.root(id) in self.complete

    def add(self, id: int) -> bool:
        """Record that an op writes this value; False when it, or its buffer, has been written before."""
        root = self.g.root(id)
        if root in self.complete or id in self.values:
            return False
        self.values.add(id)
        self.missing[root] -= self.g.value(id).type.elements
        if self.missing[root] == 0:
            self.complete.add(root)
        return self.missing[root] >= 0


def _check(g: Graph, op: Op, written: _Written) -> None:
    for v in (*op.ins, *op.outs):
        if v not in g.by_id:
            raise GirError(f"{op.kind} uses %{v}, which the graph does not declare", where="Graph IR")
    dtypes = [g.value(v).dtype for v in (*op.ins, *op.outs)]
    if op.lowering.is_layout_op and len(set(dtypes)) > 1:
        shown = ", ".join(dtype.value for dtype in dtypes)
        raise GirError(f"{op.kind} of %{op.ins[0]} moves elements and does not convert them: {shown}", where="Graph IR", shown=print_gir(g))
    for v in op.ins:
        if not written.has(v):
            raise GirError(f"{op.kind} reads %{v} before it is written", where="Graph IR", shown=print_gir(g))
        if not g.value(v).is_constant and (constant := next((out for out in op.outs if g.value(out).is_constant), None)) is not None:
            raise GirError(f"{op.kind} makes the constant %{constant} of %{v}, which is not constant", where="Graph IR", shown=print_gir(g))
    for v in op.outs:
        if g.value(v).is_constant and not g.value(g.root(v)).is_constant:
            what = f"{op.kind} makes the constant %{v} as a part of %{g.root(v)}, which is none"
            raise GirError(what, where="Graph IR", shown=print_gir(g))
        view = g.value(v).view
        if view is not None and not view.inverse:
            raise GirError(f"{op.kind} writes %{v}, which is a read-only view", where="Graph IR")
        if not written.add(v):
            raise GirError(f"{op.kind} writes %{v}, which already has a value", where="Graph IR", shown=print_gir(g))
