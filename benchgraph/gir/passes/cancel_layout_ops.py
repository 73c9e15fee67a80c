"""cancel-layout-ops: layout ops that together leave elements in their order become one StaticReshape, or nothing.

%2: [1,24,16] = StaticTranspose(%1: [1,16,24])
%3: [1,24,4,4] = StaticReshape(%2)                           %6 = MatMul(%1, %w)
%4: [1,24,16] = StaticReshape(%3)                    ->      %7 = Add(%1, %0)
%5: [1,16,24] = StaticTranspose(%4)
%6 = MatMul(%5, %w)   %7 = Add(%5, %0)

Convolutions on channels first are products between such layout ops. Views would do where the value has one reader; with several, each would
get a copy of its own, and no nest would join the one that makes the value. docs/measurements/whole-networks.md, Channels first
"""

from __future__ import annotations

from dataclasses import replace

from benchgraph.core.attrs import Attrs
from benchgraph.core.tensor import Shape
from benchgraph.gir.ir import Graph, Node, Op
from benchgraph.gir.rewrite import without_dead_ops
from benchgraph.gir.views import Index, layout_form, zeroed
from benchgraph.machine.target import Target
from benchgraph.ops import spec
from benchgraph.ops.spec import LayoutOp
from benchgraph.tir.index import Simplifier
from benchgraph.tir.ir import Var

LONGEST = 8  # layout ops in a run
RESHAPE = "StaticReshape"


def cancel_layout_ops(g: Graph, target: Target) -> Graph:
    same, nodes = dict[int, int](), list[Node]()
    for op in g.ops:
        new = replace(op, ins=tuple(same.get(v, v) for v in op.ins))
        if (v := _origin(g, op)) is not None:
            shape, v = g.value(op.outs[0]).shape, same.get(v, v)
            if g.value(v).shape == shape and op.outs[0] not in g.outs:
                same[op.outs[0]] = v
            else:
                new = Op(RESHAPE, (v,), op.outs, Attrs(shape=shape, special_zero=False))
        nodes.append(new)
    return without_dead_ops(replace(g, nodes=tuple(nodes))) if tuple(nodes) != g.nodes or same else g


def _origin(g: Graph, last: Op) -> int | None:
    """The farthest value from which the layout ops up to this one, several, take the elements in their order; None if there is none, or
    where no value on the way has several readers."""
    shape = g.value(last.outs[0]).shape
    axes = zeroed(shape, tuple(Var(f"${i}") for i in range(len(shape))))
    simple = Simplifier({axis.name: (0, extent - 1) for axis, extent in zip(axes, shape, strict=True) if isinstance(axis, Var)})
    found, op, index, is_shared = None, last, axes, len(g.consumers[last.outs[0]]) > 1
    for count in range(LONGEST):
        form = layout_form(op)
        if form is None or form.source is None:
            break
        src = g.value(op.ins[0])
        index = zeroed(src.shape, tuple(map(simple, form.source(op.attrs, src.shape, g.value(op.outs[0]).shape, index))))
        is_shared |= len(g.consumers[src.id]) > 1
        is_whole = src.type.elements == g.value(last.outs[0]).type.elements
        if count and is_shared and is_whole and index == _in_order(src.shape, shape, axes, simple):
            found = src.id
        maker = g.producer.get(src.id)
        if not isinstance(maker, Op):
            break
        op = maker
    return found


def _in_order(src: Shape, dst: Shape, at: Index, simple: Simplifier) -> Index:
    """The index in src of the element at this index of dst, which has the same elements in the same order."""
    form = spec(RESHAPE).lowering.form
    assert isinstance(form, LayoutOp)
    assert form.source is not None
    return zeroed(src, tuple(map(simple, form.source(Attrs(shape=dst, special_zero=False), src, dst, at))))
